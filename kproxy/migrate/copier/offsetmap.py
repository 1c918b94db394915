"""Which record of the target is which record of the source, for one partition.

A *run* is a piece in which both sides count on by one: `count` records from `source` and from `target` on. Runs are in
order and do not overlap. Where the source has a gap (control batches, aborted transactions, compaction) or the target
has one (the copier's own transaction markers), a run ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from kproxy.protocol.wire.primitives import malformed


class OffsetMap:
    """Runs of one partition. Memory: 24 bytes a run."""

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
        """How many records it knows."""
        return sum(self.counts)

    def add(self, source: int, target: int, count: int) -> None:
        """The next run. Raises ValueError if it does not come after the last one on both sides."""
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
        """Where this very record is; None if it was not copied."""
        at = bisect_right(self.sources, source) - 1
        if at < 0 or source >= self.sources[at] + self.counts[at]:
            return None
        return self.targets[at] + source - self.sources[at]

    def next_target(self, source: int) -> int | None:
        """Where the next record is that was copied, from `source` on; None if there is none yet."""
        exact = self.to_target(source)
        if exact is not None:
            return exact
        after = bisect_right(self.sources, source)
        return self.targets[after] if after < len(self.targets) else None

    def to_bytes(self) -> bytes:
        """The runs as unsigned varints: for each the records left out on the source and on the target since the run
        before, and how many it has. The first run counts from 0 on both sides."""
        out = bytearray()
        source_end = target_end = 0
        for source, target, count in self:
            for number in (source - source_end, target - target_end, count):
                while number > 0x7F:
                    out.append(number & 0x7F | 0x80)
                    number >>= 7
                out.append(number)
            source_end, target_end = source + count, target + count
        return bytes(out)

    @classmethod
    def from_bytes(cls, data: bytes) -> OffsetMap:
        """What `to_bytes` made. Raises WireError for anything else."""
        made = cls()
        numbers = list(_numbers(data))
        if len(numbers) % 3:
            raise malformed("an offset map ends in the middle of a run")
        source = target = 0
        for at in range(0, len(numbers), 3):
            source_gap, target_gap, count = numbers[at : at + 3]
            source += source_gap
            target += target_gap
            if not count > 0 or source + count >= 1 << 63 or target + count >= 1 << 63:
                raise malformed("an offset map has a run that no partition can have")
            made.add(source, target, count)
            source += count
            target += count
        return made


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
