"""What a switch waits for in any direction: the sessions of members that were led away from where their group goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from kproxy.base.diagnostic import ERROR
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch import preflight, switch_run
from kproxy.migrate.switch.fleet import KproxyFleet, open_fleet
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.switch_run import SwitchContext, SwitchRun
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.replies import RecordedClient
from kproxy.proxy.switching.parts import Part
from kproxy.proxy.switching.userchecks import LoginOutcome
from tests.harness.servers.fakekproxy import TOKEN, FakeKproxy, serving


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def led(said: list[str]) -> SwitchRun:
    section = SwitchSection(KproxySelection(()), "green")
    return SwitchRun(SwitchContext(None, ANY, ANY, KproxyFleet([]), section, said.append, lambda _: None))


def occupied(monkeypatch: pytest.MonkeyPatch, answers: Iterator[list[str]]) -> list[list[str]]:
    """Answer with these groups, which have members, one list after another; return which groups were asked for."""
    asked: list[list[str]] = []

    def read(_: object, wants: Callable[[str], bool]) -> list[str]:
        asked.append([group for group in ("a", "b") if wants(group)])
        return next(answers)

    monkeypatch.setattr(switch_run, "read_occupied_groups", read)
    monkeypatch.setattr(switch_run, "_POLL_INTERVAL", 0.0)
    return asked


ADMIN: Any = None


def test_it_waits_until_their_sessions_have_ended(
    led: SwitchRun, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = occupied(monkeypatch, iter([["b"], ["b"], []]))
    led.wait_for_sessions(ADMIN, lambda group: True)
    assert asked == [["a", "b"], ["b"], ["b"]], "only those that are left are looked at again"
    assert [line for line in said if "sessions of group b" in line] == said
    assert len(said) == 1
    assert not led.preflight.is_blocked


def test_who_does_not_go_stops_it(led: SwitchRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch_run, "_SESSION_TIMEOUT", 0.0)
    occupied(monkeypatch, iter([["a"]]))
    led.wait_for_sessions(ADMIN, lambda group: True)
    (found,) = led.preflight.findings
    assert (found.severity, found.subject) == (ERROR, "group a")
    assert "has members on the side to which clients are moved" in found.text


def test_who_is_told_to_go_back_waits_no_more(led: SwitchRun, monkeypatch: pytest.MonkeyPatch) -> None:
    occupied(monkeypatch, iter([["a"]]))
    led.abort("SIGINT was given")
    led.wait_for_sessions(ADMIN, lambda group: True)
    assert led.preflight.is_blocked


@pytest.mark.parametrize(
    ("part", "tried"),
    [
        (None, [["alice", "carol", "listed", "observed", "other"]]),
        (Part("p", ("shop-#",)), [["alice", "carol", "observed"]]),
    ],
)
def test_logins_are_tried_for_the_users_of_moved_clients(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: Part | None, tried: list[list[str]]
) -> None:
    """Connected ones and observed ones. If some clients are moved, others count neither in an observation nor in ACLs."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    monkeypatch.setattr(preflight, "read_access", lambda *_: Inventory("id", (4,), (), {}))
    migration = Migration({"bootstrap-servers": "a:1"}, {"bootstrap-servers": "b:1"}, "m", users={"listed": "sa-1"})
    observed = [
        RecordedClient("blue", user, "h", client, "", 1.0, 2.0)
        for user, client in (("observed", "shop-3"), ("other", "audit"), ("", "shop-4"))
    ]
    clients = [ConnectedClient("shop-1", "h", user="alice"), ConnectedClient("shop-2", "h", user="carol")]
    with serving(FakeKproxy({"blue": "A", "green": "B"}, outcomes={"carol": LoginOutcome.REFUSED})) as fake:
        section = SwitchSection(KproxySelection((fake.address,)), "green", token_file=token)
        with open_fleet(section) as fleet:
            context = SwitchContext(
                None, migration, ANY, fleet, section, lambda _: None, lambda _: None,
                usage=ObservedUsage(1.0, 2.0, tuple(observed)),
            )  # fmt: skip
            run = SwitchRun(context)
            run.check_logins(ADMIN, clients, "blue", part, back=True)
        assert [sorted(request.users) for request in fake.checked] == tried
    (stop,) = [
        finding for finding in run.preflight.findings if finding.severity is ERROR and "carol" in finding.subject
    ]
    assert "cannot log in at blue" in stop.text
    assert set(run.users) == {"alice", "carol", "observed", *([] if part else ["other"])}
