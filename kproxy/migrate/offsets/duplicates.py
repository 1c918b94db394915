"""Records that a read_uncommitted consumer receives twice on the target.

The copier writes in transactions. An attempt that fails leaves its records in the log, aborted, and the next attempt
writes the same records again. A read_committed consumer receives them once. A read_uncommitted consumer (the default of
Java's consumers) also receives those of the failed attempt, if its position is before them. A consumer at the end of
the log is not affected: each failed attempt comes before the committed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kproxy.base.messages.migrations import POSITION_BEFORE_ABORTED
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.groupsync import GroupResult
from kproxy.migrate.offsets.log_ranges import count_by_batch

# Maximum number of gaps of a partition that are read: each takes at least one request.
_MAX_GAPS = 200


@dataclass(frozen=True, slots=True)
class DuplicateRecords:
    """Aborted records after the position of a group in a partition of the target; `records` is a lower bound."""

    group: str
    topic: str
    partition: int
    records: int

    @property
    def text(self) -> str:
        return POSITION_BEFORE_ABORTED(records=self.records, partition=self.partition, topic=self.topic)


def find_duplicates(
    target: str, results: Iterable[GroupResult], copied: Mapping[TopicPartition, CopiedPartition]
) -> Iterator[DuplicateRecords]:
    """Yield the duplicate records of each group and partition."""
    aborted: dict[TopicPartition, list[tuple[int, int]]] = {}
    lowest: dict[TopicPartition, int] = {}
    positions = [
        (result.group, (row.position.topic, row.position.partition), row.position.target)
        for result in results
        for row in result.positions
        if row.position.target is not None and (row.position.topic, row.position.partition) in copied
    ]
    for _, topic_partition, position in positions:
        lowest[topic_partition] = min(position, lowest.get(topic_partition, position))
    with ClusterClient(target) as cluster:
        for topic_partition, position in lowest.items():
            result = copied[topic_partition]
            aborted[topic_partition] = [
                (first, count)
                for first, last in find_gaps(result, position)
                if (count := _count_aborted(cluster, result.target_topic, result.partition, first, last))
            ]
    for group, topic_partition, position in positions:
        records = sum(count for first, count in aborted[topic_partition] if first >= position)
        if records:
            yield DuplicateRecords(group, copied[topic_partition].target_topic, topic_partition[1], records)


def find_gaps(copied: CopiedPartition, position: int) -> list[tuple[int, int]]:
    """Return the gaps after a target offset that may have records of failed attempts (pure).

    If there are many, returns the last ones. A gap of one offset between two copied records is the marker of a
    transaction.
    """
    gaps, end = [], copied.target_begin
    for _, target, count in copied.map:
        if target - end > 1 and end >= position:
            gaps.append((end, target))
        end = target + count
    return gaps[-_MAX_GAPS:]


def _count_aborted(cluster: ClusterClient, topic: str, partition: int, first: int, last: int) -> int:
    """Return the number of records of aborted transactions from `first` to `last`."""
    return sum(count for count, aborted in count_by_batch(cluster, topic, partition, first, last) if aborted)
