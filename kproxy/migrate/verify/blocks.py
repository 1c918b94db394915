"""Comparison of the counts and hashes of blocks of both sides. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kproxy.migrate.verify.pieces import PartitionPiece

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


EMPTY = BlockSums()


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
    differing, matching = [], 0
    for block in blocks:
        source_sums = source.get(block, EMPTY)
        if source_sums == target.get(block, EMPTY) and source_sums.count == expected[block]:
            matching += source_sums.count
        else:
            differing.append(block)
    extra = target.get(EXTRA, EMPTY)
    if others_write:
        return PieceVerdict(piece, matching, len(blocks), tuple(differing), client_records=extra.count)
    return PieceVerdict(piece, matching, len(blocks), tuple(differing), extra)
