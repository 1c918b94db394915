"""A client of one cluster: its metadata, and a connection to each broker.

The client keeps its connections from one slice to the next. After a failure it forgets the failed connections and all
metadata. `retry` asks again after errors that end.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from kproxy.base.address import Address
from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.errorcodes import BrokerError, raise_for_code
from kproxy.migrate.copier.requests import TopicPartition, parse_response
from kproxy.protocol.wire.api import ApiKey

T = TypeVar("T")

# Pause between two attempts, in seconds.
_MIN_PAUSE, _MAX_PAUSE = 0.1, 3.0


class ClusterClient:
    """A client of the cluster behind one local address of kproxy."""

    def __init__(self, bootstrap: str) -> None:
        addresses = [Address.parse(part.strip()) for part in bootstrap.split(",")]
        self.bootstrap = bootstrap
        self._bootstrap = [(address.host, address.port) for address in addresses]
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._brokers: Mapping[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._coordinators: dict[str, tuple[str, int]] = {}

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Connections

    def _connect(self, address: tuple[str, int]) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = BrokerConnection(*address)
        return connection

    def connect_any(self) -> BrokerConnection:
        """Return a connection to any broker. Raises UpstreamError if no broker can be reached."""
        for connection in self._connections.values():
            if connection.is_open and not connection.in_flight:
                return connection
        failure: Exception | None = None
        for address in [*self._bootstrap, *self._brokers.values()]:
            try:
                return self._connect(address)
            except UpstreamError as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def leader(self, topic: str, partition: int) -> int:
        """Return the node id of the leader of a partition, -1 if there is none now."""
        if (topic, partition) not in self._leaders:
            self.refresh_metadata([topic])
        leader = self._leaders.get((topic, partition), -1)
        return leader if leader in self._brokers else -1

    def connect_leader(self, topic: str, partition: int) -> BrokerConnection:
        """Return a connection to the leader of a partition."""
        leader = self.leader(topic, partition)
        if leader < 0:
            raise UpstreamError("unreachable", f"{topic}-{partition} has no leader now")
        return self._connect(self._brokers[leader])

    def connect_coordinator(self, transactional_id: str) -> BrokerConnection:
        """Return a connection to the transaction coordinator of a transactional id."""
        address = self._coordinators.get(transactional_id)
        if address is None:
            body = self.connect_any().request(
                ApiKey.FIND_COORDINATOR, 1, requests.encode_find_coordinator(transactional_id, 1)
            )
            error, _, address = parse_response(requests.read_find_coordinator, body)
            raise_for_code(error, f"finding the transaction coordinator of {transactional_id}")
            self._coordinators[transactional_id] = address
        return self._connect(address)

    def invalidate(self) -> None:
        """Forget leaders and coordinators, and close connections that wait for a response or have failed."""
        self._leaders.clear()
        self._coordinators.clear()
        for address, connection in list(self._connections.items()):
            if connection.in_flight or not connection.is_open:
                connection.close()
                del self._connections[address]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Metadata and offsets

    def refresh_metadata(self, topics: Iterable[str] | None = None) -> requests.ClusterMetadata:
        """Read the metadata of these topics, or of all topics if None.

        A topic that does not exist has its error code in the result.
        """
        names = None if topics is None else list(topics)
        connection = self.connect_any()
        version = connection.version(ApiKey.METADATA)
        body = connection.request(ApiKey.METADATA, version, requests.encode_metadata(version, names))
        metadata = parse_response(requests.read_metadata, version, body)
        if not metadata.brokers:
            raise UpstreamError("unreachable", f"the metadata of the cluster behind {self.bootstrap} has no broker")
        self._brokers = metadata.brokers
        for topic, (_, partitions) in metadata.topics.items():
            for partition_metadata in partitions:
                self._leaders[topic, partition_metadata.index] = partition_metadata.leader
        return metadata

    def list_offsets(
        self, partitions: Iterable[TopicPartition], which: int, *, committed: bool = True
    ) -> dict[TopicPartition, int]:
        """Return the first offset (EARLIEST) or the last stable offset (LATEST) of each partition.

        Without `committed`, LATEST is the high watermark. Another value of `which` is a timestamp in milliseconds: the
        offset is then that of the first record which is not older, or -1 if all records are. The result lacks
        partitions without a leader and partitions for which the leader returned an error.
        """
        partitions_by_leader: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        requested = list(partitions)
        unknown_topics = {topic for topic, partition in requested if (topic, partition) not in self._leaders}
        if unknown_topics:
            self.refresh_metadata(sorted(unknown_topics))
        for topic, partition in requested:
            partitions_by_leader[self._leaders.get((topic, partition), -1)][topic].append(partition)
        offsets: dict[TopicPartition, int] = {}
        for leader, topics in partitions_by_leader.items():
            if leader in self._brokers:
                offsets |= self._list_offsets_of_leader(leader, topics, which, committed)
        return offsets

    def list_offsets_until(
        self, partitions: Iterable[TopicPartition], which: int, until: float, *, committed: bool = True
    ) -> dict[TopicPartition, int]:
        """Return what `list_offsets` does, asked again while brokers do not answer for all partitions.

        The result lacks partitions for which none has answered by `until` (time.monotonic).
        """
        offsets: dict[TopicPartition, int] = {}
        wanted = set(partitions)
        while missing := wanted - offsets.keys():
            try:
                offsets |= self.list_offsets(missing, which, committed=committed)
            except UpstreamError:
                self.invalidate()
            if wanted <= offsets.keys() or time.monotonic() >= until:
                break
            time.sleep(_MIN_PAUSE)
        return offsets

    def _list_offsets_of_leader(
        self, leader: int, topics: Mapping[str, list[int]], which: int, committed: bool
    ) -> dict[TopicPartition, int]:
        try:
            body = self._connect(self._brokers[leader]).request(
                ApiKey.LIST_OFFSETS, 2, requests.encode_list_offsets(topics, which, committed=committed)
            )
        except UpstreamError:
            self.invalidate()
            return {}
        results = parse_response(requests.read_list_offsets, body)
        if any(error for error, _ in results.values()):
            self._leaders.clear()
        return {topic_partition: offset for topic_partition, (error, offset) in results.items() if not error}

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic. Raises BrokerError if the topic does not exist."""
        metadata = self.refresh_metadata([topic])
        raise_for_code(metadata.topic_error(topic), f"topic {topic}")
        return len(metadata.topics[topic][1])


# Retries, for errors that end: leaders move, coordinators load, brokers start


def is_retriable(error: KproxyError) -> bool:
    """Return True if another attempt may succeed."""
    if isinstance(error, BrokerError):
        return error.is_retriable
    return isinstance(error, UpstreamError)


def backoff() -> Iterator[float]:
    """Yield the pause before each further attempt, in seconds."""
    pause = _MIN_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _MAX_PAUSE)


def retry(cluster: ClusterClient, call: Callable[[], T], seconds: float) -> T:
    """Return the result of `call`, retried for at most `seconds`.

    Raises the last error of `call` if it is not retriable, or if the time is over.
    """
    deadline = time.monotonic() + seconds
    for pause in backoff():
        try:
            return call()
        except KproxyError as error:
            if not is_retriable(error) or time.monotonic() + pause >= deadline:
                raise
        cluster.invalidate()
        time.sleep(pause)
    raise AssertionError
