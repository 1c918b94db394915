"""Records in a topic of the target that were not copied by kproxy."""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.migrate.clusters.inventory import TopicInventory
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.offsets.aborted_ranges import count_by_batch


def count_unknown_records(target: str, topic: TopicInventory, copied: Mapping[int, CopiedPartition]) -> int:
    """At least so many: what is there before and after the copied ones, what others wrote between two copied ones, and
    all of a partition to which none was copied. Committed ones only; their markers do not count.

    Raises UpstreamError and WireError.
    """
    cluster = ClusterClient(target)
    try:
        return sum(
            _of_partition(cluster, topic.name, number, one.begin or 0, one.end or 0, copied.get(number))
            for number, one in enumerate(topic.partitions)
        )
    finally:
        cluster.close()


def count_beyond(cluster: ClusterClient, copied: CopiedPartition, end: int) -> int:
    """So many records lie behind the last copied one, up to `end`. Raises Refused, UpstreamError and WireError."""
    if copied.target_next >= end:
        return 0
    return _records(cluster, copied.target_topic, copied.partition, copied.target_next, end)


def _of_partition(
    cluster: ClusterClient, topic: str, partition: int, begin: int, end: int, copied: CopiedPartition | None
) -> int:
    gaps, at = [], begin
    for _, target, count in () if copied is None else copied.map:
        if target > at:
            gaps.append((at, target))
        at = target + count
    gaps.append((at, end))
    # Between two copied records, a single offset is as a rule the marker of a transaction of the copier's own.
    return sum(
        _records(cluster, topic, partition, first, last)
        for number, (first, last) in enumerate(gaps)
        if last > first and (last - first > 1 or number in (0, len(gaps) - 1))
    )


def _records(cluster: ClusterClient, topic: str, partition: int, first: int, last: int) -> int:
    """Of other producers than transactions that were aborted, from `first` up to `last`."""
    return sum(count for count, aborted in count_by_batch(cluster, topic, partition, first, last) if not aborted)
