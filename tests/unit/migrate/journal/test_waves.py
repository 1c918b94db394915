"""What the journal knows of waves, through every order of switches and rollbacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, MovedPart, SwitchEntry
from kproxy.proxy.switching.twophase import JournalDecision


def entry(last: SwitchEntry | None, what: str, wave: str, decision: JournalDecision, at: int) -> SwitchEntry:
    """An entry as the driver writes it after `last`."""
    origin, to = ("blue", "green") if what == SWITCHING else ("green", "blue")
    moved = {} if last is None else last.waves_on_target
    parts = tuple(part for part in moved.values() if not (what == ROLLBACK and part.wave == wave))
    written = SwitchEntry(
        "s", what, f"default/wave-{wave}" if wave else "default", origin, to, ("k",), (("000001-a", decision.value),),
        reversible=True, ended=True, at=at, clients=(f"{wave}-*",), groups=(f"{wave}-g",), writes=True, parts=parts,
        wave=wave, topics=(f"{wave}.*",) if wave else (), waves_before=() if last is None else last.switched_waves,
        since=moved[wave].since if what == ROLLBACK and wave else 0,
    )  # fmt: skip
    assert SwitchEntry.read(json.dumps(written.to_record()).encode()) == written
    return written


def drive(steps: Sequence[tuple[str, str, JournalDecision]]) -> SwitchEntry:
    last: SwitchEntry | None = None
    for at, (what, wave, decision) in enumerate(steps, 1):
        last = entry(last, what, wave, decision, at)
    assert last is not None
    return last


RELEASED, UNDONE = JournalDecision.RELEASED, JournalDecision.UNDONE


def test_each_wave_has_its_side_and_its_time() -> None:
    steps = [(SWITCHING, "a", RELEASED), (SWITCHING, "b", RELEASED)]
    last = drive(steps)
    assert {name: part.since for name, part in last.waves_on_target.items()} == {"a": 1, "b": 2}
    assert last.moved_topics == ("a.*", "b.*")
    assert last.waves_on_target["a"] == MovedPart(
        "wave-a", ("a-*",), ("a-g",), True, "a", ("a.*",), reversible=True, since=1
    )
    undone = drive([*steps, (ROLLBACK, "a", UNDONE)])
    assert undone.waves_on_target["a"] == last.waves_on_target["a"], "also since when"
    back = drive([*steps, (ROLLBACK, "a", RELEASED)])
    assert (list(back.waves_on_target), back.moved_topics) == (["b"], ("b.*",))
    assert set(back.switched_waves) == {"a", "b"}
    again = drive([*steps, (ROLLBACK, "a", RELEASED), (SWITCHING, "a", RELEASED)])
    assert again.waves_on_target["a"].since == 4


def test_a_wave_that_was_undone_is_on_the_source() -> None:
    last = drive([(SWITCHING, "a", UNDONE)])
    assert (dict(last.waves_on_target), last.moved_topics, last.switched_waves) == ({}, (), ())
    assert last.part_text == "wave a"


def test_while_it_is_under_way_its_topics_are_not_copied_by_others() -> None:
    last = replace(drive([(SWITCHING, "a", UNDONE)]), ended=False)
    assert last.moved_topics == ("a.*",)


def test_the_cluster_as_a_whole() -> None:
    last = drive([(SWITCHING, "a", RELEASED), (SWITCHING, "", RELEASED)])
    assert last.is_moved
    assert (dict(last.waves_on_target), last.moved_topics, last.switched_waves) == ({}, (), ("a",))


def test_a_record_from_before_there_were_waves() -> None:
    record = drive([(SWITCHING, "a", RELEASED), (SWITCHING, "b", RELEASED)]).to_record()
    for name in ("wave", "topics", "since", "waves_before"):
        del record[name]
    for part in record["parts"]:
        for name in ("wave", "topics", "since", "reversible"):
            del part[name]
    old = SwitchEntry.read(json.dumps(record).encode())
    assert old is not None
    assert [part.name for part in old.parts_on_target] == ["wave-a", "wave-b"]
    assert dict(old.waves_on_target) == {}
