"""Which topics a switch has, and who is on which side: of waves, of parts, and of all else."""

from __future__ import annotations

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.journal.switch_journal import SWITCHING, SwitchEntry
from kproxy.migrate.spec.migration import Migration, WaveSelection
from kproxy.migrate.switch.client_selection import ClientSelection, SelectedPart
from kproxy.migrate.switch.wave_sides import narrow, require_moved_wave, wave_boundary
from kproxy.migrate.usage.waves import Kind, Node
from kproxy.proxy.switching.parts import Part
from kproxy.proxy.switching.twophase import JournalDecision

MIGRATION = Migration({}, {}, waves={"a": WaveSelection(("a-*",), ("a-group*",), ("a.*",))})
MOVED = SwitchEntry(
    "x", SWITCHING, "default/wave-b", "blue", "green", ("k",), (("000001-a", JournalDecision.RELEASED.value),),
    ended=True, clients=("b-*",), groups=("b-group",), wave="b", topics=("b.*",),
)  # fmt: skip


def topics(migration: Migration) -> list[str]:
    return [name for name in ("a.1", "b.1", "c") if migration.selects_topic(name)]


def test_which_topics_are_switched() -> None:
    assert topics(narrow(MIGRATION, None, None)) == ["a.1", "b.1", "c"]
    assert topics(narrow(MIGRATION, None, MOVED)) == ["a.1", "c"], "not those of waves that have gone"
    assert topics(narrow(MIGRATION, ClientSelection(clients=("x",)), MOVED)) == ["a.1", "c"]
    assert topics(narrow(MIGRATION, ClientSelection(wave="a"), MOVED)) == ["a.1"]


def test_which_waves_can_go_back() -> None:
    assert require_moved_wave(MOVED, "b").name == "wave-b"
    with pytest.raises(ConfigError, match="--wave a: is not on the target by itself; waves that are: b"):
        require_moved_wave(MOVED, "a")
    with pytest.raises(ConfigError, match="waves that are: none"):
        require_moved_wave(None, "a")


def test_what_moves_with_a_wave_and_what_is_there() -> None:
    migration = narrow(MIGRATION, ClientSelection(wave="a"), MOVED)
    selected = SelectedPart(Part("wave-a", ("a-*",)), frozenset({"a-group"}), True)
    boundary = wave_boundary(migration, selected, MOVED.parts_on_target, to_target=True, allow_split_readers=False)
    nodes = [
        Node(kind, f"{wave}{name}")
        for wave in "abc"
        for kind, name in ((Kind.CLIENT, "-1"), (Kind.GROUP, "-group"), (Kind.TOPIC, ".1"))
    ]
    assert [node for node in nodes if boundary.wave.has(node)] == nodes[:3]
    assert [node for node in nodes if boundary.is_apart(node)] == nodes[6:], "b is on the target already"
    assert boundary.wave.has(Node(Kind.GROUP, "a-group-without-members"))
    back = wave_boundary(migration, selected, MOVED.parts_on_target, to_target=False, allow_split_readers=False)
    assert [node for node in nodes if back.is_apart(node)] == nodes[3:6]
