"""The batches between two offsets of a log: which of them were aborted, and records that kproxy did not copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kproxy.base.errors import UpstreamError
from kproxy.migrate.clusters.inventory import TopicInventory
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import raise_for_code
from kproxy.migrate.copier.requests import parse_response
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.protocol.records.header import Batch, read_batches
from kproxy.protocol.wire.api import ApiKey

_FETCH_SIZE = 1024 * 1024


def count_by_batch(
    cluster: ClusterClient, topic: str, partition: int, first: int, last: int
) -> Iterator[tuple[int, bool]]:
    """Yield the number of records and whether it was aborted, for each batch from `first` to `last`.

    Ends before transactions that are open, and leaves out transaction markers.
    """
    for batch, aborted in fetch_batches(cluster, topic, partition, first, last):
        yield count_in_range(batch, first, last), aborted


def count_in_range(batch: Batch, first: int, last: int) -> int:
    """Return how many records a batch has between two offsets (pure).

    This is an upper bound if compaction has removed records of a batch that extends beyond these offsets.
    """
    span = min(last, batch.last_offset + 1) - max(first, batch.base_offset)
    return span if batch.count < 0 else min(span, batch.count)


def fetch_batches(
    cluster: ClusterClient, topic: str, partition: int, first: int, last: int, *, complete: bool = False
) -> Iterator[tuple[Batch, bool]]:
    """Yield each batch from `first` to `last`, and whether it was aborted.

    The first and the last batch may have records beyond these offsets. With `complete`, raises UpstreamError if the
    broker returns less.
    """
    connection = cluster.connect_leader(topic, partition)
    version = connection.version(ApiKey.FETCH)
    offset = first
    while offset < last:
        body = requests.encode_fetch(version, topic, partition, offset, size=_FETCH_SIZE, wait_ms=0, committed=True)
        response = parse_response(requests.read_fetch, version, connection.request(ApiKey.FETCH, version, body))
        raise_for_code(response.error, f"partition {partition} of {topic}")
        previous_offset, aborted = offset, list(response.aborted)
        for batch in read_batches(memoryview(response.records)):
            if batch.base_offset >= last:
                return
            offset = max(offset, batch.last_offset + 1)
            open_now = [pair for pair in aborted if pair[0] == batch.producer_id and pair[1] <= batch.base_offset]
            if batch.is_control:
                aborted = [pair for pair in aborted if pair not in open_now]  # the marker ends them
            else:
                yield batch, batch.is_transactional and bool(open_now)
        if offset == previous_offset:
            if complete:
                name = f"partition {partition} of {topic}"
                raise UpstreamError(
                    "other", f"{name} ends at offset {last}, but its broker returns nothing from {offset}"
                )
            return


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
