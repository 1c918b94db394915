"""`--only`: what is named, whom that means, and what stands in its way."""

from __future__ import annotations

import json

import pytest

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, MovedPart, SwitchEntry
from kproxy.migrate.spec.migration import Migration, WaveSelection
from kproxy.migrate.switch.client_selection import ClientSelection, parse_selection, select_part, select_wave
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet, MissingKproxy
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.resumption import _fleet_of_switch
from kproxy.proxy.admin.client import AdminClient
from kproxy.proxy.switching.twophase import JournalDecision

MEMBERS = {
    "g": frozenset({"consumer-g-1", "consumer-g-2"}),
    "h": frozenset({"app", "consumer-h-1"}),
    "empty": frozenset[str](),
}


def client(name: str, *, reads: bool = False, writes: bool = False) -> ConnectedClient:
    return ConnectedClient(name, "10.0.0.1", reads=reads, writes=writes)


CONNECTED = [
    client("consumer-g-1", reads=True), client("consumer-g-2", reads=True), client("consumer-h-1", reads=True),
    client("app", reads=True, writes=True), client("writer", writes=True),
]  # fmt: skip


def stops(only: ClientSelection) -> list[str]:
    return [f"{one.subject}: {one.text}" for one in select_part(only, MEMBERS, CONNECTED)[1] if one.severity == "error"]


def test_what_is_named() -> None:
    assert parse_selection([], allow_split_readers=False) is None
    found = parse_selection(["group=g,client-id=a-*", "client-id=b", "transactional-id=t-*"], allow_split_readers=True)
    assert found == ClientSelection(("g",), ("a-*", "b"), ("t-*",), allow_split_readers=True)
    assert [found.includes_transaction(one) for one in ("t-1", "t-", "t", "xt-1")] == [True, True, False, False]


@pytest.mark.parametrize("text", ["", "g", "group=", "groups=g", "group=g,", "topic=t", "transactional-id=t"])
def test_what_names_nobody(text: str) -> None:
    with pytest.raises(ConfigError, match="allowed: group=GROUP"):
        parse_selection([text], allow_split_readers=False)


def test_the_members_of_a_group_with_any_number() -> None:
    chosen, findings = select_part(ClientSelection(("g",)), MEMBERS, CONNECTED)
    assert chosen is not None
    assert (chosen.part.clients, chosen.groups, chosen.writes) == (("consumer-g-#",), {"g"}, False)
    assert [one.severity for one in findings] == ["note", "warning"]
    assert "isolation.level=read_committed" in findings[1].text
    again, _ = select_part(ClientSelection(clients=("consumer-g-#",)), MEMBERS, [])
    assert again is not None
    assert again.part == chosen.part, "the same clients are the same part"


def test_what_stops_it() -> None:
    assert stops(ClientSelection(("empty",)))[0].startswith(
        "only: the source returns no client ids of members of group empty"
    )
    assert stops(ClientSelection(("nowhere",)))[0].startswith(
        "only: the source returns no client ids of members of group nowhere"
    )
    assert stops(ClientSelection(clients=("x" * 101,)))[0].endswith("a client id has 1 to 100 printable characters")
    (text,) = stops(ClientSelection(clients=("consumer-h-1",)))
    assert text.startswith("group h: its members app would stay on the source")
    reading = "only: some of these clients write, and consumer-g-1, consumer-g-2 read on the source"
    assert [one[: len(reading)] for one in stops(ClientSelection(("h",)))] == [reading]
    assert stops(ClientSelection(("h",), allow_split_readers=True)) == []
    assert stops(ClientSelection(("g", "h"))) == []
    (text,) = [
        one.text for one in select_part(ClientSelection(("g",)), MEMBERS, CONNECTED[1:])[1] if one.severity == "error"
    ]
    assert text.startswith("its members consumer-g-1 are not connected through these kproxies")


def test_nobody_is_connected() -> None:
    chosen, findings = select_part(ClientSelection(clients=("later",)), MEMBERS, CONNECTED)
    assert chosen is not None
    assert [one.severity for one in findings] == ["note", "warning"]


WAVES = {
    "shop": WaveSelection(("app", "writer"), ("[hx]",), ("orders",)),
    "glob": WaveSelection(("*-app",), (), ("orders",)),
    "number": WaveSelection(("app-#",), (), ("orders",)),
    "topics": WaveSelection(topics=("orders",)),
    "clients": WaveSelection(clients=("app",)),
    "w" * 63: WaveSelection(("app",), (), ("orders",)),
}


def test_the_clients_of_a_wave() -> None:
    selection = select_wave(Migration({}, {}, waves=WAVES), "shop", allow_split_readers=False)
    chosen, findings = select_part(selection, MEMBERS | {"x": frozenset()}, CONNECTED)
    assert chosen is not None
    assert (chosen.part.name, chosen.part.clients) == ("wave-shop", ("app", "consumer-h-#", "writer"))
    assert (chosen.groups, chosen.writes) == ({"h", "x"}, True), "also a group that has no members now"
    assert [finding.severity for finding in findings] == ["note"], "readers are looked at by topics"
    (text,) = stops(select_wave(Migration({}, {}, waves=WAVES), "w" * 63, allow_split_readers=False))
    assert "the name of a part has 1 to 63" in text


def test_a_wave_that_was_switched_before_keeps_its_part() -> None:
    """A member that has left since does not make another part of it."""
    selection = ClientSelection(("g",), ("app-*",), wave="a")
    for former, expected in (
        (("app-*", "consumer-g-#", "gone-1"), ("app-*", "consumer-g-#", "gone-1")),
        (("a*", "consumer-g-*"), ("a*", "consumer-g-*")),
        (("app-*",), ("app-*", "consumer-g-#")),
        (("app-1", "consumer-g-#"), ("app-*", "consumer-g-#")),
        ((), ("app-*", "consumer-g-#")),
    ):
        chosen, _ = select_part(selection, MEMBERS, CONNECTED, former)
        assert chosen is not None
        assert chosen.part.clients == expected


@pytest.mark.parametrize(
    ("wave", "words"),
    [
        ("none", "the file has no such wave; it has shop, glob"),
        ("glob", r"kproxies cannot route client ids by \*-app"),
        ("number", "kproxies cannot route client ids by app-#"),
        ("topics", "it needs topics, and clients or groups"),
        ("clients", "it needs topics, and clients or groups"),
    ],
)
def test_a_wave_that_cannot_be_switched(wave: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"--wave {wave}: {words}"):
        select_wave(Migration({}, {}, waves=WAVES), wave, allow_split_readers=False)


def test_what_the_journal_says_of_parts() -> None:
    released = (("000001-a", JournalDecision.RELEASED.value),)
    first = SwitchEntry(
        "x", SWITCHING, "default/p", "blue", "green", ("k",), released, clients=("c",), groups=("g",), writes=True
    )
    assert (first.is_moved, first.part, first.parts_on_target) == (False, "p", (MovedPart("p", ("c",), ("g",), True),))
    second = SwitchEntry("y", SWITCHING, "default", "blue", "green", ("k", "k q"), parts=first.parts_on_target)
    assert (second.is_moved, second.parts_on_target) == (False, first.parts_on_target), "it was undone"
    whole = second.with_decision("000001-b", JournalDecision.RELEASED)
    assert (whole.is_moved, whole.parts_on_target) == (True, ())
    back = SwitchEntry("z", ROLLBACK, "default", "green", "blue", ("k",), released, again=True)
    assert (back.is_moved, back.parts_on_target) == (False, ())
    for one in (first, second, whole, back):
        assert SwitchEntry.read(json.dumps(one.to_record()).encode()) == one


def test_who_takes_over_asks_the_same_units() -> None:
    """By the names that they had in the switch, also of kproxies that nobody finds any more."""
    here = Kproxy("one:1", AdminClient(Address("127.0.0.1", 1)), "default")
    with KproxyFleet([here]) as fleet:
        units = [here, here.for_part("some"), Kproxy("two:2", here.client, "default").for_part("some")]
        found = _fleet_of_switch(fleet, [one.name for one in units], "default").kproxies
        assert [(one.name, one.cluster) for one in found] == [(one.name, one.cluster) for one in units]
        assert [isinstance(one.client, MissingKproxy) for one in found] == [False, False, True]
        (of_part,) = _fleet_of_switch(fleet, ["one:1"], "default/some").kproxies
        assert (of_part.name, of_part.cluster, of_part.client) == ("one:1", "default/some", here.client)
