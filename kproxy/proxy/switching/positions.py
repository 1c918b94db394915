"""Which positions in partitions a consumer may have from the cluster that it speaks to now. Pure.

A consumer asks for its position once, with OffsetFetch or ListOffsets, and remembers it. The same offset is another
record in another cluster. So after a switch a client that has fetched before is believed only what it was told since:
its first Fetch of a partition in a session must begin where it was told. What follows in that session is the consumer's
own counting.

A client is known again by its identity only, and several clients may have the same. So what a session has fetched says
nothing about other sessions, until it ends: then the client may come back on another connection. Or until it has not
asked for the partition for a while: another broker leads it now, and the client goes on there.

Some programs have many consumers and keep the positions themselves: a Spark query makes a new consumer for each task
that is repeated, on any host, and gives it a position of its checkpoint. They number them (`consumer-GROUP-7`). So
after a switch a client whose name is that of one that has fetched before, but for the number, is doubted like that one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from kproxy.proxy.switching.doubts import ClientIdentity

Partition = tuple[bytes, int]
"""A topic's name as it came, and a number."""
Position = tuple[bytes, int, int]
"""The same with an offset."""

MAX_CLIENTS = 20_000
"""Clients that are known one by one; if more have fetched, each client is taken for one that has."""
MAX_SAVED_CLIENTS = 2_000
"""Clients that a kproxy which ends tells the next one."""
MAX_OFFSETS = 8
"""Offsets of one partition that are kept as told to one client: the last ones."""
MAX_PARTITIONS = 50_000
"""Partitions that are kept of one client; of more, those are forgotten that it was told first."""
MAX_WAITING = 1_000
ABANDONED_AFTER = 5.0
"""Seconds in which a session has not asked for a partition, after which another one may go on with it. A consumer that
has a partition asks for it about twice a second (`fetch.max.wait.ms` is 500)."""


@dataclass(frozen=True, slots=True)
class WaitingConsumer:
    """A client that gets nothing, since nobody has told it the position that it asks for. `topic` is as it came. The
    `offset` is 0 if the client has the broker examine its position first."""

    identity: ClientIdentity
    topic: bytes
    partition: int
    offset: int
    since: float


class ClientPositions:
    """What one client was told since the switch, and what sessions of it that have ended have fetched."""

    __slots__ = ("_begun", "_followed", "_told", "open")

    def __init__(self) -> None:
        self.open: set[SessionPositions] = set()
        self._told: OrderedDict[Partition, tuple[int, ...]] = OrderedDict()
        self._followed: OrderedDict[Partition, None] = OrderedDict()
        self._begun: OrderedDict[Partition, None] = OrderedDict()

    @property
    def has_moved(self) -> bool:
        """Whether it was told anything."""
        return bool(self._told or self._followed)

    def tell(self, topic: bytes, partition: int, offset: int) -> None:
        """The broker has told it this offset."""
        if offset < 0:
            return
        key = (topic, partition)
        known = self._told.pop(key, ())
        self._told[key] = (*(one for one in known if one != offset), offset)[-MAX_OFFSETS:]
        if len(self._told) > MAX_PARTITIONS:
            self._told.popitem(last=False)

    def was_told(self, topic: bytes, partition: int) -> bool:
        """Whether it was told anything of this partition."""
        return (topic, partition) in self._told or (topic, partition) in self._followed

    def may_begin(self, topic: bytes, partition: int, offset: int) -> bool:
        """Whether a session of it may begin to fetch there."""
        key = (topic, partition)
        return key in self._followed or offset in self._told.get(key, ())

    def may_commit(self, topic: bytes, partition: int, offset: int) -> bool:
        """Whether this may be a position in this cluster: the client was told it, or has begun to fetch there."""
        return (topic, partition) in self._begun or self.may_begin(topic, partition, offset)

    def begin(self, partitions: Iterable[Partition]) -> None:
        """A session of it has begun to fetch these from where the client was told."""
        _note(self._begun, partitions)

    def follow(self, partitions: Iterable[Partition]) -> None:
        """A session that has fetched these has ended: the client goes on from wherever it is."""
        _note(self._followed, partitions)


def _note(known: OrderedDict[Partition, None], partitions: Iterable[Partition]) -> None:
    for one in partitions:
        known[one] = None
        if len(known) > MAX_PARTITIONS:
            known.popitem(last=False)


def client_series(client_id: str) -> str:
    """What the names of a program's clients have in common that it numbers; "" if this one has no number."""
    name, _, number = client_id.rpartition("-")
    return name if number.isascii() and number.isdigit() else ""


class PositionTracker:
    """The clients of one cluster since it was switched: those in `stale` have fetched in the former cluster, of those
    in `right` it is known that they have positions of this one. `everyone`: each client that comes is taken for one
    that has fetched in the former cluster; so it is for a while if kproxy was started anew meanwhile, and cannot know.
    `full`: so it is for good, since they are too many."""

    def __init__(
        self, stale: Iterable[ClientIdentity] = (), right: Iterable[ClientIdentity] = (), *, everyone: bool = False
    ) -> None:
        self._clients: dict[ClientIdentity, ClientPositions] = {}
        self._series: set[str] = set()
        self._right = frozenset(right)
        self._waiting: OrderedDict[ClientIdentity, WaitingConsumer] = OrderedDict()
        self.everyone, self.full = everyone, False
        for identity in stale:
            self.note_stale(identity)

    def note_stale(self, identity: ClientIdentity) -> None:
        """This client has fetched in the former cluster."""
        if identity not in self._clients:
            if len(self._clients) >= MAX_CLIENTS:
                self.full = True
                return
            self._clients[identity] = ClientPositions()
            if name := client_series(identity.client_id):
                self._series.add(name)

    def client(self, identity: ClientIdentity) -> ClientPositions | None:
        """What this client was told; None if neither it nor one of its series has fetched in the former cluster."""
        known = self._clients.get(identity)
        if known is None and self._may_be_stale(identity):
            if len(self._clients) >= 2 * MAX_CLIENTS:
                self._clients.pop(next(iter(self._clients)))
            known = self._clients[identity] = ClientPositions()
        return known

    def has_seen(self, identity: ClientIdentity) -> bool:
        """Whether this very client has fetched in the former cluster, or may have and has been here since."""
        return identity in self._clients

    def _may_be_stale(self, identity: ClientIdentity) -> bool:
        return (
            self.everyone
            or self.full
            or (identity not in self._right and client_series(identity.client_id) in self._series)
        )

    def has_moved(self, identity: ClientIdentity) -> bool:
        """Whether this client may have a position of this cluster, and no more that of the former one."""
        known = self._clients.get(identity)
        return known is None or known.has_moved

    # Who waits

    def note_waiting(self, identity: ClientIdentity, position: Position, now: float) -> bool:
        """This client was not given what it asked for; return whether it is the first time."""
        before = self._waiting.pop(identity, None)
        self._waiting[identity] = WaitingConsumer(identity, *position, now if before is None else before.since)
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
        return before is None

    def waits_untold(self, identity: ClientIdentity) -> bool:
        """Whether this client waits and was told nothing since the switch."""
        if identity not in self._waiting:
            return False
        known = self._clients.get(identity)
        return known is not None and not known.has_moved

    @property
    def waits(self) -> bool:
        """Whether any client waits."""
        return bool(self._waiting)

    def note_served(self, identity: ClientIdentity) -> None:
        """This client waits no more."""
        self._waiting.pop(identity, None)

    @property
    def waiting(self) -> tuple[WaitingConsumer, ...]:
        """The clients that wait."""
        return tuple(self._waiting.values())


class SessionPositions:
    """The partitions that one session has fetched from a position that it was told. Times are seconds of any clock."""

    __slots__ = ("_all", "_client", "_forgotten", "partitions")

    def __init__(self, client: ClientPositions) -> None:
        self._client = client
        self.partitions: dict[Partition, float] = {}  # when it has asked for each by name
        self._all = float("-inf")  # when it has asked for all of its fetch session
        self._forgotten: set[Partition] = set()  # those that are no part of that any more
        client.open.add(self)

    def unknown(self, positions: Iterable[Position]) -> bool:
        """Whether the client was told nothing of one of these partitions."""
        return not all(
            (topic, partition) in self.partitions or self._client.was_told(topic, partition)
            for topic, partition, _ in positions
        )

    def may_commit(self, positions: Iterable[Position]) -> bool:
        """Whether all of these may be positions in this cluster."""
        return all(self._client.may_commit(*one) for one in positions)

    def end(self) -> None:
        """The session has ended."""
        self._client.open.discard(self)
        self._client.follow(self.partitions)

    def stale(self, positions: Iterable[Position], now: float) -> Position | None:
        """The first of these that the client was not told; None: it may fetch them all, and follows them now."""
        begun = []
        asked = self.partitions
        for topic, partition, offset in positions:
            key = topic, partition
            if key in asked:
                asked[key] = now
            elif self._client.may_begin(topic, partition, offset) or self._was_left(key, now):
                begun.append(key)
            else:
                return topic, partition, offset
        if begun:
            asked.update(dict.fromkeys(begun, now))
            self._client.begin(begun)
        if self._forgotten:
            self._forgotten.difference_update([(topic, partition) for topic, partition, _ in positions])
        return None

    def ask_all(self, forgotten: Iterable[Partition], now: float) -> None:
        """It has asked for all partitions of its fetch session (KIP-227), but for these from now on."""
        self._all = now
        self._forgotten.update(key for key in forgotten if key in self.partitions)

    def is_elsewhere(self, position: Position) -> bool:
        """Whether another session of the client follows this partition."""
        return any(position[:2] in other.partitions for other in self._client.open if other is not self)

    def _was_left(self, key: Partition, now: float) -> bool:
        return any(other is not self and other.has_left(key, now) for other in self._client.open)

    def has_left(self, key: Partition, now: float) -> bool:
        """Whether it has followed this partition, and has not asked for it for a while."""
        if key not in self.partitions:
            return False
        asked = self.partitions[key]
        return now - (asked if key in self._forgotten else max(asked, self._all)) >= ABANDONED_AFTER
