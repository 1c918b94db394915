"""Pieces of partitions: ranges of the source, their ranges on the target, their jobs, and how blocks compare. Pure.

A *block* is 2^14 offsets of the source. Together the ranges of the target have no gap, so an unknown record is noticed
wherever it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from zlib import crc32

from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import CopiedPartition

BLOCK_BITS = 14
DIGEST_MODULUS = 1 << 64
# Maximum number of offsets, and of runs of the map, of a piece and of a job. Every executor has these runs in memory.
_PIECE_OFFSETS, _PIECE_RUNS = 1 << 24, 1 << 17
_JOB_OFFSETS, _JOB_RUNS = 1 << 26, 1 << 19

Run = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PartitionPiece:
    """Offsets `begin` to `end` of a source partition, and `target_begin` to `target_end` of the target."""

    topic: str
    partition: int
    target_topic: str
    begin: int
    end: int
    target_begin: int
    target_end: int
    map: OffsetMap = field(compare=False, repr=False)

    @property
    def where(self) -> TopicPartition:
        """The topic and partition on the source."""
        return self.topic, self.partition

    @property
    def target_where(self) -> TopicPartition:
        return self.target_topic, self.partition

    def runs(self) -> Iterator[Run]:
        """Yield the runs of the map, clipped to this range."""
        return clip_runs(self.map, self.begin, self.end)

    def blocks(self) -> Counter[int]:
        """Return the number of records of the map in each block."""
        counts = Counter[int]()
        for source, _, count in self.runs():
            end = source + count
            while source < end:
                upto = min(end, (source >> BLOCK_BITS) + 1 << BLOCK_BITS)
                counts[source >> BLOCK_BITS] += upto - source
                source = upto
        return counts

    def part(self, begin: int, end: int) -> PartitionPiece:
        """Return the part of the piece between two offsets of the source."""
        begin, end = max(begin, self.begin), min(end, self.end)
        first = self.target_begin if begin == self.begin else max(self.target_begin, target_offset(self.map, begin))
        last = self.target_end if end == self.end else min(self.target_end, target_offset(self.map, end))
        return PartitionPiece(
            topic=self.topic,
            partition=self.partition,
            target_topic=self.target_topic,
            begin=begin,
            end=end,
            target_begin=first,
            target_end=last,
            map=self.map,
        )


def clip_runs(offset_map: OffsetMap, begin: int, end: int) -> Iterator[Run]:
    """Yield the runs between two offsets of the source."""
    index = max(0, bisect_right(offset_map.sources, begin) - 1)
    while index < len(offset_map.sources) and offset_map.sources[index] < end:
        source, target, count = offset_map.sources[index], offset_map.targets[index], offset_map.counts[index]
        skipped = max(0, begin - source)
        count_left = min(source + count, end) - source - skipped
        if count_left > 0:
            yield source + skipped, target + skipped, count_left
        index += 1


def target_offset(offset_map: OffsetMap, source: int) -> int:
    """Return the target offset after the last record before a source offset, 0 if there is none."""
    index = bisect_left(offset_map.sources, source) - 1
    return (
        0
        if index < 0
        else offset_map.targets[index] + min(offset_map.counts[index], source - offset_map.sources[index])
    )


def source_offset(offset_map: OffsetMap, target: int) -> int | None:
    """Return the source offset of the first record at or after a target offset, or None."""
    index = bisect_right(offset_map.targets, target) - 1
    if index >= 0 and target < offset_map.targets[index] + offset_map.counts[index]:
        return offset_map.sources[index] + target - offset_map.targets[index]
    return offset_map.sources[index + 1] if index + 1 < len(offset_map.sources) else None


def whole_partition(copied: CopiedPartition, begin: int) -> PartitionPiece:
    """Return all copied offsets of a partition from a source offset."""
    end = copied.source_next
    begin = min(begin, end)
    return PartitionPiece(
        topic=copied.topic,
        partition=copied.partition,
        target_topic=copied.target_topic,
        begin=begin,
        end=end,
        target_begin=max(copied.target_begin, target_offset(copied.map, begin)),
        target_end=copied.target_next,
        map=copied.map,
    )


def split_piece(piece: PartitionPiece) -> Iterator[PartitionPiece]:
    """Split a piece at block boundaries into pieces that fit into one job."""
    begin = piece.begin
    while begin < piece.end:
        end = min(piece.end, begin + _PIECE_OFFSETS)
        run_index = bisect_right(piece.map.sources, begin) + _PIECE_RUNS
        if run_index < len(piece.map.sources):
            end = min(end, piece.map.sources[run_index])
        if end < piece.end:
            end = min(piece.end, max(end >> BLOCK_BITS, (begin >> BLOCK_BITS) + 1) << BLOCK_BITS)
        yield piece.part(begin, end)
        begin = end


def sample_blocks(piece: PartitionPiece, share: float) -> Iterator[PartitionPiece]:
    """Yield some blocks, always the same ones: about this share of all."""
    for block in range(piece.begin >> BLOCK_BITS, (piece.end - 1 >> BLOCK_BITS) + 1):
        if crc32(f"{piece.topic}/{piece.partition}/{block}".encode()) < share * (1 << 32):
            yield piece.part(block << BLOCK_BITS, block + 1 << BLOCK_BITS)


def plan_jobs(partitions: Sequence[Iterable[PartitionPiece]]) -> Iterator[list[PartitionPiece]]:
    """Yield the pieces of one job after the other.

    No job has two pieces of one partition, and the pieces of a partition are in order.
    """
    for generation in zip_longest(*partitions):
        job: list[PartitionPiece] = []
        offsets = runs = 0
        for piece in generation:
            if piece is None:
                continue
            piece_runs = bisect_left(piece.map.sources, piece.end) - bisect_left(piece.map.sources, piece.begin) + 1
            if job and (offsets + piece.end - piece.begin > _JOB_OFFSETS or runs + piece_runs > _JOB_RUNS):
                yield job
                job, offsets, runs = [], 0, 0
            job.append(piece)
            offsets += piece.end - piece.begin
            runs += piece_runs
        if job:
            yield job


@dataclass(frozen=True, slots=True)
class RunLookup:
    """The map of a job's pieces as a table that is joined on topic, partition, `bucket`, and a range.

    A row: target topic, partition, bucket (target offset >> bits), first offset, offset after the last, and the
    difference to the offset on the source.
    """

    bits: int
    rows: list[tuple[str, int, int, int, int, int]]


def build_lookup(pieces: Sequence[PartitionPiece]) -> RunLookup:
    """Build the table with buckets of about two runs each, however long the runs are."""
    runs = [(piece, run) for piece in pieces for run in piece.runs()]
    length = sum(run[2] for _, run in runs) // max(1, len(runs))
    bits = max(5, min(20, length.bit_length() + 1))
    rows = []
    for piece, (source, target, count) in runs:
        for bucket in range(target >> bits, (target + count - 1 >> bits) + 1):
            begin, end = max(target, bucket << bits), min(target + count, bucket + 1 << bits)
            rows.append((piece.target_topic, piece.partition, bucket, begin, end, source - target))
    return RunLookup(bits, rows)


# Blocks

# The block of records that are on the target and that the map does not have.
EXTRA = -1


@dataclass(frozen=True, slots=True)
class BlockSums:
    """The number of records of a block, and their hashes combined in three ways.

    Each hash includes the record's offset on the source. So the order in which hashes are combined does not matter, and
    the order of the records does.
    """

    count: int = 0
    xor: int = 0
    high: int = 0
    low: int = 0
    first: int = field(default=-1, compare=False)
    """The smallest offset on its own side."""

    @property
    def digest(self) -> int:
        """The sum of the hashes, modulo 2^64."""
        return ((self.high << 32) + self.low) % DIGEST_MODULUS


EMPTY = BlockSums()

Side = dict[TopicPartition, dict[int, BlockSums]]
"""The sums of one side by topic and partition, and by block."""

Sides = tuple[Side, Side]
"""Those of the source, and of the target."""


@dataclass(frozen=True, slots=True)
class PieceVerdict:
    """The result of comparing a piece."""

    piece: PartitionPiece
    matching: int
    """Number of records in equal blocks."""
    blocks: int
    bad: tuple[int, ...] = ()
    """Blocks that differ."""
    extra: BlockSums = EMPTY
    """Records on the target that are not in the map."""
    client_records: int = 0
    """Records on the target that are not in the map, and that clients may have written."""
    digest: int = 0
    """The sum of the hashes of the records in equal blocks, modulo 2^64."""

    @property
    def is_equal(self) -> bool:
        return not self.bad and not self.extra.count


def compare_blocks(
    piece: PartitionPiece,
    source: Mapping[int, BlockSums],
    target: Mapping[int, BlockSums],
    *,
    others_write: bool = False,
) -> PieceVerdict:
    """Compare the blocks of a piece. A block is equal if both sides have exactly the records of the map."""
    expected = piece.blocks()
    blocks = sorted((source.keys() | target.keys() | expected.keys()) - {EXTRA})
    differing, matching, digest = [], 0, 0
    for block in blocks:
        source_sums = source.get(block, EMPTY)
        if source_sums == target.get(block, EMPTY) and source_sums.count == expected[block]:
            matching += source_sums.count
            digest = (digest + source_sums.digest) % DIGEST_MODULUS
        else:
            differing.append(block)
    extra = target.get(EXTRA, EMPTY)
    if others_write:
        return PieceVerdict(piece, matching, len(blocks), tuple(differing), client_records=extra.count, digest=digest)
    return PieceVerdict(piece, matching, len(blocks), tuple(differing), extra, digest=digest)
