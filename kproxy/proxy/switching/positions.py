"""The positions in partitions that a consumer may use in the cluster that it is connected to now. Pure.

A consumer asks for its position once, with OffsetFetch or ListOffsets, and remembers it. The same offset is another
record in another cluster. So after a switch, a client that has fetched before may only use offsets that it has received
since: its first Fetch of a partition in a session must start at one of them. The client counts on from there by itself.

kproxy recognises a client by its identity only, and several clients may have the same identity. So the fetches of one
session prove nothing about other sessions, with two exceptions: when the session ends, the client may continue on
another connection; and when the session has not asked for the partition for a while, another broker leads the
partition, and the client continues there.

Some programs have many consumers and keep the positions themselves: a Spark query makes a new consumer for each task
that is repeated, on any host, and gives it a position of its checkpoint. Such consumers are numbered
(`consumer-GROUP-7`). So after a switch kproxy also doubts a client whose name differs only in the number from that of a
client that has fetched before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kproxy.proxy.switching.doubts import ClientIdentity

Partition = tuple[bytes, int]
"""A topic's name as received, and a partition number."""
Position = tuple[bytes, int, int]
"""A topic's name as received, a partition number, and an offset."""

MAX_CLIENTS = 20_000
"""Clients that are tracked one by one; if more have fetched, each client is treated as one that has."""
MAX_SAVED_CLIENTS = 2_000
"""Clients that a kproxy writes to its state file when it ends."""
MAX_OFFSETS = 8
"""The last offsets of one partition that one client has received: this many are kept."""
MAX_PARTITIONS = 50_000
"""Partitions that are kept of one client; of more, the oldest are forgotten."""
MAX_WAITING = 1_000
ABANDONED_AFTER = 5.0
"""Seconds after which another session may continue with a partition for which a session has not asked. A consumer that
has a partition asks for it about twice a second (`fetch.max.wait.ms` is 500)."""


@dataclass(frozen=True, slots=True)
class WaitingConsumer:
    """A client that gets no records, because its position is not one that this cluster has returned."""

    identity: ClientIdentity
    topic: bytes
    partition: int
    offset: int
    since: float


class ClientPositions:
    """The offsets that one client has received since the switch, and the partitions that its ended sessions fetched."""

    __slots__ = ("_begun", "_followed", "_told", "open")

    def __init__(self) -> None:
        self.open: set[SessionPositions] = set()
        self._told: OrderedDict[Partition, tuple[int, ...]] = OrderedDict()
        self._followed: OrderedDict[Partition, None] = OrderedDict()
        self._begun: OrderedDict[Partition, None] = OrderedDict()

    @property
    def has_new_offsets(self) -> bool:
        """True if the client has received any offset since the switch."""
        return bool(self._told or self._followed)

    def note_offset(self, topic: bytes, partition: int, offset: int) -> None:
        """Note that the broker has returned this offset to the client."""
        if offset < 0:
            return
        key = (topic, partition)
        offsets = self._told.pop(key, ())
        self._told[key] = (*(earlier for earlier in offsets if earlier != offset), offset)[-MAX_OFFSETS:]
        if len(self._told) > MAX_PARTITIONS:
            self._told.popitem(last=False)

    def has_offsets(self, topic: bytes, partition: int) -> bool:
        """Return True if the client has received any offset of this partition."""
        return (topic, partition) in self._told or (topic, partition) in self._followed

    def may_start_at(self, topic: bytes, partition: int, offset: int) -> bool:
        """Return True if a session of the client may start to fetch at this offset."""
        key = (topic, partition)
        return key in self._followed or offset in self._told.get(key, ())

    def may_commit(self, topic: bytes, partition: int, offset: int) -> bool:
        """Return True if this can be a position in this cluster.

        The client has received it, or has started to fetch from a position of this cluster.
        """
        return (topic, partition) in self._begun or self.may_start_at(topic, partition, offset)

    def note_started(self, partitions: Iterable[Partition]) -> None:
        """Note that a session has started to fetch these partitions at offsets that the client has received."""
        _note(self._begun, partitions)

    def note_followed(self, partitions: Iterable[Partition]) -> None:
        """Note that a session that fetched these partitions has ended: the client may continue at any offset."""
        _note(self._followed, partitions)


def _note(noted: OrderedDict[Partition, None], partitions: Iterable[Partition]) -> None:
    for partition in partitions:
        noted[partition] = None
        if len(noted) > MAX_PARTITIONS:
            noted.popitem(last=False)


def client_series(client_id: str) -> str:
    """Return the common part of the client ids of a program that numbers its clients; "" without a number."""
    name, _, number = client_id.rpartition("-")
    return name if number.isascii() and number.isdigit() else ""


class PositionTracker:
    """The clients of one cluster since it was switched.

    `stale`: clients that have fetched in the former cluster. `right`: clients that are known to have positions of this
    cluster. `everyone`: each client is treated as one that has fetched in the former cluster; that is so for a while if
    kproxy was restarted meanwhile, and cannot know. `full`: the same for good, because there are too many clients.
    """

    def __init__(
        self, stale: Iterable[ClientIdentity] = (), right: Iterable[ClientIdentity] = (), *, everyone: bool = False
    ) -> None:
        self._clients: dict[ClientIdentity, ClientPositions] = {}
        self._series: set[str] = set()
        self._right = frozenset(right)
        self._adopted: list[tuple[Callable[[str], bool], PositionTracker | None]] = []
        self._waiting: OrderedDict[ClientIdentity, WaitingConsumer] = OrderedDict()
        self.everyone, self.full = everyone, False
        for identity in stale:
            self.note_stale(identity)

    def note_stale(self, identity: ClientIdentity) -> None:
        """Note that this client has fetched in the former cluster."""
        if identity not in self._clients:
            if len(self._clients) >= MAX_CLIENTS:
                self.full = True
                return
            self._clients[identity] = ClientPositions()
            if name := client_series(identity.client_id):
                self._series.add(name)

    def adopt(self, has: Callable[[str], bool], former: PositionTracker | None) -> None:
        """Track clients that were not switched with the others: what `former` knows of them counts.

        `has` selects them by their client ids. `former` is None if they were never switched.
        """
        for identity in [identity for identity in self._clients if has(identity.client_id)]:
            del self._clients[identity]
        if former is not None:
            self._clients |= {identity: each for identity, each in former._clients.items() if has(identity.client_id)}
        self._adopted.append((has, former))

    def client(self, identity: ClientIdentity) -> ClientPositions | None:
        """Return the offsets that this client has received; None if it is not doubted.

        A client is doubted if it, or another one of its series, has fetched in the former cluster.
        """
        client = self._clients.get(identity)
        if client is None and self._may_be_stale(identity):
            if len(self._clients) >= 2 * MAX_CLIENTS:
                self._clients.pop(next(iter(self._clients)))
            client = self._clients[identity] = ClientPositions()
        return client

    def is_tracked(self, identity: ClientIdentity) -> bool:
        """Return True if this client itself has fetched in the former cluster, or may have, and has connected since."""
        return identity in self._clients

    def _may_be_stale(self, identity: ClientIdentity) -> bool:
        for has, former in self._adopted:
            if has(identity.client_id):
                return former is not None and former._may_be_stale(identity)
        return (
            self.everyone
            or self.full
            or (identity not in self._right and client_series(identity.client_id) in self._series)
        )

    def has_new_offsets(self, identity: ClientIdentity) -> bool:
        """Return True if this client may have a position of this cluster, and none of the former one."""
        client = self._clients.get(identity)
        return client is None or client.has_new_offsets

    # Who waits

    def note_waiting(self, identity: ClientIdentity, position: Position, now: float) -> bool:
        """Note that this client did not get the records that it asked for; return True for the first time."""
        before = self._waiting.pop(identity, None)
        self._waiting[identity] = WaitingConsumer(identity, *position, now if before is None else before.since)
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
        return before is None

    def waits_without_offsets(self, identity: ClientIdentity) -> bool:
        """Return True if this client waits and has received no offset since the switch."""
        if identity not in self._waiting:
            return False
        client = self._clients.get(identity)
        return client is not None and not client.has_new_offsets

    @property
    def has_waiting(self) -> bool:
        """True if any client waits."""
        return bool(self._waiting)

    def note_served(self, identity: ClientIdentity) -> None:
        """Note that this client no longer waits."""
        self._waiting.pop(identity, None)

    @property
    def waiting(self) -> tuple[WaitingConsumer, ...]:
        """The clients that wait."""
        return tuple(self._waiting.values())


class SessionPositions:
    """The partitions that one session has fetched from offsets that the client has received.

    Times are seconds of any one clock.
    """

    __slots__ = ("_all", "_client", "_forgotten", "partitions")

    def __init__(self, client: ClientPositions) -> None:
        self._client = client
        self.partitions: dict[Partition, float] = {}  # when it has asked for each by name
        self._all = float("-inf")  # when it has asked for all of its fetch session
        self._forgotten: set[Partition] = set()  # the partitions that have left the fetch session
        client.open.add(self)

    def lacks_offsets(self, positions: Iterable[Position]) -> bool:
        """Return True if the client has received no offset of one of these partitions."""
        return not all(
            (topic, partition) in self.partitions or self._client.has_offsets(topic, partition)
            for topic, partition, _ in positions
        )

    def may_commit(self, positions: Iterable[Position]) -> bool:
        """Return True if all of these can be positions in this cluster."""
        return all(self._client.may_commit(*position) for position in positions)

    def end(self) -> None:
        """Note that the session has ended."""
        self._client.open.discard(self)
        self._client.note_followed(self.partitions)

    def first_stale(self, positions: Iterable[Position], now: float) -> Position | None:
        """Return the first of these positions that the client has not received; None if it may fetch them all.

        If None, the session follows these partitions from now on.
        """
        started = []
        asked = self.partitions
        for topic, partition, offset in positions:
            key = topic, partition
            if key in asked:
                asked[key] = now
            elif self._client.may_start_at(topic, partition, offset) or self._was_left(key, now):
                started.append(key)
            else:
                return topic, partition, offset
        if started:
            asked.update(dict.fromkeys(started, now))
            self._client.note_started(started)
        if self._forgotten:
            self._forgotten.difference_update([(topic, partition) for topic, partition, _ in positions])
        return None

    def note_fetch_all(self, forgotten: Iterable[Partition], now: float) -> None:
        """Note a request for all partitions of its fetch session (KIP-227), from now on without the forgotten ones."""
        self._all = now
        self._forgotten.update(key for key in forgotten if key in self.partitions)

    def is_followed_elsewhere(self, position: Position) -> bool:
        """Return True if another session of the client follows this partition."""
        return any(position[:2] in other.partitions for other in self._client.open if other is not self)

    def _was_left(self, key: Partition, now: float) -> bool:
        return any(other is not self and other.has_abandoned(key, now) for other in self._client.open)

    def has_abandoned(self, key: Partition, now: float) -> bool:
        """Return True if this session has followed the partition, and has not asked for it for a while."""
        if key not in self.partitions:
            return False
        asked = self.partitions[key]
        return now - (asked if key in self._forgotten else max(asked, self._all)) >= ABANDONED_AFTER
