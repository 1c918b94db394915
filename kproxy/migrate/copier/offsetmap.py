"""The offset map of a partition: which record of the target is which record of the source.

A *run* is a range in which the offsets of both sides increase by one: `count` records that start at `source` and at
`target`. Runs are in order and do not overlap. A run ends where the source has a gap (control batches, aborted
transactions, compaction) or the target has one (transaction markers of the copier).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from kproxy.protocol.wire.primitives import malformed


class OffsetMap:
    """The runs of one partition. Each run takes 24 bytes of memory."""

    __slots__ = ("counts", "sources", "targets")

    def __init__(self, runs: Iterable[tuple[int, int, int]] = ()) -> None:
        self.sources, self.targets, self.counts = array("q"), array("q"), array("q")
        for run in runs:
            self.add(*run)

    def __len__(self) -> int:
        return len(self.sources)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetMap) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it can grow

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.sources, self.targets, self.counts, strict=True)

    @property
    def records(self) -> int:
        """The number of records in all runs."""
        return sum(self.counts)

    def add(self, source: int, target: int, count: int) -> None:
        """Append a run. Raises ValueError if the run does not come after the last run on both sides."""
        if count <= 0:
            raise ValueError(f"a run of {count} records")
        if self.sources:
            source_end, target_end = self.sources[-1] + self.counts[-1], self.targets[-1] + self.counts[-1]
            if source < source_end or target < target_end:
                raise ValueError(
                    f"a run from {source} to {target} after one that ends at {source_end} and {target_end}"
                )
            if source == source_end and target == target_end:
                self.counts[-1] += count
                return
        self.sources.append(source)
        self.targets.append(target)
        self.counts.append(count)

    def to_target(self, source: int) -> int | None:
        """Return the target offset of a record of the source, or None if the record was not copied."""
        index = bisect_right(self.sources, source) - 1
        if index < 0 or source >= self.sources[index] + self.counts[index]:
            return None
        return self.targets[index] + source - self.sources[index]

    def next_target(self, source: int) -> int | None:
        """Return the target offset of the first copied record at or after a source offset, or None if there is none."""
        exact = self.to_target(source)
        if exact is not None:
            return exact
        index = bisect_right(self.sources, source)
        return self.targets[index] if index < len(self.targets) else None

    def to_bytes(self) -> bytes:
        """Encode the runs as unsigned varints.

        Each run has three numbers: the offsets left out on the source and on the target since the run before, and the
        number of records. The first run counts from 0 on both sides.
        """
        data = bytearray()
        source_end = target_end = 0
        for source, target, count in self:
            for number in (source - source_end, target - target_end, count):
                while number > 0x7F:
                    data.append(number & 0x7F | 0x80)
                    number >>= 7
                data.append(number)
            source_end, target_end = source + count, target + count
        return bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> OffsetMap:
        """Decode the bytes of `to_bytes`. Raises WireError for anything else."""
        offset_map = cls()
        numbers = list(_numbers(data))
        if len(numbers) % 3:
            raise malformed("an offset map ends in the middle of a run")
        source = target = 0
        for index in range(0, len(numbers), 3):
            source_gap, target_gap, count = numbers[index : index + 3]
            source += source_gap
            target += target_gap
            if not count > 0 or source + count >= 1 << 63 or target + count >= 1 << 63:
                raise malformed("an offset map has a run that no partition can have")
            offset_map.add(source, target, count)
            source += count
            target += count
        return offset_map


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            yield number
            number = shift = 0
            continue
        shift += 7
        if shift > 63:
            raise malformed("an offset map has a number that is too large")
    if shift:
        raise malformed("an offset map ends in the middle of a number")
