"""Records that readers of uncommitted records see twice on the target.

The copier writes in transactions. An attempt that fails leaves what it has written in the log, as aborted, and the next
one writes the same records again. Who reads committed records gets them once. Who reads uncommitted ones
(`isolation.level=read_uncommitted`, the default of Java's consumers) gets those of the attempt, too, if its position is
before them. A reader at the end is not concerned: each attempt comes before the one that was committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.aborted_ranges import count_by_batch
from kproxy.migrate.offsets.groupsync import GroupResult

# Gaps of one partition that are looked into: each takes a request at least.
_MOST_GAPS = 200

Where = tuple[str, int]
"""A topic of the source and a partition."""


@dataclass(frozen=True, slots=True)
class DuplicateRecords:
    """So many records of aborted attempts lie behind the position of this group on the target, at least, in a topic and
    partition of it."""

    group: str
    topic: str
    partition: int
    records: int

    @property
    def text(self) -> str:
        return (
            f"has its position before {self.records} records of attempts of the copy that were aborted, in partition"
            f" {self.partition} of {self.topic} on the target: members that read uncommitted records"
            " (isolation.level=read_uncommitted) get them, and the same records again; let the group read to its end"
            " before the switch, or read committed records"
        )


def find_duplicates(
    target: str, results: Iterable[GroupResult], copied: Mapping[Where, CopiedPartition]
) -> Iterator[DuplicateRecords]:
    """For each group and partition. Raises UpstreamError and WireError."""
    aborted: dict[Where, list[tuple[int, int]]] = {}
    lowest: dict[Where, int] = {}
    rows = [
        (one.group, (row.position.topic, row.position.partition), row.position.target)
        for one in results
        for row in one.positions
        if row.position.target is not None and (row.position.topic, row.position.partition) in copied
    ]
    for _, where, position in rows:
        lowest[where] = min(position, lowest.get(where, position))
    cluster = ClusterClient(target)
    try:
        for where, position in lowest.items():
            one = copied[where]
            aborted[where] = [
                (first, count)
                for first, last in find_gaps(one, position)
                if (count := _aborted(cluster, one.target_topic, one.partition, first, last))
            ]
    finally:
        cluster.close()
    for group, where, position in rows:
        records = sum(count for first, count in aborted[where] if first >= position)
        if records:
            yield DuplicateRecords(group, copied[where].target_topic, where[1], records)


def find_gaps(copied: CopiedPartition, position: int) -> list[tuple[int, int]]:
    """Where an attempt may lie behind this position on the target: the last ones, if there are many (pure). Between two
    copied records, a single offset is the marker of a transaction."""
    found, at = [], copied.target_begin
    for _, target, count in copied.map:
        if target - at > 1 and at >= position:
            found.append((at, target))
        at = target + count
    return found[-_MOST_GAPS:]


def _aborted(cluster: ClusterClient, topic: str, partition: int, first: int, last: int) -> int:
    """How many records of aborted transactions there are from `first` up to `last`."""
    return sum(count for count, aborted in count_by_batch(cluster, topic, partition, first, last) if aborted)
