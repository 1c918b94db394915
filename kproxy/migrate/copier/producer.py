"""A transactional producer of ready batches: one transactional id, one transaction after the other.

The protocol is that of KIP-98 without the epoch that KIP-890 raises for each transaction: partitions are added to the
transaction explicitly, so all brokers from 0.11 on take it. A batch that fails is never sent again. The copier goes
back to its committed state instead, with a new epoch: then nothing has to be known of what an unanswered request did.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.errorcodes import CONCURRENT_TRANSACTIONS, raise_for_code
from kproxy.migrate.copier.requests import parse_response
from kproxy.protocol.records.codecs import NONE
from kproxy.protocol.records.encoding import ProducerState as Stamp
from kproxy.protocol.records.encoding import RecordEntry, encode_batch, tail
from kproxy.protocol.wire.primitives import Buffer

# How long a transaction may be open without a word before the broker aborts it, in milliseconds.
TIMEOUT_MS = 60_000
# How long a broker may wait for its followers, in milliseconds.
_ACKS_MS = 25_000
# So many batches are under way on one connection. A broker takes one after the other; more only hides the way there.
_WINDOW = 32
# While the coordinator ends what this id did before.
_ASK_AGAIN = 0.01

OnAcknowledged = Callable[[int], None]
"""Is given a batch's base offset on the target."""


class TransactionalProducer:
    """`start` comes first; then for each transaction `add`, `send` or `write`, and `commit`."""

    def __init__(self, cluster: ClusterClient, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self.id = transactional_id
        self.producer_id = self.epoch = -1
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._sequences: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._waiting: deque[tuple[BrokerConnection, str, int, int, OnAcknowledged]] = deque()
        self._added: set[tuple[str, int]] = set()

    def move(self, cluster: ClusterClient) -> None:
        """Go on with another's connections. Nothing may be under way."""
        self._cluster = cluster

    def start(self, until: float) -> None:
        """Fence whoever had this id before, end its transaction, take a new epoch. Its outcome is decided when this
        returns. Raises Refused, also if the coordinator is not ready by `until` (of time.monotonic), and UpstreamError.
        """
        self._waiting.clear()
        self._added.clear()
        self._sequences.clear()
        body = requests.encode_init_producer_id(self.id, self._timeout_ms)
        while True:
            error, self.producer_id, self.epoch = parse_response(
                requests.read_init_producer_id, self._coordinator.request(requests.INIT_PRODUCER_ID, 0, body)
            )
            if error != CONCURRENT_TRANSACTIONS or time.monotonic() >= until:
                break
            time.sleep(_ASK_AGAIN)
        raise_for_code(error, f"a producer id for {self.id}")

    @property
    def _coordinator(self) -> BrokerConnection:
        return self._cluster.connect_coordinator(self.id)

    def stamp(self, topic: str, partition: int) -> Stamp:
        """What stands in the header of this partition's next batch. Sequence numbers begin again after 2³¹ - 1."""
        return Stamp(self.producer_id, self.epoch, self._sequences[topic, partition], transactional=True)

    def add(self, partitions: Mapping[str, Sequence[int]]) -> None:
        """Make partitions part of the transaction; those that are already, need no question. Raises Refused."""
        new = {(topic, index) for topic, indexes in partitions.items() for index in indexes} - self._added
        if not new:
            return
        body = requests.encode_add_partitions(self.id, self.producer_id, self.epoch, partitions)
        until = time.monotonic() + self._timeout_ms / 1000
        while True:
            answer = self._coordinator.request(requests.ADD_PARTITIONS, 0, body)
            error = parse_response(requests.read_add_partitions, answer)
            if error != CONCURRENT_TRANSACTIONS or time.monotonic() >= until:
                break
            time.sleep(_ASK_AGAIN)  # the markers of the transaction before are still being written
        raise_for_code(error, f"a transaction on the target with {' and '.join(sorted({topic for topic, _ in new}))}")
        self._added |= new

    def send(
        self, topic: str, partition: int, batch: Sequence[Buffer], count: int, acknowledged: OnAcknowledged
    ) -> None:
        """Write a batch of `count` records, in parts; waits only if many are under way. Raises Refused of an earlier
        one, and UpstreamError."""
        link = self._cluster.connect_leader(topic, partition)
        version = link.version(requests.PRODUCE)
        size = sum(map(len, batch))
        self._waiting.append((link, topic, partition, size, acknowledged))
        self._sequences[topic, partition] = self._sequences[topic, partition] + count & 0x7FFFFFFF
        link.send(requests.PRODUCE, version, requests.encode_produce(self.id, topic, partition, size, _ACKS_MS), *batch)
        while link.in_flight >= _WINDOW:
            self._take()

    def write(self, topic: str, partition: int, records: Sequence[tuple[bytes, bytes | None]], at: int) -> None:
        """The same for keys and values, as one batch with one timestamp."""
        entries = [RecordEntry(0, at, tail(name, value)) for name, value in records]
        batch = encode_batch(entries, NONE, self.stamp(topic, partition))
        self.send(topic, partition, batch, len(entries), lambda _: None)

    def flush(self) -> None:
        """Until all are acknowledged. Raises Refused for the first that is not, and UpstreamError."""
        while self._waiting:
            self._take()

    def _take(self) -> None:
        link, topic, partition, size, acknowledged = self._waiting.popleft()
        error, offset = parse_response(requests.read_produce, link.receive())
        raise_for_code(error, f"partition {partition} of {topic} on the target, a batch of {size} bytes")
        acknowledged(offset)

    def commit(self) -> None:
        """End the transaction. Raises Refused and UpstreamError; then nobody knows whether it has ended, and `start`
        decides it."""
        self.flush()
        if self._added:
            self._end(commit=True)

    def abort(self) -> None:
        """Leave nothing open, as far as can be: readers of the target wait for open transactions."""
        self._waiting.clear()
        self._cluster.invalidate()
        if self._added:
            self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        body = requests.encode_end_txn(self.id, self.producer_id, self.epoch, commit=commit)
        error = parse_response(requests.read_end_txn, self._coordinator.request(requests.END_TXN, 0, body))
        raise_for_code(error, f"the end of a transaction of {self.id}")
        self._added.clear()
