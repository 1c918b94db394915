"""Clients that were switched by themselves, and go back: which, who is in the way, and where their positions are."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, MovedPart, SwitchEntry
from kproxy.migrate.offsets.positions import END, EXACT, NEXT, translate
from kproxy.migrate.switch.client_selection import ClientSelection
from kproxy.migrate.switch.inverse_offset_map import invert_maps
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.partial_rollback import check_part, select_moved_part
from kproxy.proxy.switching.parts import Part
from kproxy.proxy.switching.twophase import JournalDecision

G = MovedPart("only-g", ("consumer-g-#",), ("g",))
H = MovedPart("only-h", ("h-1", "h-2"), ("h", "i"))
WRITER = MovedPart("only-w", ("w",), (), writes=True)


def entry(what: str, record: JournalDecision, part: MovedPart, others: tuple[MovedPart, ...]) -> SwitchEntry:
    origin, to = ("blue", "green") if what == SWITCHING else ("green", "blue")
    decisions = (("000001-a", JournalDecision.BEGUN.value), ("000001-a", record.value))
    return SwitchEntry(
        "s", what, f"default/{part.name}", origin, to, ("k",), decisions, clients=part.clients, groups=part.groups,
        parts=others,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("what", "record", "there"),
    [
        (SWITCHING, JournalDecision.RELEASED, (H, G)),
        (SWITCHING, JournalDecision.UNDONE, (H,)),
        (ROLLBACK, JournalDecision.RELEASED, (H,)),
        (ROLLBACK, JournalDecision.UNDONE, (H, G)),
    ],
)
def test_which_parts_are_on_the_target(what: str, record: JournalDecision, there: tuple[MovedPart, ...]) -> None:
    one = entry(what, record, G, (H,))
    assert one.parts_on_target == there
    assert (one.is_moved, one.source_upstream, one.target_upstream) == (False, "blue", "green")
    assert SwitchEntry.read(json.dumps(one.to_record()).encode()) == one


def test_which_is_led_back() -> None:
    assert select_moved_part([G], None) == G
    assert select_moved_part([G, H], ClientSelection(("h",))) == H
    assert select_moved_part([G, H], ClientSelection(("i",), ("h-2",))) == H
    with pytest.raises(ConfigError, match=r"which clients\? .* group=g; group=h, group=i"):
        select_moved_part([G, H], None)
    with pytest.raises(
        ConfigError, match="were not moved to the target together; on the target are group=g; group=h, group=i"
    ):
        select_moved_part([G, H], ClientSelection(("g", "h")))
    for only in (None, ClientSelection(("g",))):
        with pytest.raises(ConfigError, match=r"clients w were moved to the target .* have written there"):
            select_moved_part([G, WRITER], only)


def stops(members: Mapping[str, frozenset[str]], connected: list[ConnectedClient]) -> list[str]:
    part = Part(G.name, G.clients)
    return [
        f"{one.subject}: {one.text}" for one in check_part(part, {"g"}, members, connected) if one.severity == "error"
    ]


def test_who_is_in_the_way() -> None:
    member = ConnectedClient("consumer-g-1", "10.0.0.1", reads=True)
    assert stops({"g": frozenset({"consumer-g-1"})}, [member]) == []
    assert stops({}, []) == [], "its positions go back, and who comes with these client ids is led there"
    (text,) = stops({"g": frozenset({"consumer-g-1", "consumer-g-7"})}, [member])
    assert text.startswith("group g: its members consumer-g-7 are on the target"), (
        "it reaches it without these kproxies"
    )
    (text,) = stops({"g": frozenset({"consumer-g-1", "other"})}, [member, ConnectedClient("other", "10.0.0.1")])
    assert text.startswith("group g: its members other are"), "it is none of these clients"
    (text,) = stops({"g": frozenset()}, [ConnectedClient("consumer-g-1", "10.0.0.1", reads=True, writes=True)])
    assert text.startswith("part: consumer-g-1 have written to the target")


def test_positions_turned_round() -> None:
    """On the source 0 to 9, a marker, 11 to 15; on the target 100 to 109, a marker, an aborted attempt of 5, a marker,
    then 117 to 121 and a marker."""
    forth = CopiedPartition("t", 0, "t", 0, 17, 122, 15, 1, OffsetMap([(0, 100, 10), (11, 117, 5)]), target_begin=100)
    known = invert_maps({("t", 0): forth}, {("t", 0): 123, ("t", 1): 0, ("t", 2): 4}, {("t", 1): 30, ("t", 2): 7})

    def back(position: int, partition: int = 0) -> tuple[int | None, str]:
        found = translate(known, "t", partition, position)
        return found.target, found.match

    assert [back(at) for at in (100, 109)] == [(0, EXACT), (9, EXACT)]
    assert [back(at)[0] for at in (110, 111, 113, 117)] == [11] * 4
    assert back(113)[1] == NEXT
    assert [back(at) for at in (122, 123)] == [(17, END)] * 2, "where the copy goes on, the group does"
    assert back(124)[0] is None, "this was not there a moment ago"
    assert [back(0, 1), back(4, 2)] == [(30, END), (7, END)], "nothing was copied: all that the source has is to come"
