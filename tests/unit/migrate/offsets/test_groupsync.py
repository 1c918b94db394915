"""What is written for a group, and what is not."""

from __future__ import annotations

import pytest

from kproxy.base.errors import WireError
from kproxy.migrate.clusters.groups import CommittedOffset, GroupOffsets
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.state import state_key
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.groupsync import (
    NOT_COPIED_YET,
    PLANNED,
    SKIPPED,
    UNCHANGED,
    decide_writes,
    encode_journal,
    parse_journal,
    translate_positions,
    unwritten_positions,
)
from kproxy.migrate.spec.migration import Migration, TopicSelection

MIGRATION = Migration({}, {}, "m", TopicSelection(exclude=("out",)))
KNOWN = {("t", 0): CopiedPartition("t", 0, "u", 0, 10, 110, 10, 1, OffsetMap([(0, 100, 10)]))}
GROUP = GroupOffsets("g", "classic", positions={("t", 0): CommittedOffset(5, "m")})


def test_positions_are_translated_with_their_metadata() -> None:
    (row,) = translate_positions(GROUP, MIGRATION, KNOWN)
    assert (row.target_partition, row.position.target, row.metadata, row.outcome) == (("u", 0), 105, "m", PLANNED)


@pytest.mark.parametrize(
    ("there", "wrote", "done"),
    [
        ({}, {}, PLANNED),
        ({("u", 0): CommittedOffset(105, "m")}, {}, UNCHANGED),
        ({("u", 0): CommittedOffset(105, "other")}, {}, PLANNED),
        ({("u", 0): CommittedOffset(103)}, {("u", 0): [103]}, PLANNED),
        ({("u", 0): CommittedOffset(103)}, {("u", 0): [104, 103]}, PLANNED),
        ({("u", 0): CommittedOffset(103)}, {}, SKIPPED),
        ({("u", 0): CommittedOffset(103)}, {("u", 0): [104]}, SKIPPED),
        ({("x", 0): CommittedOffset(1)}, {}, PLANNED),
    ],
)
def test_only_what_kproxy_wrote_is_overwritten(
    there: dict[tuple[str, int], CommittedOffset], wrote: dict[tuple[str, int], list[int]], done: str
) -> None:
    result = decide_writes(GROUP, translate_positions(GROUP, MIGRATION, KNOWN), there, wrote, force=False)
    assert [row.outcome for row in result.positions] == [done]
    assert bool(result.refusal) == (done == SKIPPED)
    forced = decide_writes(GROUP, translate_positions(GROUP, MIGRATION, KNOWN), there, wrote, force=True)
    assert (forced.refusal, forced.positions[0].outcome) == ("", UNCHANGED if done == UNCHANGED else PLANNED)


def test_topics_that_are_left_out_do_not_make_it_incomplete() -> None:
    group = GroupOffsets(
        "g",
        "classic",
        positions={("out", 0): CommittedOffset(5), ("t", 0): CommittedOffset(12), ("z", 1): CommittedOffset(1)},
    )
    result = decide_writes(group, translate_positions(group, MIGRATION, KNOWN), {}, {}, force=False)
    assert [row.reason for row in result.positions] == [
        "the file excludes this topic",
        "2 offsets before it are not copied yet",
        "the migration has not copied this partition",
    ]
    assert [(one.fault, one.text) for one in unwritten_positions([result], MIGRATION)] == [
        (NOT_COPIED_YET, "group g, partition 0 of t: 2 offsets before it are not copied yet"),
        ("", "group g, partition 1 of z: the migration has not copied this partition"),
    ]


def test_a_position_without_records_is_that_of_the_next_record() -> None:
    group = GroupOffsets("g", "classic", positions={("t", 0): CommittedOffset(5), ("z", 1): CommittedOffset(7)})
    nothing = CopiedPartition("z", 1, "z", 7, 7, 12, 0, 0, OffsetMap([]))
    copied, empty = translate_positions(group, MIGRATION, {**KNOWN, ("z", 1): nothing})
    assert (copied.position.target, copied.position.match) == (105, "exact")
    assert (empty.position.target, empty.position.text, empty.outcome) == (
        12,
        "the next record that will be written",
        PLANNED,
    )


def test_no_position_of_another_topic_of_this_name_is_translated() -> None:
    rows = translate_positions(
        GROUP, MIGRATION, KNOWN, lost={"t": "it is not the topic from which records were copied"}
    )
    assert [(row.outcome, row.reason) for row in rows] == [
        (SKIPPED, "it is not the topic from which records were copied")
    ]


@pytest.mark.parametrize(
    ("position", "end", "as_end", "target", "how"),
    [
        (11, 10, (), None, "past the end"),
        (12, 10, ("other",), None, "past the end"),
        (12, 10, ("g",), 110, "as end"),
        (10, 10, ("g",), 110, "end"),
        (5, 10, ("g",), 105, "exact"),
        (12, 12, ("g",), None, "beyond"),
        (14, 12, (), None, "past the end"),
        (14, 12, ("g",), None, "beyond"),  # the end itself is not copied so far
        (14, None, ("g",), None, "beyond"),  # nobody tells where the log ends
    ],
)
def test_a_position_beyond_the_end_of_the_log(
    position: int, end: int | None, as_end: tuple[str, ...], target: int | None, how: str
) -> None:
    group = GroupOffsets("g", "classic", positions={("t", 0): CommittedOffset(position)})
    migration = MIGRATION.with_as_end(as_end)
    (row,) = translate_positions(group, migration, KNOWN, {} if end is None else {("t", 0): end})
    assert (row.position.source, row.position.target, row.position.match) == (position, target, how)
    assert row.outcome == (SKIPPED if target is None else PLANNED)
    assert ("--as-end g" in row.reason) == (how == "past the end")
    assert ("not copied yet" in row.reason) == (how == "beyond")


def test_the_journal_comes_back_as_it_was_written() -> None:
    import json

    wrote = {("u", 0): [5, 3], ("u", 11): [7], ("v", 0): [0]}
    values = {state_key("offsets", "g"): json.dumps(encode_journal(wrote)).encode(), state_key("job"): b"{}"}
    assert parse_journal(values) == {"g": wrote}


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"v":1}', b'{"v":1,"positions":{"u":{"x":[1]}}}', b'{"v":2}'])
def test_a_journal_of_somebody_else(value: bytes) -> None:
    with pytest.raises(WireError, match=r"that kproxy did not write|written by a newer kproxy"):
        parse_journal({state_key("offsets", "g"): value})
