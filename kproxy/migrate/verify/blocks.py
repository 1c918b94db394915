"""Whether two sides have the same records, judged by counts and hashes of blocks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kproxy.migrate.verify.pieces import BLOCK_BITS, PartitionPiece

# The block of records that are on the target and that the map does not have.
EXTRA = -1


@dataclass(frozen=True, slots=True)
class BlockSums:
    """Of the records of one block: how many, and their hashes added up and combined in three ways. Each hash has the
    record's offset on the source in it, so the order in which they are added is of no importance, and that of the
    records is."""

    count: int = 0
    xor: int = 0
    high: int = 0
    low: int = 0
    first: int = field(default=-1, compare=False)  # the smallest offset on its own side


EMPTY = BlockSums()


@dataclass(frozen=True, slots=True)
class PieceVerdict:
    """`good`: records in good blocks. `bad`: the blocks that are not. `extra`: on the target and not in the map;
    `others`: how many of these may be there, since others write to the target."""

    piece: PartitionPiece
    matching: int
    blocks: int
    bad: tuple[int, ...] = ()
    extra: BlockSums = EMPTY
    client_records: int = 0

    @property
    def is_equal(self) -> bool:
        return not self.bad and not self.extra.count

    def first_bad(self) -> PartitionPiece | None:
        """The first bad block; None if there are but extra records."""
        if not self.bad:
            return None
        return self.piece.part(self.bad[0] << BLOCK_BITS, self.bad[0] + 1 << BLOCK_BITS)


def compare_blocks(
    piece: PartitionPiece,
    source: Mapping[int, BlockSums],
    target: Mapping[int, BlockSums],
    *,
    others_write: bool = False,
) -> PieceVerdict:
    """A block is good if both sides have all records that the map has, no other, and the same."""
    expected = piece.blocks()
    blocks = sorted((source.keys() | target.keys() | expected.keys()) - {EXTRA})
    bad, good = [], 0
    for block in blocks:
        one = source.get(block, EMPTY)
        if one == target.get(block, EMPTY) and one.count == expected[block]:
            good += one.count
        else:
            bad.append(block)
    extra = target.get(EXTRA, EMPTY)
    if others_write:
        return PieceVerdict(piece, good, len(blocks), tuple(bad), client_records=extra.count)
    return PieceVerdict(piece, good, len(blocks), tuple(bad), extra)
