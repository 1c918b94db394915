"""The guards of one unit's sessions after a switch: see `relay.guard`.

Before its first switch, kproxy notes only which clients have fetched, when their sessions end. From the switch on, each
new session has a guard.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from functools import partial
from time import perf_counter

from kproxy.base.messages.switches import CONSUMER_AT_OLD_POSITION
from kproxy.base.printable import escaped
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.cluster.clientconnection import close_when_acked
from kproxy.proxy.relay.guard import Guard, GuardRules
from kproxy.proxy.relay.session import Session
from kproxy.proxy.switching.doubts import GIVEN_UP_LATE, ClientIdentity
from kproxy.proxy.switching.positions import MAX_CLIENTS, MAX_SAVED_CLIENTS, Position, PositionTracker, WaitingConsumer

log = logging.getLogger(__name__)

FIRST_WRITES = 30.0
"""Seconds after writes pass again in which the Produce requests of a session pass one at a time."""
# The APIs of a client that has a position, or has received one.
_READS = (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)
_REMEMBERED = 24 * 3600.0
"""Seconds after its last session for which kproxy remembers that a client has fetched."""


class SessionGuards:
    """The guards of one unit. `wake` makes the event loop see what the data plane has scheduled."""

    def __init__(self, name: str, wake: Callable[[], None]) -> None:
        self._name = name
        self._wake = wake
        self._fetched: OrderedDict[ClientIdentity, float] = OrderedDict()
        self._too_many_until = float("-inf")  # until then, more clients have fetched than are remembered
        self._unknown_until = float("-inf")  # until then, a new client may have fetched before kproxy was started
        self._guards: dict[Session, Guard] = {}
        self._rules: GuardRules | None = None
        self._cluster_rules: GuardRules | None = None  # those of the cluster when this part was split from it
        self._written = False  # writes have passed since the flip
        self._logged: set[ClientIdentity] = set()

    def session_opened(self, session: Session, address: str) -> None:
        """Guard a new session of a client at this address. No byte has passed in it yet."""
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
            self._warn_waiting,
        )
        session.conversation.guard(guard)

    def adopt_session(self, session: Session, address: str) -> None:
        """Take in a session that is older than these guards: its client may have fetched."""
        if session.conversation.requested:
            self._note_fetched(ClientIdentity(address, session.conversation.introduction.client_id))

    def session_ended(self, session: Session, address: str) -> None:
        """Remember whether the client of a session, at this address, has fetched."""
        guard = self._guards.pop(session, None)
        if guard is not None and guard.followed is not None:
            guard.followed.end()
        if session.conversation.has_used(_READS):
            self._note_fetched(ClientIdentity(address, session.conversation.introduction.client_id))

    @property
    def fetched(self) -> tuple[ClientIdentity, ...] | None:
        """The clients that have fetched, for the process after this one; None if there are too many.

        Their sessions have ended.
        """
        is_complete = len(self._fetched) <= MAX_SAVED_CLIENTS and self._too_many_until <= perf_counter()
        return tuple(self._fetched) if is_complete else None

    def restore_fetched(self, fetched: Iterable[ClientIdentity]) -> None:
        """Remember clients that have fetched through the process before this one."""
        for identity in fetched:
            self._note_fetched(identity)

    def split(self, sessions: Collection[Session]) -> SessionGuards:
        """Return the guards of a part, whose `sessions` these are.

        They remember the same clients: a client of a series may continue where another one of it was, and what is
        remembered of other clients does no harm.
        """
        part_guards = SessionGuards(self._name, self._wake)
        part_guards._fetched, part_guards._too_many_until = self._fetched.copy(), self._too_many_until
        part_guards._unknown_until = self._unknown_until
        part_guards._rules, part_guards._written, part_guards._logged = self._rules, self._written, set(self._logged)
        part_guards._cluster_rules = self._rules
        part_guards._guards = {session: self._guards.pop(session) for session in sessions if session in self._guards}
        return part_guards

    def shares_rules_with(self, other: SessionGuards) -> bool:
        """Check whether neither of the two was switched since one was split from the other."""
        return self._rules is other._rules

    def can_take_from(self, cluster: SessionGuards) -> bool:
        """Check whether the cluster was not switched since this part was split from it."""
        return self._cluster_rules is cluster._rules

    def take(self, other: SessionGuards, has: Callable[[str], bool]) -> None:
        """Take over the guards of more clients of the cluster, which `has` selects; see `can_take_from`.

        They were not switched with the part.
        """
        if self._rules is not None and not self.shares_rules_with(other):
            self._rules.positions.adopt(has, None if other._rules is None else other._rules.positions)
        self._merge(other)

    def merge(self, other: SessionGuards) -> None:
        """Take over the guards of a part that is dissolved; see `shares_rules_with`."""
        assert self.shares_rules_with(other), "neither was switched"
        self._merge(other)

    def _merge(self, other: SessionGuards) -> None:
        for identity, at in sorted(other._fetched.items(), key=lambda item: item[1]):
            if self._fetched.get(identity, float("-inf")) < at:
                self._note_fetched(identity, at)
        self._too_many_until = max(self._too_many_until, other._too_many_until)
        self._unknown_until = max(self._unknown_until, other._unknown_until)
        self._guards |= other._guards
        self._logged |= other._logged
        other._guards = {}

    def begin(self, *, everyone: bool = False) -> None:
        """Guard the sessions that come from now on: the unit is being switched, and its sessions have ended.

        `everyone`: it is unknown which clients have fetched, since kproxy was restarted. Clients that still run come
        within `GIVEN_UP_LATE` seconds; later ones are new, such as a query of Spark that was started again. If no write
        has passed since the last switch, the unit is switched back: the position of a client is right there, unless the
        client has received one meanwhile.
        """
        now = perf_counter()
        for identity in [identity for identity, at in self._fetched.items() if at < now - _REMEMBERED]:
            del self._fetched[identity]
        if everyone:
            self._unknown_until = now + GIVEN_UP_LATE
        everyone = max(self._unknown_until, self._too_many_until) > now
        full = False
        right: set[ClientIdentity] = set()
        if self._rules is not None and not self._written:
            former = self._rules.positions
            right, full = {identity for identity in self._fetched if not former.has_new_offsets(identity)}, former.full
        stale = [identity for identity in self._fetched if identity not in right]
        self._rules, self._written = GuardRules(PositionTracker(stale, right, everyone=everyone)), False
        self._rules.positions.full |= full
        self._logged.clear()

    def end(self) -> None:
        """Guard no session any more, and forget which clients have fetched: their positions are of this cluster."""
        self._rules = self._cluster_rules = None
        self._fetched.clear()
        self._unknown_until = self._too_many_until = float("-inf")
        for session, guard in self._guards.items():
            guard.keys = frozenset()
            _release(guard, session)
        self._guards.clear()
        self._wake()

    def note_writes_pass(self) -> None:
        """Note that writes pass again."""
        self._written = True
        if self._rules is not None:
            self._rules.first_writes_until = perf_counter() + FIRST_WRITES

    @property
    def waiting(self) -> tuple[WaitingConsumer, ...]:
        """The clients that receive no records until they ask for their position again."""
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
        """Let no further request pass, and close when the client has the answers to those that have passed.

        Else it would be in doubt about a write that was only refused, perhaps at a node to which it never writes again.
        """
        session.conversation.hold()
        self._wake()
        asyncio.get_running_loop().call_soon(close_when_acked, session)

    def _warn_waiting(self, identity: ClientIdentity, position: Position) -> None:
        if identity in self._logged:
            return
        if len(self._logged) < 100:  # /switch lists each as well
            self._logged.add(identity)
            topic, partition, _ = position
            log.warning(
                CONSUMER_AT_OLD_POSITION(
                    name=self._name,
                    client_id=identity.client_id,
                    address=identity.address,
                    topic=escaped(topic.decode("utf-8", "replace")),
                    partition=partition,
                )
            )


def _release(guard: Guard, session: Session) -> None:
    """Judge the waiting requests again. The session may belong to a part by now."""
    if guard.holds:
        guard.resume()
        session.release()
