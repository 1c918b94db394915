"""Positions translated: any map, any position, against the records themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.positions import BEFORE, BEYOND, END, EXACT, NEXT, NO_MAP, NOT_COPIED, translate


@st.composite
def partitions(draw: st.DrawFn) -> tuple[CopiedPartition, list[tuple[int, int]]]:
    """What was copied, and its records' offsets on both sides."""
    begin, source, target = draw(st.integers(0, 20)), 0, draw(st.integers(0, 20))
    source, records, known = begin, list[tuple[int, int]](), OffsetMap()
    for source_gap, target_gap, count in draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 5)), max_size=8)
    ):
        source, target = source + source_gap, target + target_gap
        known.add(source, target, count)
        records += [(source + i, target + i) for i in range(count)]
        source, target = source + count, target + count
    after = source + draw(st.integers(0, 5))
    return CopiedPartition("t", 0, "u", begin, after, target if records else 0, len(records), 1, known), records


@given(partitions(), st.integers(0, 100))
def test_the_next_record_is_the_same(made: tuple[CopiedPartition, list[tuple[int, int]]], position: int) -> None:
    copied, records = made
    found = translate({("t", 0): copied}, "t", 0, position)
    assert (found.topic, found.partition, found.source, found.target_topic) == ("t", 0, position, "u")
    if position > copied.source_next:
        assert (found.match, found.target, found.missing) == (BEYOND, None, position - copied.source_next)
        return
    assert found.target is not None
    rest = [one for one in records if one[0] >= position]
    assert [one for one in records if one[1] >= found.target] == rest
    if position < copied.source_begin:
        assert found.match == BEFORE
    elif not rest:
        assert (found.match, found.target) == (END, copied.target_next)
    else:
        assert found.match == (EXACT if rest[0][0] == position else NEXT)
        assert found.target == rest[0][1]


def test_what_was_not_copied() -> None:
    found = translate({}, "t", 3, 5, "u")
    assert (found.match, found.target, found.target_topic) == (NOT_COPIED, None, "u")
    assert found.text == "the migration has not copied this partition"


def test_records_without_a_map() -> None:
    copied = CopiedPartition("t", 0, "t", 0, 9, 9, 9, 1, OffsetMap())
    assert translate({("t", 0): copied}, "t", 0, 5).match == NO_MAP


def test_how_many_are_missing_is_said() -> None:
    copied = CopiedPartition("t", 0, "t", 0, 9, 9, 9, 1, OffsetMap([(0, 0, 9)]))
    assert translate({("t", 0): copied}, "t", 0, 12).text == "3 offsets before it are not copied yet"
