"""Which offsets are compared, in which jobs: pieces of partitions, each a range of the source and what it is on the
target. Pure.

A *block* is 2^14 offsets of the source. Ranges of the target are such that together they have no gap, so that a record
which nobody copied is seen wherever it stands.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from zlib import crc32

from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.statetopic import CopiedPartition

BLOCK_BITS = 14
# Of one piece, and of one job: offsets, and runs of the map, which every executor has in memory then.
_PIECE_OFFSETS, _PIECE_RUNS = 1 << 24, 1 << 17
_JOB_OFFSETS, _JOB_RUNS = 1 << 26, 1 << 19

Run = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PartitionPiece:
    """Offsets `begin` to `end` of one partition of the source, and `target_begin` to `target_end` of the target."""

    topic: str
    partition: int
    target_topic: str
    begin: int
    end: int
    target_begin: int
    target_end: int
    map: OffsetMap = field(compare=False, repr=False)

    @property
    def where(self) -> tuple[str, int]:
        """The source's topic and partition."""
        return self.topic, self.partition

    @property
    def target_where(self) -> tuple[str, int]:
        return self.target_topic, self.partition

    def runs(self) -> Iterator[Run]:
        """The runs of the map, cut to this range."""
        return clip_runs(self.map, self.begin, self.end)

    def blocks(self) -> Counter[int]:
        """How many records the map has in each block."""
        found = Counter[int]()
        for source, _, count in self.runs():
            end = source + count
            while source < end:
                upto = min(end, (source >> BLOCK_BITS) + 1 << BLOCK_BITS)
                found[source >> BLOCK_BITS] += upto - source
                source = upto
        return found

    def part(self, begin: int, end: int) -> PartitionPiece:
        """The same, with fewer offsets of the source."""
        begin, end = max(begin, self.begin), min(end, self.end)
        first = self.target_begin if begin == self.begin else max(self.target_begin, target_offset(self.map, begin))
        last = self.target_end if end == self.end else min(self.target_end, target_offset(self.map, end))
        return PartitionPiece(self.topic, self.partition, self.target_topic, begin, end, first, last, self.map)


def clip_runs(known: OffsetMap, begin: int, end: int) -> Iterator[Run]:
    """The runs between two offsets of the source."""
    at = max(0, bisect_right(known.sources, begin) - 1)
    while at < len(known.sources) and known.sources[at] < end:
        source, target, count = known.sources[at], known.targets[at], known.counts[at]
        skipped = max(0, begin - source)
        left = min(source + count, end) - source - skipped
        if left > 0:
            yield source + skipped, target + skipped, left
        at += 1


def target_offset(known: OffsetMap, source: int) -> int:
    """One beyond where the last record before this offset of the source is; 0 if there is none."""
    at = bisect_left(known.sources, source) - 1
    return 0 if at < 0 else known.targets[at] + min(known.counts[at], source - known.sources[at])


def source_offset(known: OffsetMap, target: int) -> int | None:
    """The source's offset of the first record that is on the target at this offset or later; None if there is none."""
    at = bisect_right(known.targets, target) - 1
    if at >= 0 and target < known.targets[at] + known.counts[at]:
        return known.sources[at] + target - known.targets[at]
    return known.sources[at + 1] if at + 1 < len(known.sources) else None


def whole_partition(copied: CopiedPartition, begin: int) -> PartitionPiece:
    """All that was copied of a partition, from an offset of the source on."""
    end = copied.source_next
    begin = min(begin, end)
    return PartitionPiece(
        copied.topic,
        copied.partition,
        copied.target_topic,
        begin,
        end,
        max(copied.target_begin, target_offset(copied.map, begin)),
        copied.target_next,
        copied.map,
    )


def split_piece(piece: PartitionPiece) -> Iterator[PartitionPiece]:
    """Into pieces that fit in one job, at the edges of blocks."""
    begin = piece.begin
    while begin < piece.end:
        end = min(piece.end, begin + _PIECE_OFFSETS)
        at = bisect_right(piece.map.sources, begin) + _PIECE_RUNS
        if at < len(piece.map.sources):
            end = min(end, piece.map.sources[at])
        if end < piece.end:
            end = min(piece.end, max(end >> BLOCK_BITS, (begin >> BLOCK_BITS) + 1) << BLOCK_BITS)
        yield piece.part(begin, end)
        begin = end


def sample_blocks(piece: PartitionPiece, share: float) -> Iterator[PartitionPiece]:
    """Some of its blocks, the same ones each time: about this share of all."""
    for block in range(piece.begin >> BLOCK_BITS, (piece.end - 1 >> BLOCK_BITS) + 1):
        if crc32(f"{piece.topic}/{piece.partition}/{block}".encode()) < share * (1 << 32):
            yield piece.part(block << BLOCK_BITS, block + 1 << BLOCK_BITS)


def plan_jobs(partitions: Sequence[Iterable[PartitionPiece]]) -> Iterator[list[PartitionPiece]]:
    """The pieces of one job after the other. None has two of one partition, and those of a partition are in order."""
    for generation in zip_longest(*partitions):
        job: list[PartitionPiece] = []
        offsets = runs = 0
        for piece in generation:
            if piece is None:
                continue
            more = bisect_left(piece.map.sources, piece.end) - bisect_left(piece.map.sources, piece.begin) + 1
            if job and (offsets + piece.end - piece.begin > _JOB_OFFSETS or runs + more > _JOB_RUNS):
                yield job
                job, offsets, runs = [], 0, 0
            job.append(piece)
            offsets += piece.end - piece.begin
            runs += more
        if job:
            yield job


@dataclass(frozen=True, slots=True)
class RunLookup:
    """The map of a job's pieces as a table that is joined on equal topic, partition and `bucket`, and a range.

    A row: target topic, partition, bucket (offset on the target >> bits), first offset, one beyond the last, and what
    has to be added for the offset on the source.
    """

    bits: int
    rows: list[tuple[str, int, int, int, int, int]]


def build_lookup(pieces: Sequence[PartitionPiece]) -> RunLookup:
    """With buckets of which each has two runs or so, however long the runs are."""
    runs = [(piece, run) for piece in pieces for run in piece.runs()]
    length = sum(run[2] for _, run in runs) // max(1, len(runs))
    bits = max(5, min(20, length.bit_length() + 1))
    rows = []
    for piece, (source, target, count) in runs:
        for bucket in range(target >> bits, (target + count - 1 >> bits) + 1):
            begin, end = max(target, bucket << bits), min(target + count, bucket + 1 << bits)
            rows.append((piece.target_topic, piece.partition, bucket, begin, end, source - target))
    return RunLookup(bits, rows)
