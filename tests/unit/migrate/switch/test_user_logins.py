"""What the preflight says of logins that kproxies have tried: what stops, what does not, and what exactly was tried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kproxy.base.address import Address
from kproxy.base.diagnostic import Diagnostic
from kproxy.base.errors import AdminError
from kproxy.migrate.clusters.inventory import Acl, Inventory
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.expected_users import ExpectedUser
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet
from kproxy.migrate.switch.user_logins import UserResult, check_planned_logins, check_users, judge_users
from kproxy.protocol.wire.acls import Right
from kproxy.proxy.admin.client import AdminClient
from kproxy.proxy.switching.userchecks import LoginOutcome, UserCheck
from tests.harness.process import free_window

WRITE, READ = Right("Write", "Topic", "orders"), Right("Read", "Group", "g")
ALICE = ExpectedUser("alice", "sa-1", is_listed=True, has=("2 ACLs",), rights=(WRITE, READ))
BOB = ExpectedUser("bob", "bob", is_seen=True)
OLD = ExpectedUser("old", "old", has=("1 quota",))
OWN = UserCheck(LoginOutcome.OWN, "sa-1")
MISSING = UserCheck(LoginOutcome.MISSING, problem="long story")


def found(user: ExpectedUser, *checks: UserCheck, **rights: bool | str) -> list[str]:
    """What is found of a user, with a check of each kproxy; `rights`: of each, the first letter of its operation."""
    results = {
        right: rights[right.operation[0].lower()] for right in user.rights if right.operation[0].lower() in rights
    }
    by_kproxy = {f"kp-{n}": {user.name: UserResult(check, dict(results))} for n, check in enumerate(checks, 1)}
    return lines(judge_users([user], by_kproxy, "green"))


def lines(findings: object) -> list[str]:
    return [f"{one.severity}: {one.subject}: {one.text}" for one in findings]  # type: ignore[attr-defined]


def test_all_is_well() -> None:
    assert found(ALICE, OWN, OWN, w=True, r=True) == [
        "note: users: kp-1, kp-2 logged in at green for alice (sa-1), and the brokers there allow them each right that was"
        " tried: 1 on Group, 1 on Topic, those that ACLs of the source give to these users alone, or that their"
        " clients were observed to use. Nothing was read or written"
    ]
    assert found(BOB, UserCheck(LoginOutcome.OWN, "bob")) == [
        "note: users: kp-1 logged in at green for bob; no right was tried"
    ]


def test_no_login() -> None:
    text = "has no login for green: kproxy users login FILE {0} green, or let credentials-command or default-login have one"
    assert found(ALICE, MISSING, OWN, w=True, r=True) == [f"error: user alice: kp-1: {text.format('alice')}"]
    assert found(BOB, MISSING, MISSING) == [f"error: user bob: kp-1, kp-2: {text.format('bob')}"]
    assert found(OLD, MISSING) == [f"warning: user old: kp-1: {text.format('old')}"]
    results = {"kp": {"old": UserResult(MISSING)}}
    assert next(judge_users([OLD], results, "green")).why == "On the source: 1 quota."


@pytest.mark.parametrize("outcome", [LoginOutcome.REFUSED, LoginOutcome.FAILED])
def test_a_login_that_fails(outcome: LoginOutcome) -> None:
    assert found(ALICE, UserCheck(outcome, problem="no")) == ["error: user alice: kp-1: cannot log in at green: no"]


def test_missing_rights() -> None:
    assert found(ALICE, OWN, w=False, r=True) == [
        "error: user alice: logs in at green as sa-1, and is not allowed there: Write Topic orders"
    ]
    assert found(ALICE, OWN, OWN, w=False, r=False) == [
        "error: user alice: logs in at green as sa-1, and is not allowed there: Write Topic orders, Read Group g"
    ]


def test_rights_that_are_not_known() -> None:
    assert found(ALICE, OWN, w="too old", r=True) == [
        "warning: user alice: kp-1 could not find out at green whether it is allowed: Write Topic orders (too old)"
    ]


def test_a_login_as_another_user() -> None:
    other = UserCheck(LoginOutcome.OWN, "sa-2")
    text = "kp-1 logs in at green as sa-2 for {}, and ACLs and quotas are copied for {}: correct users in the file, or the login"
    assert found(ALICE, other, w=True, r=True) == [f"error: user alice: {text.format('alice', 'sa-1')}"]
    assert found(BOB, other) == [f"warning: user bob: {text.format('bob', 'bob')}"]
    assert not [line for line in found(BOB, UserCheck(LoginOutcome.OWN)) if "warning" in line]  # a token


def test_logins_that_users_share_or_make_themselves() -> None:
    shared = UserCheck(LoginOutcome.SHARED, "kproxy")
    assert found(BOB, shared) == [
        "note: users: kp-1: green: all users share kproxy's own login there (login-as: user would give each a login)"
    ]
    assert found(ALICE, shared, w=True, r=True)[0].startswith("error: user alice: kp-1 logs in at green as kproxy for")
    assert found(BOB, UserCheck(LoginOutcome.NO_LOGIN_NEEDED)) == [
        "note: users: kp-1: green: the brokers demand no login: all users are the same to them"
    ]
    assert found(ALICE, UserCheck(LoginOutcome.PASSED_THROUGH)) == [
        "note: users: kp-1: green: clients log in there themselves: kproxy cannot try whether they can"
    ]


class Answering(AdminClient):
    """A kproxy that answers each request with this outcome, or this error."""

    def __init__(self, answer: LoginOutcome | AdminError | object) -> None:
        super().__init__(Address("127.0.0.1", 1))
        self.answer = answer
        self.bodies: list[dict[str, dict[str, list[object]]]] = []

    def post(self, path: str, value: object, also: object = (), seconds: float | None = None) -> object:
        assert path == "/switch/logins"
        assert isinstance(value, dict)
        self.bodies.append(value)
        if isinstance(self.answer, AdminError):
            raise self.answer
        if not isinstance(self.answer, LoginOutcome):
            return self.answer
        checks = {
            user: UserCheck(self.answer, "sa-1", rights=tuple(True for _ in rights)).to_json()
            for user, rights in value["users"].items()
        }
        return {"problem": "", "users": checks}


def asked(users: list[ExpectedUser], *answers: object) -> tuple[list[Diagnostic], list[Answering]]:
    clients = [Answering(answer) for answer in answers]
    with KproxyFleet([Kproxy(f"kp-{n}", client, "default") for n, client in enumerate(clients, 1)]) as fleet:
        return list(check_users(fleet, users, "green")), clients


def test_every_kproxy_is_asked_once() -> None:
    findings, clients = asked([ALICE], LoginOutcome.OWN, LoginOutcome.OWN)
    assert [one.severity for one in findings] == ["note"]
    assert [len(client.bodies) for client in clients] == [1, 1]
    assert asked([], LoginOutcome.OWN)[1][0].bodies == []


def test_many_rights_are_asked_in_several_requests() -> None:
    rights = tuple(Right("Read", "Group", f"{n}-{'g' * 200}") for n in range(100))
    findings, (client,) = asked([ExpectedUser("alice", "sa-1", rights=rights)], LoginOutcome.OWN)
    assert len(client.bodies) > 1
    assert "100 on Group" in findings[0].text


@pytest.mark.parametrize(
    ("answer", "severity", "text"),
    [
        (AdminError("no such page", 404), "warning", "has not tried whether users can log in at green: no such page"),
        (AdminError("no answer"), "error", "has not tried whether users can log in at green: no answer"),
        ({"problem": "busy", "users": {}}, "error", "kp-1 refuses: busy"),
        ([], "error", "kp-1 returned no valid reply at /switch/logins"),
    ],
)
def test_a_kproxy_that_has_not_tried(answer: object, severity: str, text: str) -> None:
    (finding,), _ = asked([ALICE], answer)
    assert (finding.severity, finding.subject) == (severity, "kproxy kp-1")
    assert text in finding.text
    (finding,), _ = asked([OLD], answer)
    assert finding.severity == "warning"


# In a plan

ACLS = (Acl(3, "g", 3, "User:alice", "*", 3, 3), Acl(3, "g", 3, "User:old", "*", 3, 3))
SOURCE = Inventory("id", (4,), (), {}, acls=ACLS)


def section(port: int, tmp_path: Path) -> SwitchSection:
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("a-token-of-the-tests")
    return SwitchSection(KproxySelection((f"127.0.0.1:{port}",)), "green", token_file=tmp_path / "token")


def test_a_plan_without_kproxies_names_who_was_not_tried() -> None:
    migration = Migration({}, {}, users={"alice": "sa-1"})
    text = "note: users: the file names no kproxies (switch) that could try the logins of alice, old"
    assert lines(check_planned_logins(migration, SOURCE)) == [text]
    assert lines(check_planned_logins(Migration({}, {}), replace(SOURCE, acls=()))) == []


def test_a_plan_only_warns(tmp_path: Path) -> None:
    migration = Migration({}, {}, users={"alice": "sa-1"}, switch=section(free_window(1), tmp_path))
    (finding,) = check_planned_logins(migration, SOURCE)
    assert finding.severity == "warning"
    assert "has not tried whether users can log in at green" in finding.text
    (tmp_path / "token").chmod(0o644)
    (line,) = lines(check_planned_logins(migration, SOURCE))
    assert line.startswith("warning: users: no login was tried: switch.token-file: ")
