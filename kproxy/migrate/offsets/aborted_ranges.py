"""The batches between two offsets of a partition, and whether their transactions were aborted."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.base.errors import UpstreamError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import raise_for_code
from kproxy.migrate.copier.requests import parse_response
from kproxy.protocol.records.header import Batch, read_batches

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
    version = connection.version(requests.FETCH)
    offset = first
    while offset < last:
        body = requests.encode_fetch(version, topic, partition, offset, size=_FETCH_SIZE, wait_ms=0, committed=True)
        response = parse_response(requests.read_fetch, version, connection.request(requests.FETCH, version, body))
        raise_for_code(response.error, f"partition {partition} of {topic}")
        previous_offset, aborted = offset, list(response.aborted)
        for batch in read_batches(memoryview(response.records)):
            if batch.base_offset >= last:
                return
            offset = max(offset, batch.last_offset + 1)
            open_transactions = [
                transaction
                for transaction in aborted
                if transaction[0] == batch.producer_id and transaction[1] <= batch.base_offset
            ]
            if batch.is_control:
                aborted = [
                    transaction for transaction in aborted if transaction not in open_transactions
                ]  # the marker ends them
            else:
                yield batch, batch.is_transactional and bool(open_transactions)
        if offset == previous_offset:
            if complete:
                name = f"partition {partition} of {topic}"
                raise UpstreamError(
                    "other", f"{name} ends at offset {last}, but its broker returns nothing from {offset}"
                )
            return
