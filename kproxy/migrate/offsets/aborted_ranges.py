"""What lies in a partition's log between two offsets: which batches, and whether their transaction was aborted."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.base.errors import UpstreamError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import raise_for_code
from kproxy.migrate.copier.requests import parse_response
from kproxy.protocol.records.header import Batch, read_batches

_AT_ONCE = 1024 * 1024


def count_by_batch(
    cluster: ClusterClient, topic: str, partition: int, first: int, last: int
) -> Iterator[tuple[int, bool]]:
    """Of each batch from `first` up to `last`, as far as its outcome is decided: how many records it has there, and
    whether it was aborted. Markers of transactions are left out. Raises Refused, UpstreamError and WireError."""
    for batch, aborted in fetch_batches(cluster, topic, partition, first, last):
        yield count_in_range(batch, first, last), aborted


def count_in_range(batch: Batch, first: int, last: int) -> int:
    """How many records a batch has between two offsets; at most so many, if compaction has removed some and the batch
    goes beyond these offsets (pure)."""
    span = min(last, batch.last_offset + 1) - max(first, batch.base_offset)
    return span if batch.count < 0 else min(span, batch.count)


def fetch_batches(
    cluster: ClusterClient, topic: str, partition: int, first: int, last: int, *, whole: bool = False
) -> Iterator[tuple[Batch, bool]]:
    """The same, the batches themselves; the first and the last one may have records beyond these offsets. With `whole`,
    a broker that gives less is an UpstreamError."""
    link = cluster.connect_leader(topic, partition)
    version = link.version(requests.FETCH)
    at = first
    while at < last:
        body = requests.encode_fetch(version, topic, partition, at, size=_AT_ONCE, wait_ms=0, committed=True)
        answer = parse_response(requests.read_fetch, version, link.request(requests.FETCH, version, body))
        raise_for_code(answer.error, f"partition {partition} of {topic}")
        before, aborted = at, list(answer.aborted)
        for batch in read_batches(memoryview(answer.records)):
            if batch.base_offset >= last:
                return
            at = max(at, batch.last_offset + 1)
            begun = [one for one in aborted if one[0] == batch.producer_id and one[1] <= batch.base_offset]
            if batch.is_control:
                aborted = [one for one in aborted if one not in begun]  # their end
            else:
                yield batch, batch.is_transactional and bool(begun)
        if at == before:
            if whole:
                where = f"partition {partition} of {topic}"
                raise UpstreamError(
                    "other", f"{where} ends at offset {last}, and its broker gives nothing from {at} on"
                )
            return
