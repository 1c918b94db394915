"""Samples the records of a cluster's topics: the first and the last ones of some partitions of each topic."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from kproxy.base.errors import KproxyError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import raise_for_code
from kproxy.migrate.copier.requests import EARLIEST, LATEST, TopicPartition, parse_response
from kproxy.migrate.schemas.recordids import TopicSample
from kproxy.protocol.records.decoding import Record, decode_entries, decode_tail
from kproxy.protocol.records.header import Batch, filter_committed, read_batches
from kproxy.protocol.wire.api import ApiKey

# Partitions of a topic, offsets at each end of one, and bytes of one request.
_PARTITIONS, _OFFSETS, _FETCH = 6, 100, 256 * 1024
# Of a batch, so many records are decoded at most, and a batch whose records take more bytes is left out.
_RECORDS, _LARGEST_BATCH = 1000, 4 * 1024 * 1024


@dataclass(slots=True)
class ClusterSample:
    """The samples of a cluster, by topic."""

    topics: dict[str, TopicSample] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    """The topics that could not be sampled, with the reason."""


def sample_topics(
    bootstrap: str, partitions: Mapping[str, int], seconds: float, *, only_last: bool = False
) -> ClusterSample:
    """Sample topics, for at most about `seconds`: a partition of each, then another one of each.

    `partitions` has the number of partitions of each topic. `only_last`: only the last records. A topic without records
    has an empty sample.
    """
    sample = ClusterSample()
    deadline = time.monotonic() + seconds
    with ClusterClient(bootstrap) as cluster:
        for place in _places(partitions):
            topic = place[0]
            if topic in sample.unread:
                continue
            if time.monotonic() >= deadline:
                if topic not in sample.topics:
                    sample.unread[topic] = f"there was no time for it within {seconds:g} s"
                continue
            try:
                records = list(_read_ends(cluster, place, only_last=only_last))
            except KproxyError as error:
                cluster.invalidate()
                sample.unread[topic] = str(error)
            else:
                sample.topics.setdefault(topic, TopicSample()).add(records)
    return sample


def _places(partitions: Mapping[str, int]) -> Iterator[TopicPartition]:
    """Yield partitions of each topic that are apart from each other, one of each topic at a time."""
    chosen = {topic: _spread(count) for topic, count in partitions.items()}
    for number in range(_PARTITIONS):
        yield from ((topic, places[number]) for topic, places in chosen.items() if number < len(places))


def _spread(count: int) -> list[int]:
    most = min(count, _PARTITIONS)
    return [number * count // most for number in range(most)]


def _read_ends(cluster: ClusterClient, place: TopicPartition, *, only_last: bool) -> Iterator[Record]:
    begin = cluster.list_offsets([place], EARLIEST).get(place)
    end = cluster.list_offsets([place], LATEST).get(place)
    if begin is None or end is None or begin >= end:
        return
    last = max(begin, end - _OFFSETS)
    if not only_last and begin < last:
        yield from _read(cluster, place, begin, min(begin + _OFFSETS, last))
    yield from _read(cluster, place, last, end)


def _read(cluster: ClusterClient, place: TopicPartition, start: int, end: int) -> Iterator[Record]:
    """Yield committed records from `start` to before `end`, as many as one request returns."""
    topic, partition = place
    connection = cluster.connect_leader(topic, partition)
    version = connection.version(ApiKey.FETCH)
    body = requests.encode_fetch(version, topic, partition, start, size=_FETCH, wait_ms=0)
    response = parse_response(requests.read_fetch, version, connection.request(ApiKey.FETCH, version, body))
    raise_for_code(response.error, f"partition {partition} of {topic}")
    for batch in filter_committed(read_batches(memoryview(response.records)), response.aborted):
        if len(batch.raw) <= _LARGEST_BATCH:
            yield from islice(_records(batch, start, end), _RECORDS)


def _records(batch: Batch, start: int, end: int) -> Iterator[Record]:
    for entries in decode_entries(batch, start, end):
        for offset, timestamp, content in entries:
            yield Record(offset, timestamp, *decode_tail(content))
