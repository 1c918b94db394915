"""Who must be able to log in after a switch, and what the source's ACLs let each of them do."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kproxy.migrate.clusters.inventory import Acl, Inventory, TopicInventory
from kproxy.migrate.spec.migration import GroupSelection, Migration, TopicSelection
from kproxy.migrate.switch.expected_users import ExpectedUser, expected_users, granted_rights, requests_for
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.replies import RecordedClient
from kproxy.protocol.wire.acls import Right
from kproxy.proxy.switching.userchecks import MOST_RIGHTS, MOST_USERS, parse_request

MIGRATION = Migration({}, {}, users={"alice": "sa-1"}, topics=TopicSelection(rename={"b": "eu.b"}, exclude=("x",)))
TOPICS = ("a", "ab", "b")
TOPIC, GROUP, ID, CLUSTER = 2, 3, 5, 4
READ, WRITE, ALL, DESCRIBE = 3, 4, 2, 8


def acl(resource: int, name: str, operation: int = READ, user: str = "alice", **more: object) -> Acl:
    allowed = Acl(resource, name, 3, f"User:{user}", "*", operation, 3)
    return replace(allowed, **more)  # type: ignore[arg-type]


def source(*acls: Acl, **more: object) -> Inventory:
    topics = {name: TopicInventory(name, ()) for name in (*TOPICS, "x")}
    return replace(Inventory("id", (4,), (), topics, acls=acls), **more)  # type: ignore[arg-type]


def shown(*acls: Acl, user: str = "alice") -> list[str]:
    return sorted(map(str, set(granted_rights(acls, user, TOPICS))))


@pytest.mark.parametrize(
    ("given", "rights"),
    [
        (acl(TOPIC, "a", WRITE), ["Write Topic a"]),
        (acl(TOPIC, "a", ALL), ["Read Topic a", "Write Topic a"]),
        (acl(TOPIC, "a", DESCRIBE), []),
        (acl(TOPIC, "no-such"), []),
        (acl(TOPIC, "*"), ["Read Topic a", "Read Topic ab", "Read Topic b"]),
        (acl(TOPIC, "a", pattern=4), ["Read Topic a", "Read Topic ab"]),
        (acl(TOPIC, "*", pattern=4), []),  # topics whose names begin with a star
        (acl(TOPIC, "a", host="10.0.0.1"), []),  # kproxy is another host
        (acl(TOPIC, "a", permission=2), []),
        (acl(TOPIC, "a", user="*"), []),
        (acl(TOPIC, "a", user="Alice"), []),
        (acl(TOPIC, "a", principal="Group:alice"), []),
        (acl(GROUP, "g"), ["Read Group g"]),
        (acl(GROUP, "g", WRITE), []),
        (acl(GROUP, "g-", pattern=4), ["Read Group g-"]),
        (acl(GROUP, "*"), ["Read Group kproxy-migration-any"]),
        (acl(GROUP, "g" * 256), []),
        (acl(ID, "tx", WRITE), ["Write TransactionalId tx"]),
        (acl(ID, "*", ALL), ["Write TransactionalId kproxy-migration-any"]),
        (acl(CLUSTER, "kafka-cluster", ALL), []),
        (acl(99, "a", ALL), []),
    ],
)
def test_rights_of_one_acl(given: Acl, rights: list[str]) -> None:
    assert shown(given) == rights


@pytest.mark.parametrize(
    ("rule", "rights"),
    [
        (acl(TOPIC, "a", WRITE), ["Read Topic a", "Read Topic ab", "Write Topic ab"]),
        (acl(TOPIC, "a", ALL, pattern=4), []),
        (acl(TOPIC, "*", WRITE, user="*"), ["Read Topic a", "Read Topic ab"]),
        (acl(TOPIC, "a", WRITE, user="bob"), ["Read Topic a", "Read Topic ab", "Write Topic a", "Write Topic ab"]),
        (acl(GROUP, "a", WRITE), ["Read Topic a", "Read Topic ab", "Write Topic a", "Write Topic ab"]),
        (acl(TOPIC, "a", WRITE, host="10.0.0.1"), ["Read Topic a", "Read Topic ab", "Write Topic ab"]),
    ],
)
def test_a_rule_that_denies_takes_them_away(rule: Acl, rights: list[str]) -> None:
    assert shown(acl(TOPIC, "a", ALL, pattern=4), replace(rule, permission=2)) == rights


def test_who_is_expected() -> None:
    inventory = source(
        acl(TOPIC, "b", WRITE), acl(TOPIC, "x"), acl(TOPIC, "*", user="*"), acl(GROUP, "g", user="bob"),
        quotas={(("user", "carol"),): {"q": 1.0}, (("user", None),): {"q": 1.0}},
    )  # fmt: skip
    users = expected_users(MIGRATION, inventory, {"bob", "dave"})
    assert users == [
        ExpectedUser("alice", "sa-1", False, True, ("2 ACLs",), (Right("Write", "Topic", "eu.b"),)),
        ExpectedUser("bob", "bob", True, False, ("1 ACL",), (Right("Read", "Group", "g"),)),
        ExpectedUser("carol", "carol", False, False, ("1 quota",)),
        ExpectedUser("dave", "dave", True),
    ]
    assert [user.is_needed for user in users] == [True, True, False, True]
    back = expected_users(MIGRATION, inventory, (), back=True)[0]
    assert (back.login, back.rights) == ("alice", (Right("Write", "Topic", "b"),))


def test_acls_of_groups_that_are_not_moved() -> None:
    """`prepare` does not copy them."""
    migration = replace(MIGRATION, groups=GroupSelection(exclude=("old-*",)))
    inventory = source(acl(GROUP, "old-1"), acl(GROUP, "old-", pattern=4), acl(GROUP, "new"))
    (user,) = expected_users(migration, inventory, ())
    assert [right.name for right in user.rights] == ["new", "old-"]


def test_what_clients_were_observed_to_use() -> None:
    """Also of users without an ACL, such as a super user; what is not moved does not count."""

    def client(user: str, *uses: tuple[str, str]) -> RecordedClient:
        return RecordedClient("blue", user, "10.0.0.1", "c", "", 1.0, 2.0, dict.fromkeys(uses, 2.0))

    usage = ObservedUsage(
        1.0,
        2.0,
        (
            client("root", ("writes", "b"), ("reads", "x"), ("writes", "id:AAAA"), ("admin", "CreateTopics")),
            client("root", ("groups", "g"), ("transactions", "tx"), ("reads", "a")),
            client("", ("writes", "a")),
            client("alice", ("writes", "a")),
        ),
    )
    alice, root = expected_users(MIGRATION, source(acl(TOPIC, "a", WRITE), acl(GROUP, "g")), (), usage)
    assert (alice.name, root.name) == ("alice", "root")
    assert root.is_needed
    assert sorted(map(str, root.rights)) == [
        "Read Group g", "Read Topic a", "Write Topic eu.b", "Write TransactionalId tx",
    ]  # fmt: skip
    assert sorted(map(str, alice.rights)) == ["Read Group g", "Write Topic a"]


def test_acls_that_could_not_be_read() -> None:
    assert expected_users(MIGRATION, source(acls=None), ()) == [ExpectedUser("alice", "sa-1", False, True)]


def test_very_many_rights_are_cut_and_counted() -> None:
    acls = [acl(GROUP, f"g{n:04}") for n in range(1000)]
    (user,) = expected_users(MIGRATION, source(*acls), ())
    assert (len(user.rights), user.left_out) == (400, 600)


def test_requests_fit_what_a_kproxy_takes() -> None:
    """All users and rights arrive, each right once, in bodies of bounded size."""
    users = [
        ExpectedUser(f"user-{n}-" + "ü" * 40, "x", rights=tuple(Right("Read", "Group", f"{n}-{m}-" + "ß" * 200) for m in range(n)))
        for n in range(120)
    ]  # fmt: skip
    requests = list(requests_for(users, "default", "green"))
    tried: dict[str, tuple[Right, ...]] = {}
    for request in requests:
        assert len(json.dumps(request.to_json())) <= 40 * 1024
        assert len(request.users) <= MOST_USERS
        assert sum(map(len, request.users.values())) <= MOST_RIGHTS
        assert parse_request(request.to_json()) == request
        for user, rights in request.users.items():
            tried[user] = tried.get(user, ()) + rights
    assert tried == {user.name: user.rights for user in users}
    assert list(requests_for([], "default", "green")) == []
    assert len(list(requests_for([ExpectedUser(str(n), "x") for n in range(51)], "default", "green"))) == 2
