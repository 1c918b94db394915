"""A transactional producer of encoded batches: one transactional id, one transaction after the other.

The protocol is that of KIP-98, without the epoch bump for each transaction of KIP-890: the producer adds partitions to
the transaction explicitly, which all brokers since 0.11 support. The producer never resends a batch that failed. The
copier returns to its committed state instead, with a new epoch, so the result of an unanswered request does not matter.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.errorcodes import raise_for_code
from kproxy.migrate.copier.requests import TopicPartition, parse_response
from kproxy.protocol.records.codecs import NONE
from kproxy.protocol.records.encoding import ProducerState as Stamp
from kproxy.protocol.records.encoding import RecordEntry, encode_batch, encode_tail
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import Buffer

# Timeout after which the broker aborts a transaction without requests, in milliseconds.
TIMEOUT_MS = 60_000
# How long a broker may wait for its in-sync replicas, in milliseconds.
_REPLICATION_TIMEOUT_MS = 25_000
# Maximum number of batches in flight on one connection. A broker handles them one after the other; more than one
# only hides the network latency.
_WINDOW = 32
# Pause while the coordinator ends the previous transaction of this id, in seconds.
_RETRY_PAUSE = 0.01

OnAcknowledged = Callable[[int], None]
"""Receives the base offset of a batch on the target."""


class TransactionalProducer:
    """A producer of batches in transactions.

    Call `init_transactions` first; then `add_partitions`, `send` or `send_records`, and `commit` for each transaction.
    """

    def __init__(self, cluster: ClusterClient, transactional_id: str) -> None:
        self.id = transactional_id
        self.producer_id = self.epoch = -1
        self._cluster = cluster
        self._sequences: defaultdict[TopicPartition, int] = defaultdict(int)
        self._in_flight: deque[tuple[BrokerConnection, str, int, int, OnAcknowledged]] = deque()
        self._added: set[TopicPartition] = set()

    def use_cluster(self, cluster: ClusterClient) -> None:
        """Use the connections of another client. No request may be in flight."""
        self._cluster = cluster

    def init_transactions(self, deadline: float) -> None:
        """Fence the previous producer of this id, end its transaction, and take a new epoch.

        The result of the previous transaction is decided when this returns. Raises UpstreamError, and BrokerError, also
        if the coordinator is not ready by `deadline` (time.monotonic).
        """
        self._in_flight.clear()
        self._added.clear()
        self._sequences.clear()
        body = requests.encode_init_producer_id(self.id, TIMEOUT_MS)
        while True:
            error, self.producer_id, self.epoch = parse_response(
                requests.read_init_producer_id, self._coordinator.request(ApiKey.INIT_PRODUCER_ID, 0, body)
            )
            if error != ErrorCode.CONCURRENT_TRANSACTIONS or time.monotonic() >= deadline:
                break
            time.sleep(_RETRY_PAUSE)
        raise_for_code(error, f"InitProducerId for {self.id}")

    @property
    def _coordinator(self) -> BrokerConnection:
        return self._cluster.connect_coordinator(self.id)

    def stamp(self, topic: str, partition: int) -> Stamp:
        """Return the producer fields of the next batch header of a partition.

        Sequence numbers start again at 0 after 2³¹ - 1.
        """
        return Stamp(self.producer_id, self.epoch, self._sequences[topic, partition], transactional=True)

    def add_partitions(self, partitions: Mapping[str, Sequence[int]]) -> None:
        """Add partitions to the transaction, unless they are part of it already."""
        new_partitions = {(topic, index) for topic, indexes in partitions.items() for index in indexes} - self._added
        if not new_partitions:
            return
        body = requests.encode_add_partitions(self.id, self.producer_id, self.epoch, partitions)
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while True:
            response = self._coordinator.request(ApiKey.ADD_PARTITIONS_TO_TXN, 0, body)
            error = parse_response(requests.read_add_partitions, response)
            if error != ErrorCode.CONCURRENT_TRANSACTIONS or time.monotonic() >= deadline:
                break
            time.sleep(_RETRY_PAUSE)  # the coordinator still writes the markers of the previous transaction
        raise_for_code(
            error, f"adding to a transaction on the target: {', '.join(sorted({topic for topic, _ in new_partitions}))}"
        )
        self._added |= new_partitions

    def send(
        self, topic: str, partition: int, batch: Sequence[Buffer], count: int, on_acknowledged: OnAcknowledged
    ) -> None:
        """Send a batch of `count` records, given in parts; wait only if the window of requests in flight is full.

        Raises UpstreamError, and BrokerError of an earlier batch.
        """
        connection = self._cluster.connect_leader(topic, partition)
        version = connection.version(ApiKey.PRODUCE)
        size = sum(map(len, batch))
        self._in_flight.append((connection, topic, partition, size, on_acknowledged))
        self._sequences[topic, partition] = self._sequences[topic, partition] + count & 0x7FFFFFFF
        connection.send(
            ApiKey.PRODUCE,
            version,
            requests.encode_produce(self.id, topic, partition, size, _REPLICATION_TIMEOUT_MS),
            *batch,
        )
        while connection.in_flight >= _WINDOW:
            self._receive_acknowledgement()

    def send_records(
        self, topic: str, partition: int, records: Sequence[tuple[bytes, bytes | None]], timestamp: int
    ) -> None:
        """Send keys and values as one batch with one timestamp."""
        entries = [RecordEntry(0, timestamp, encode_tail(key, value)) for key, value in records]
        batch = encode_batch(entries, NONE, self.stamp(topic, partition))
        self.send(topic, partition, batch, len(entries), lambda _: None)

    def flush(self) -> None:
        """Wait until all batches are acknowledged.

        Raises UpstreamError, and BrokerError of the first batch that a broker refused.
        """
        while self._in_flight:
            self._receive_acknowledgement()

    def _receive_acknowledgement(self) -> None:
        connection, topic, partition, size, on_acknowledged = self._in_flight.popleft()
        error, offset = parse_response(requests.read_produce, connection.receive())
        raise_for_code(error, f"partition {partition} of {topic} on the target, a batch of {size} bytes")
        on_acknowledged(offset)

    def commit(self) -> None:
        """Commit the transaction. After an error the result is unknown, and `init_transactions` decides it."""
        self.flush()
        if self._added:
            self._end_transaction(commit=True)

    def abort(self) -> None:
        """Abort the transaction if possible, since consumers of the target wait for open transactions."""
        self._in_flight.clear()
        self._cluster.invalidate()
        if self._added:
            self._end_transaction(commit=False)

    def _end_transaction(self, *, commit: bool) -> None:
        body = requests.encode_end_txn(self.id, self.producer_id, self.epoch, commit=commit)
        error = parse_response(requests.read_end_txn, self._coordinator.request(ApiKey.END_TXN, 0, body))
        raise_for_code(error, f"ending a transaction of {self.id}")
        self._added.clear()
