"""The hold on the writes of one unit's clients before a switch, and the clients in doubt about a write.

While writes are held, all other requests pass. A session is held as a whole from its first write on, since order is
Kafka's rule. A client in doubt (`switching.doubts`) is the exception: it must be able to repeat its write here, where
the write may have been done already. So its writes pass until it is no longer in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from kproxy.proxy.relay.session import Session
from kproxy.proxy.switching.doubts import ClientIdentity, Doubt, DoubtTracker, give_up_seconds
from kproxy.proxy.switching.writes import HARMFUL_IF_REPEATED, WRITES

# How often kproxy checks whether the last answer has come, in seconds: so frames that pass need not report it.
_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """The state of the writes of one unit."""

    unanswered: int = 0
    """Writes without an answer."""
    held: int = 0
    """Sessions that wait with a write."""
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class _WritingSession:
    node: str
    address: str
    session_opened: float  # in the loop's seconds


class WriteHold:
    """The sessions of one unit and their writes. `sessions` adds and removes the sessions."""

    def __init__(self) -> None:
        self._writers: dict[Session, _WritingSession] = {}
        self._doubts = DoubtTracker()
        self._held: set[Session] = set()  # sessions that wait with a write
        self._exempt: set[Session] = set()  # sessions of clients in doubt: their writes pass during a hold
        self._unsettled: set[Session] = set()
        self._on_settled: Callable[[], None] | None = None
        self.holds = False
        self._timer: asyncio.TimerHandle | None = None

    # Sessions come and go

    def session_opened(self, session: Session, node: str, address: str) -> None:
        """Note a new session of a client at this address. No byte has passed in it yet."""
        self._writers[session] = _WritingSession(node, address, _now())
        if self.holds:
            self._hold_writes(session)

    def session_ended(self, session: Session) -> None:
        """Note that a session has ended: its client may be in doubt."""
        writer = self._writers.get(session)
        if writer is None:
            return
        self._review(session)
        del self._writers[session]
        for group in (self._held, self._exempt, self._unsettled):
            group.discard(session)
        if session.unacked_writes:
            introduction = session.conversation.introduction
            identity = ClientIdentity(writer.address, introduction.client_id)
            self._doubts.note(identity, writer.node, _now(), give_up_seconds(introduction.software))
            for held in [held for held in self._held if self._identity(held) == identity]:
                self._let_pass(held)

    def split(self, belongs: Callable[[ClientIdentity], bool], sessions: Collection[Session]) -> WriteHold:
        """Return the writes of a part's clients, which are routed by themselves from now on; `sessions` are theirs.

        Writes must not be held.
        """
        assert not self.holds, "writes are held"
        part_hold = WriteHold()
        part_hold._doubts = self._doubts.split_off(belongs)
        part_hold._writers = {session: self._writers.pop(session) for session in sessions if session in self._writers}
        return part_hold

    def merge(self, other: WriteHold) -> None:
        """Take over the writes of a part that is dissolved. Writes must not be held, in neither of the two."""
        assert not self.holds, "writes are held"
        assert not other.holds, "writes are held there"
        self._doubts.merge(other._doubts)
        self._writers |= other._writers
        other._writers = {}

    # The hold

    def begin_hold(self, on_settled: Callable[[], None]) -> None:
        """Hold the writes of all clients, present and future, until `release`.

        `on_settled` is called once, when no write is unanswered and no client is in doubt: that stays so until
        `release`.
        """
        assert not self.holds, "the writes are held already"
        self.holds, self._on_settled = True, on_settled
        for session in list(self._writers):
            self._hold_writes(session)
            self._unsettled.add(session)
        self._check_later(0.0)

    def release(self) -> None:
        """Let writes pass again."""
        assert self.holds, "the writes are not held"
        self.holds, self._on_settled = False, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gated = [session for session in self._writers if session not in self._exempt]
        self._held.clear()
        self._exempt.clear()
        self._unsettled.clear()
        for session in gated:
            session.release_writes()

    @property
    def status(self) -> WriteStatus:
        """The present state. Without a hold, `unanswered` changes with each request."""
        doubts = self._open_doubts()
        waited_for = self._unsettled | self._exempt if self.holds else self._writers
        unanswered = sum(session.unanswered(WRITES) for session in waited_for)
        return WriteStatus(unanswered, len(self._held), doubts)

    def _hold_writes(self, session: Session) -> None:
        session.hold_writes(partial(self._on_held_write, session))

    def _on_held_write(self, session: Session) -> None:
        """Note that a client has sent a write, which waits now."""
        if self._doubts.is_in_doubt(self._identity(session)):
            self._let_pass(session)
        else:
            self._held.add(session)

    def _let_pass(self, session: Session) -> None:
        self._held.discard(session)
        self._exempt.add(session)
        session.release_writes()

    def _check_settled(self) -> None:
        """Check which sessions have no unanswered write; check again soon, unless none is left."""
        doubts = self._open_doubts()
        for session in list(self._unsettled):
            if not session.unanswered(WRITES):
                self._unsettled.discard(session)
                session.conversation.forget_used(WRITES)  # later responses are no answers to writes
        if self._unsettled or self._exempt or doubts:
            self._check_later(_PAUSE)
        elif self._on_settled is not None:
            on_settled, self._on_settled = self._on_settled, None
            on_settled()

    def _check_later(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check_settled)

    def _open_doubts(self) -> tuple[Doubt, ...]:
        """Return the open doubts, and hold the writes of clients that are no longer in doubt."""
        if self._doubts:
            for session in list(self._writers):
                self._review(session)
        doubts = self._doubts.remaining(_now())
        for session in [session for session in self._exempt if not self._doubts.is_in_doubt(self._identity(session))]:
            self._exempt.discard(session)
            self._unsettled.add(session)
            self._hold_writes(session)
        return doubts

    def _review(self, session: Session) -> None:
        """Clear a doubt that this session clears."""
        identity = self._identity(session)
        if self._doubts.is_in_doubt(identity) and session.conversation.has_used(HARMFUL_IF_REPEATED):
            writer = self._writers[session]
            self._doubts.clear_if_repeated(identity, writer.node, writer.session_opened, _now())

    def _identity(self, session: Session) -> ClientIdentity:
        return ClientIdentity(self._writers[session].address, session.conversation.introduction.client_id)


def _now() -> float:
    return asyncio.get_running_loop().time()
