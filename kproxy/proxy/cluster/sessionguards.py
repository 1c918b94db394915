"""Who guards the sessions of one cluster after it was switched: see `relay.guard`.

Until it is switched for the first time, kproxy notes only which clients have fetched, when their sessions end. From
then on each new session has a guard.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from functools import partial
from time import perf_counter

from kproxy.base.printable import escaped
from kproxy.protocol.wire.api import FETCH, LIST_OFFSETS
from kproxy.proxy.cluster.gracefulclose import close_when_acked
from kproxy.proxy.relay.guard import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, OFFSET_FETCH, Guard, GuardRules
from kproxy.proxy.relay.session import Session
from kproxy.proxy.switching.doubts import GIVEN_UP_LATE, ClientIdentity
from kproxy.proxy.switching.positions import MAX_CLIENTS, MAX_SAVED_CLIENTS, Position, PositionTracker, WaitingConsumer

log = logging.getLogger(__name__)

FIRST_WRITES = 30.0
"""Seconds after writes pass again in which the Produce requests of a session pass one at a time."""
# What a client uses that has a position, or was told one.
_READS = (FETCH, LIST_OFFSETS, OFFSET_FETCH, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT)
_REMEMBERED = 24 * 3600.0
"""Seconds after its last session for which a client is known to have fetched."""


class SessionGuards:
    """Those of one cluster. `wake` lets the loop see what was scheduled from within the data plane."""

    def __init__(self, name: str, wake: Callable[[], None]) -> None:
        self._name = name
        self._wake = wake
        self._fetched: OrderedDict[ClientIdentity, float] = OrderedDict()
        self._too_many_until = float("-inf")  # while more have fetched than are remembered
        self._unknown_until = float("-inf")  # while a client that comes may have fetched before kproxy was started
        self._guards: dict[Session, Guard] = {}
        self._rules: GuardRules | None = None
        self._written = False  # writes have passed since the cluster was led elsewhere
        self._said: set[ClientIdentity] = set()

    def opened(self, session: Session, address: str) -> None:
        """A session has begun, with a client at this address. Nothing has passed in it yet."""
        if self._rules is None:
            return
        if self._rules.positions.everyone and perf_counter() >= max(self._unknown_until, self._too_many_until):
            self._rules.positions.everyone = False
        guard = self._guards[session] = Guard(
            self._rules,
            lambda: ClientIdentity(address, session.conversation.introduction.client_id),
            lambda: session.conversation.introduction.software,
            lambda seconds: self._judge_again(guard, session, seconds),
            partial(self._end, session),
            self._begins_to_wait,
        )
        session.conversation.guard(guard)

    def took_over(self, session: Session, address: str) -> None:
        """A session has been there since before there was this: its client may have fetched."""
        if session.conversation.requested:
            self._note_fetched(ClientIdentity(address, session.conversation.introduction.client_id))

    def ended(self, session: Session, address: str) -> None:
        """A session has ended, with a client at this address."""
        guard = self._guards.pop(session, None)
        if guard is not None and guard.followed is not None:
            guard.followed.end()
        if session.conversation.used is not None and session.conversation.used.used(_READS):
            self._note_fetched(ClientIdentity(address, session.conversation.introduction.client_id))

    @property
    def fetched(self) -> tuple[ClientIdentity, ...] | None:
        """The clients that have fetched, for the process after this one; None if they are too many to say. Their
        sessions have ended."""
        known = len(self._fetched) <= MAX_SAVED_CLIENTS and self._too_many_until <= perf_counter()
        return tuple(self._fetched) if known else None

    def know(self, fetched: Iterable[ClientIdentity]) -> None:
        """These have fetched through the process before this one."""
        for identity in fetched:
            self._note_fetched(identity)

    def split(self, sessions: Collection[Session]) -> SessionGuards:
        """Those of a part, whose `sessions` are these. It knows of all clients what was known: a client of a series may
        go on where another one of it was, and what is known of others does no harm."""
        other = SessionGuards(self._name, self._wake)
        other._fetched, other._too_many_until = self._fetched.copy(), self._too_many_until
        other._unknown_until = self._unknown_until
        other._rules, other._written, other._said = self._rules, self._written, set(self._said)
        other._guards = {session: self._guards.pop(session) for session in sessions if session in self._guards}
        return other

    def has_rules_of(self, other: SessionGuards) -> bool:
        """Whether neither of the two has begun anew since it was split from the other."""
        return self._rules is other._rules

    def unite(self, other: SessionGuards) -> None:
        """Take over those of a part that is one no more; see `has_rules_of`."""
        assert self.has_rules_of(other), "nobody has been led elsewhere"
        for identity, at in sorted(other._fetched.items(), key=lambda one: one[1]):
            if self._fetched.get(identity, float("-inf")) < at:
                self._note_fetched(identity, at)
        self._too_many_until = max(self._too_many_until, other._too_many_until)
        self._unknown_until = max(self._unknown_until, other._unknown_until)
        self._guards |= other._guards
        self._said |= other._said
        other._guards = {}

    def begin(self, *, everyone: bool = False) -> None:
        """The cluster is being switched, and all its sessions have ended: guard those that come.

        `everyone`: nobody knows which clients have fetched, since kproxy was started anew. Those that still run come
        within `GIVEN_UP_LATE` seconds; who comes later is new, such as a query of Spark that was started again. If no
        write has passed since the last time, the cluster is led back: the position of a client is right there, unless
        it has got one meanwhile."""
        now = perf_counter()
        for identity in [one for one, at in self._fetched.items() if at < now - _REMEMBERED]:
            del self._fetched[identity]
        if everyone:
            self._unknown_until = now + GIVEN_UP_LATE
        everyone = max(self._unknown_until, self._too_many_until) > now
        full = False
        right: set[ClientIdentity] = set()
        if self._rules is not None and not self._written:
            left = self._rules.positions
            right, full = {one for one in self._fetched if not left.has_moved(one)}, left.full
        stale = [one for one in self._fetched if one not in right]
        self._rules, self._written = GuardRules(PositionTracker(stale, right, everyone=everyone)), False
        self._rules.positions.full |= full
        self._said.clear()

    def end(self) -> None:
        """Guard none any more, and know nothing of those that have fetched: they have positions of this cluster."""
        self._rules = None
        self._fetched.clear()
        self._unknown_until = self._too_many_until = float("-inf")
        for session, guard in self._guards.items():
            guard.keys = frozenset()
            _release(guard, session)
        self._guards.clear()
        self._wake()

    def writes_pass(self) -> None:
        """Writes pass again."""
        self._written = True
        if self._rules is not None:
            self._rules.first_writes_until = perf_counter() + FIRST_WRITES

    @property
    def waiting(self) -> tuple[WaitingConsumer, ...]:
        """The clients that get nothing, since they have not asked for their position since the switch."""
        return () if self._rules is None else self._rules.positions.waiting

    def _note_fetched(self, identity: ClientIdentity, at: float | None = None) -> None:
        self._fetched[identity] = perf_counter() if at is None else at
        self._fetched.move_to_end(identity)
        if len(self._fetched) > MAX_CLIENTS:
            _, oldest = self._fetched.popitem(last=False)
            self._too_many_until = max(self._too_many_until, oldest + _REMEMBERED)

    def _judge_again(self, guard: Guard, session: Session, seconds: float) -> None:
        self._wake()
        asyncio.get_running_loop().call_later(seconds, _release, guard, session)

    def _end(self, session: Session) -> None:
        """Let no further request through, and close when the client has the answers to those that have passed: else it
        would be in doubt about a write that was only refused, perhaps at a node to which it never writes again."""
        session.conversation.hold()
        self._wake()
        asyncio.get_running_loop().call_soon(close_when_acked, session)

    def _begins_to_wait(self, identity: ClientIdentity, position: Position) -> None:
        if identity in self._said:
            return
        if len(self._said) < 100:  # each is in /switch as well
            self._said.add(identity)
            topic, partition, _ = position
            log.warning(
                "cluster %s: the consumer '%s' at %s has its position in %s-%d from before the switch: it gets nothing"
                " until it has asked for its position, or is started again with the right one and another client.id",
                self._name, identity.client_id, identity.address, escaped(topic.decode("utf-8", "replace")),
                partition,
            )  # fmt: skip


def _release(guard: Guard, session: Session) -> None:
    """Judge the requests that wait. The session may have become one of a part meanwhile."""
    if guard.holds:
        guard.released()
        session.release()
