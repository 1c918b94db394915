"""Which offsets are compared together: nothing left out, nothing twice."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.verify import pieces as made
from kproxy.migrate.verify.pieces import (
    BLOCK_BITS,
    EXTRA,
    BlockSums,
    PartitionPiece,
    build_lookup,
    compare_blocks,
    plan_jobs,
    sample_blocks,
    source_offset,
    split_piece,
    target_offset,
    whole_partition,
)

BLOCK = 1 << BLOCK_BITS


@st.composite
def maps(draw: st.DrawFn) -> OffsetMap:
    """Runs with gaps on either side, some longer than a block."""
    known = OffsetMap()
    source = target = 0
    for _ in range(draw(st.integers(0, 12))):
        source += draw(st.integers(0, 9) | st.integers(BLOCK - 2, BLOCK + 2))
        target += draw(st.integers(0, 9))
        count = draw(st.integers(1, 9) | st.integers(BLOCK - 2, 2 * BLOCK + 2))
        known.add(source, target, count)
        source, target = source + count, target + count
    return known


def copied(known: OffsetMap, begin: int = 0, after: int = 0) -> CopiedPartition:
    last = known.sources[-1] + known.counts[-1] if len(known) else 0
    target = known.targets[-1] + known.counts[-1] if len(known) else 0
    return CopiedPartition("t", 0, "u", begin, last + after, target, known.records, 0, known)


@given(maps(), st.integers(0, 5), st.data())
def test_pieces_have_everything_once(known: OffsetMap, after: int, data: st.DataObject) -> None:
    one = copied(known, after=after)
    begin = data.draw(st.integers(0, one.source_next))
    piece = whole_partition(one, begin)
    before = made._PIECE_OFFSETS, made._PIECE_RUNS
    try:
        made._PIECE_OFFSETS, made._PIECE_RUNS = BLOCK, 2
        parts = list(split_piece(piece))
    finally:
        made._PIECE_OFFSETS, made._PIECE_RUNS = before
    assert bool(parts) == (begin < one.source_next)
    if parts:
        assert (parts[0].begin, parts[0].target_begin) == (piece.begin, piece.target_begin)
        assert (parts[-1].end, parts[-1].target_end) == (piece.end, piece.target_end)
    for left, right in itertools.pairwise(parts):
        assert (left.end, left.target_end) == (right.begin, right.target_begin)
        assert right.begin % BLOCK == 0
    found = OffsetMap()
    for part in parts:
        for source, target, count in part.runs():
            assert part.begin <= source < source + count <= part.end
            assert part.target_begin <= target < target + count <= part.target_end
            found.add(source, target, count)
    assert found.records == sum(count for _, _, count in piece.runs())
    assert sum(piece.blocks().values()) == found.records


@given(maps(), st.data())
def test_both_directions(known: OffsetMap, data: st.DataObject) -> None:
    top = (known.sources[-1] + known.counts[-1] if len(known) else 0) + 3
    source = data.draw(st.integers(0, top))
    there = known.to_target(source)
    if there is not None:
        assert source_offset(known, there) == source
        assert target_offset(known, source + 1) == there + 1
    after = known.next_target(source)
    assert target_offset(known, source) <= (top + top if after is None else after)
    if after is not None:
        assert known.to_target(source_offset(known, after) or 0) == after


@given(maps())
def test_the_table_finds_each_record_once(known: OffsetMap) -> None:
    table = build_lookup([whole_partition(copied(known), 0)])
    found = 0
    for topic, partition, bucket, begin, end, delta in table.rows:
        assert (topic, partition) == ("u", 0)
        assert begin >> table.bits == bucket == end - 1 >> table.bits
        assert known.to_target(begin + delta) == begin
        assert known.to_target(end - 1 + delta) == end - 1
        found += end - begin
    assert found == known.records
    assert len({row[3] for row in table.rows}) == len(table.rows)
    assert len(table.rows) <= 2 * len(known) + (known.records >> table.bits) + 1


def test_a_sample_is_stable_and_about_as_large_as_requested() -> None:
    known = OffsetMap([(0, 0, 1000 * BLOCK)])
    piece = whole_partition(copied(known), 5)
    some = [one.begin for one in sample_blocks(piece, 0.2)]
    assert some == [one.begin for one in sample_blocks(piece, 0.2)]
    assert 150 < len(some) < 250
    assert set(some) < {one.begin for one in sample_blocks(piece, 0.5)}
    assert len(list(sample_blocks(piece, 1.0))) == 1000


def test_a_job_has_one_piece_of_a_partition_and_fits_its_limit() -> None:
    def piece(partition: int, begin: int) -> PartitionPiece:
        known = OffsetMap([(0, 0, 1 << 30)])
        return PartitionPiece("t", partition, "t", begin, begin + (1 << 25), begin, begin + (1 << 25), known)

    jobs = list(plan_jobs([[piece(0, 0), piece(0, 1 << 25)], [piece(1, 0)], [piece(2, 0)], []]))
    assert [[(one.partition, one.begin) for one in job] for job in jobs] == [
        [(0, 0), (1, 0)],
        [(2, 0)],
        [(0, 1 << 25)],
    ]


def sums(count: int, hashed: int = 7) -> BlockSums:
    return BlockSums(count, hashed, hashed, hashed, 0)


def test_a_block_is_good_if_both_sides_have_what_the_map_has() -> None:
    piece = whole_partition(copied(OffsetMap([(0, 0, 2 * BLOCK)])), 0)
    right = {0: sums(BLOCK), 1: sums(BLOCK)}
    assert compare_blocks(piece, right, right).is_equal
    assert compare_blocks(piece, right, right).matching == 2 * BLOCK
    assert compare_blocks(piece, right, right).digest == 2 * (7 * 2**32 + 7)
    for left, other, bad in [
        (right, {0: sums(BLOCK)}, (1,)),  # missing on the target
        ({1: sums(BLOCK)}, right, (0,)),  # on the source
        ({0: sums(BLOCK)}, {0: sums(BLOCK)}, (1,)),  # on both
        (right, {0: sums(BLOCK, 8), 1: sums(BLOCK)}, (0,)),  # changed
        (right | {0: sums(BLOCK + 1)}, right, (0,)),  # not copied
    ]:
        judged = compare_blocks(piece, left, other)
        assert (judged.bad, judged.is_equal) == (bad, False)
    extra = compare_blocks(piece, right, right | {EXTRA: sums(3)})
    assert (extra.bad, extra.extra.count, extra.is_equal, extra.matching) == ((), 3, False, 2 * BLOCK)
