"""A transactional producer of encoded batches: one transactional id, one transaction after the other.

The protocol is that of KIP-98, without the epoch bump for each transaction of KIP-890: the producer adds partitions to
the transaction explicitly, which all brokers since 0.11 support. The producer never resends a batch that failed. The
copier returns to its committed state instead, with a new epoch, so the result of an unanswered request does not matter.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kproxy.base.errors import KproxyError
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
# Maximum number of requests in flight on one connection. A broker handles them one after the other; more than one
# only hides the network latency.
_WINDOW = 32
# Pause while the coordinator ends the previous transaction of this id, in seconds.
_RETRY_PAUSE = 0.01
# Records with more bytes than this are written as several batches, which every broker accepts.
_RECORDS_SIZE = 512 * 1024

OnAcknowledged = Callable[[int], None]
"""Receives the base offset of a batch on the target. It may raise KproxyError."""


@dataclass(frozen=True, slots=True)
class OutgoingBatch:
    """A batch of `count` records for one partition of the target, given in parts."""

    place: TopicPartition
    buffers: Sequence[Buffer]
    count: int
    on_acknowledged: OnAcknowledged


class TransactionalProducer:
    """A producer of batches in transactions.

    Call `init_transactions` first; then `add_partitions`, `send` or `send_records`, and `commit` for each transaction.

    `failed` has the partitions that the last error concerns, with the error of each; if it is empty, the error concerns
    the whole transaction.
    """

    def __init__(self, cluster: ClusterClient, transactional_id: str) -> None:
        self.id = transactional_id
        self.producer_id = self.epoch = -1
        self.failed: dict[TopicPartition, KproxyError] = {}
        self._cluster = cluster
        self._sequences: defaultdict[TopicPartition, int] = defaultdict(int)
        self._in_flight: deque[tuple[BrokerConnection, Sequence[OutgoingBatch]]] = deque()
        self._added: set[TopicPartition] = set()

    @property
    def partitions(self) -> int:
        """The number of partitions in the current transaction."""
        return len(self._added)

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
        self.failed.clear()
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

    def stamp(self, place: TopicPartition) -> Stamp:
        """Return the producer fields of the next batch header of a partition.

        Sequence numbers start again at 0 after 2³¹ - 1.
        """
        return Stamp(self.producer_id, self.epoch, self._sequences[place], transactional=True)

    def add_partitions(self, partitions: Mapping[str, Sequence[int]]) -> None:
        """Add partitions to the transaction, unless they are part of it already.

        If some are new, waits until all batches are acknowledged: the coordinator may be their leader.
        """
        new_partitions = {(topic, index) for topic, indexes in partitions.items() for index in indexes} - self._added
        if not new_partitions:
            return
        self.flush()
        for place in new_partitions:
            self._cluster.leader(*place)  # metadata cannot be read either while batches are in flight
        body = requests.encode_add_partitions(self.id, self.producer_id, self.epoch, partitions)
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while True:
            response = self._coordinator.request(ApiKey.ADD_PARTITIONS_TO_TXN, 0, body)
            errors = parse_response(requests.read_add_partitions, response)
            # the coordinator still writes the markers of the previous transaction
            is_early = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
            if not is_early or time.monotonic() >= deadline:
                break
            time.sleep(_RETRY_PAUSE)
        self._raise_first(errors, lambda place: f"adding to a transaction on the target: {place[0]}")
        self._added |= new_partitions

    def _raise_first(self, errors: Mapping[TopicPartition, int], describe: Callable[[TopicPartition], str]) -> None:
        """Raise the first of these error codes, and note the partitions that have one."""
        for place, error in errors.items():
            try:
                raise_for_code(error, describe(place))
            except KproxyError as failure:
                self.failed[place] = failure
        for first in self.failed.values():
            raise first

    def send(self, batches: Sequence[OutgoingBatch]) -> None:
        """Send batches of different partitions; wait only if the window of requests in flight is full.

        Each leader gets one request. Raises UpstreamError, and BrokerError of an earlier batch.
        """
        by_leader: dict[int, list[OutgoingBatch]] = {}
        for batch in batches:
            by_leader.setdefault(self._cluster.leader(*batch.place), []).append(batch)
        for of_leader in by_leader.values():
            try:
                connection = self._send_to_leader(of_leader)
            except KproxyError as error:
                self.failed |= dict.fromkeys((batch.place for batch in of_leader), error)
                raise
            while connection.in_flight >= _WINDOW:
                self._receive_acknowledgement()

    def _send_to_leader(self, batches: Sequence[OutgoingBatch]) -> BrokerConnection:
        connection = self._cluster.connect_leader(*batches[0].place)
        self._in_flight.append((connection, batches))
        for batch in batches:
            self._sequences[batch.place] = self._sequences[batch.place] + batch.count & 0x7FFFFFFF
        contents = [(batch.place, batch.buffers) for batch in sorted(batches, key=_place_of)]
        body = requests.encode_produce(self.id, contents, _REPLICATION_TIMEOUT_MS)
        connection.send(ApiKey.PRODUCE, connection.version(ApiKey.PRODUCE), *body)
        return connection

    def send_records(
        self, topic: str, partition: int, records: Sequence[tuple[bytes, bytes | None]], timestamp: int
    ) -> None:
        """Send keys and values with one timestamp, as one batch or a few."""
        place, entries, size = (topic, partition), list[RecordEntry](), 0
        for key, value in records:
            tail = encode_tail(key, value)
            if entries and size + len(tail) > _RECORDS_SIZE:
                self._send_entries(place, entries)
                entries, size = [], 0
            entries.append(RecordEntry(0, timestamp, tail))
            size += len(tail)
        self._send_entries(place, entries)

    def _send_entries(self, place: TopicPartition, entries: Sequence[RecordEntry]) -> None:
        batch = encode_batch(entries, NONE, self.stamp(place))
        self.send([OutgoingBatch(place, batch, len(entries), lambda _: None)])

    def flush(self) -> None:
        """Wait until all batches are acknowledged.

        Raises UpstreamError, and BrokerError of the first batch that a broker refused.
        """
        while self._in_flight:
            self._receive_acknowledgement()

    def _receive_acknowledgement(self) -> None:
        connection, batches = self._in_flight.popleft()
        try:
            response = connection.receive()
            results = parse_response(requests.read_produce, connection.version(ApiKey.PRODUCE), response)
        except KproxyError as error:
            self.failed |= dict.fromkeys((batch.place for batch in batches), error)
            raise
        errors = {}
        for batch in batches:
            code, offset = results.get(batch.place, (ErrorCode.UNKNOWN_SERVER_ERROR, -1))
            if code:
                errors[batch.place] = code
                continue
            try:
                batch.on_acknowledged(offset)
            except KproxyError as failure:
                self.failed[batch.place] = failure
        sizes = {batch.place: sum(map(len, batch.buffers)) for batch in batches if batch.place in errors}
        self._raise_first(
            errors, lambda place: f"partition {place[1]} of {place[0]} on the target, a batch of {sizes[place]} bytes"
        )

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


def _place_of(batch: OutgoingBatch) -> TopicPartition:
    return batch.place
