"""Records in a topic of the target that kproxy did not copy."""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.migrate.clusters.inventory import TopicInventory
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.aborted_ranges import count_by_batch


def count_unknown_records(target: str, topic: TopicInventory, copied: Mapping[int, CopiedPartition]) -> int:
    """Return the minimum number of committed records that kproxy did not copy.

    Counts the records before and after the copied ones, records of other producers between two copied ones, and all
    records of partitions to which none was copied.
    """
    with ClusterClient(target) as cluster:
        return sum(
            _count_in_partition(cluster, topic.name, number, bounds.begin or 0, bounds.end or 0, copied.get(number))
            for number, bounds in enumerate(topic.partitions)
        )


def count_beyond(cluster: ClusterClient, copied: CopiedPartition, end: int) -> int:
    """Return the number of records after the last copied one, up to `end`."""
    if copied.target_next >= end:
        return 0
    return _count_committed(cluster, copied.target_topic, copied.partition, copied.target_next, end)


def _count_in_partition(
    cluster: ClusterClient, topic: str, partition: int, begin: int, end: int, copied: CopiedPartition | None
) -> int:
    gaps, next_offset = [], begin
    for _, target, count in () if copied is None else copied.map:
        if target > next_offset:
            gaps.append((next_offset, target))
        next_offset = target + count
    gaps.append((next_offset, end))
    # A gap of one offset between two copied records is usually a transaction marker of the copier.
    return sum(
        _count_committed(cluster, topic, partition, first, last)
        for number, (first, last) in enumerate(gaps)
        if last > first and (last - first > 1 or number in (0, len(gaps) - 1))
    )


def _count_committed(cluster: ClusterClient, topic: str, partition: int, first: int, last: int) -> int:
    """Return the number of records from `first` to `last` that were not aborted."""
    return sum(count for count, aborted in count_by_batch(cluster, topic, partition, first, last) if not aborted)
