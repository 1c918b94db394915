"""The record of what clients used, with a limit for everything that clients choose. Pure.

Times are seconds of the clock that requests come with.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

K = TypeVar("K")

MOST_CLIENTS = 2_000
MOST_NAMES = 20_000
"""The most names of all clients together; a topic that two clients use counts twice."""
MOST_PARTITIONS = 20_000
MOST_PRODUCERS = 20_000
"""The most producer ids of all partitions together."""
LONGEST_NAME = 249
"""The most characters of a name that are kept: as many as a topic may have."""


class Use(StrEnum):
    """A way in which a client uses what it names."""

    WRITES = "writes"
    READS = "reads"
    GROUP = "groups"
    TRANSACTION = "transactions"
    ADMIN = "admin"
    """The client has sent requests of this API, which changes more than records and positions."""


class ClientKey(NamedTuple):
    """A client, as the record distinguishes clients.

    `user` has logged in at kproxy; `broker_user` is the name in a login that passed to the broker, which verifies it.
    `upstream` is the active upstream of its session, "" if the cluster has one only. `address` has no port.
    """

    cluster: str
    upstream: str
    user: str
    address: str
    client_id: str
    software: str
    broker_user: str = ""


class Topic(NamedTuple):
    """A topic as a request names it: by its name, or by its id (16 bytes, then `name` is "")."""

    name: str
    id: bytes = b""


@dataclass(slots=True)
class NameUsage:
    """How often, and when last, a client has used a name."""

    requests: int = 0
    last: float = 0.0


@dataclass(slots=True)
class ClientUsage:
    """What one client has used."""

    first: float
    last: float
    topics: dict[tuple[Use, Topic], NameUsage] = field(default_factory=dict)
    names: dict[tuple[Use, str], NameUsage] = field(default_factory=dict)
    """Groups, transactional ids, and APIs that change something."""
    transactions: dict[tuple[str, Use, Topic | str], NameUsage] = field(default_factory=dict)
    """By transactional id, the topics that were written and the groups that committed in its transactions."""


@dataclass(slots=True)
class ProducerUsage:
    """The highest epoch of a producer id, the offsets of its batches, and when the last one came."""

    epoch: int
    last: float
    offsets: int = 0


@dataclass(slots=True)
class PartitionUsage:
    """What clients have written to one partition. Produce requests that are refused count, too."""

    offsets: int = 0
    """The offsets that the batches take in the log, as they say themselves."""
    unsized: int = 0
    """Batches of which that is unknown: those of before Kafka 0.11."""
    last: float = 0.0
    producers: dict[int, ProducerUsage] = field(default_factory=dict)
    """By producer id; -1 is a producer without idempotence."""


class PartitionKey(NamedTuple):
    """A partition of a topic of a cluster and its upstream."""

    cluster: str
    upstream: str
    topic: Topic
    partition: int


class Budget:
    """What may be spent on reading requests, in about half a microsecond: `a_second`, and `most` at once.

    The cost of a request is known afterwards, so the last one may cost more than is left.
    """

    def __init__(self, a_second: float = 200_000, most: float = 4_000) -> None:
        self._a_second, self._most = a_second, most
        self._left, self._at = most, 0.0

    def allows(self, now: float) -> bool:
        """Check whether anything is left."""
        self._left = min(self._most, self._left + max(0.0, now - self._at) * self._a_second)
        self._at = now
        return self._left > 0

    def charge(self, cost: float) -> None:
        """Spend this much."""
        self._left -= cost


class UsageRecord:
    """What all clients have used since the record began.

    `left_out` counts what did not fit, by kind: clients, names, partitions, producers, and requests that were too large
    or too many to read.
    """

    def __init__(self, since: float) -> None:
        self.since = since
        self.clients: dict[ClientKey, ClientUsage] = {}
        self.partitions: dict[PartitionKey, PartitionUsage] = {}
        self.left_out: Counter[str] = Counter()
        self.budget = Budget()
        self._names = self._producers = 0

    def client(self, key: ClientKey, now: float) -> ClientUsage | None:
        """Return what a client has used; None if there is no room for one more client."""
        usage = self.clients.get(key)
        if usage is None:
            if len(self.clients) >= MOST_CLIENTS:
                self.left_out["clients"] += 1
                return None
            usage = self.clients[key] = ClientUsage(now, now)
        return usage

    def note_topic(self, client: ClientUsage, use: Use, topic: Topic, now: float) -> None:
        """Note that a client writes or reads a topic."""
        self._note(client.topics, (use, topic), now)

    def note_name(self, client: ClientUsage, use: Use, name: str, now: float) -> None:
        """Note that a client uses a group, a transactional id or an API."""
        self._note(client.names, (use, name[:LONGEST_NAME]), now)

    def note_transaction(self, client: ClientUsage, transaction: str, use: Use, of: Topic | str, now: float) -> None:
        """Note that a transaction of this id has a topic or a group."""
        name = of[:LONGEST_NAME] if isinstance(of, str) else of
        self._note(client.transactions, (transaction[:LONGEST_NAME], use, name), now)

    def _note(self, usages: dict[K, NameUsage], key: K, now: float) -> None:
        usage = usages.get(key)
        if usage is None:
            if self._names >= MOST_NAMES:
                self.left_out["names"] += 1
                return
            self._names += 1
            usage = usages[key] = NameUsage()
        usage.requests += 1
        usage.last = now

    def note_batch(self, key: PartitionKey, offsets: int, producer_id: int, epoch: int, now: float) -> None:
        """Note a batch of so many offsets; fewer than 1: their number is unknown."""
        partition = self.partitions.get(key)
        if partition is None:
            if len(self.partitions) >= MOST_PARTITIONS:
                self.left_out["partitions"] += 1
                return
            partition = self.partitions[key] = PartitionUsage()
        partition.last = now
        if offsets > 0:
            partition.offsets += offsets
        else:
            partition.unsized += 1
        producer = partition.producers.get(producer_id)
        if producer is None:
            if self._producers >= MOST_PRODUCERS:
                self.left_out["producers"] += 1
                return
            self._producers += 1
            producer = partition.producers[producer_id] = ProducerUsage(epoch, now)
        producer.epoch, producer.last = max(epoch, producer.epoch), now
        producer.offsets += max(0, offsets)
