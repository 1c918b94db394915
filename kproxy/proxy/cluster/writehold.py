"""The writes of one cluster's clients: holding them before the cluster is switched, and who is in doubt about one.

While writes are held, all else passes. A session is held as a whole from its first write on, since order is Kafka's
rule. A client in doubt (`switching.doubts`) is the exception: it must be able to repeat its write here, where it may
have been done already. So its writes pass until it is in doubt no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from kproxy.proxy.relay.session import Session
from kproxy.proxy.switching.doubts import ClientIdentity, Doubt, DoubtTracker, give_up_seconds
from kproxy.proxy.switching.writes import HARMFUL_IF_REPEATED, WRITES

# How often kproxy looks whether the last answer has come, in seconds: nothing that passes has to tell it.
_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """How it stands with the writes of one cluster. `unanswered` are under way; `held` is how many sessions wait with
    one."""

    unanswered: int = 0
    held: int = 0
    doubts: tuple[Doubt, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether no write is under way, and none will be repeated."""
        return not self.unanswered and not self.doubts


@dataclass(frozen=True, slots=True)
class _WritingSession:
    node: str
    address: str
    opened: float  # in the loop's seconds


class WriteHold:
    """The sessions of one cluster as far as they write. They are added and removed by `sessions`."""

    def __init__(self) -> None:
        self._writers: dict[Session, _WritingSession] = {}
        self._doubts = DoubtTracker()
        self._held: set[Session] = set()  # that wait with a write
        self._exempt: set[Session] = set()  # of clients in doubt: their writes pass during a hold
        self._unsettled: set[Session] = set()
        self._on_settled: Callable[[], None] | None = None
        self._holds = False
        self._timer: asyncio.TimerHandle | None = None

    # Sessions come and go

    def opened(self, session: Session, node: str, address: str) -> None:
        """A session has begun, with a client at this address. Nothing has passed in it yet."""
        self._writers[session] = _WritingSession(node, address, _now())
        if self._holds:
            self._gate(session)

    def ended(self, session: Session) -> None:
        """A session has ended: its client may be in doubt."""
        writer = self._writers.get(session)
        if writer is None:
            return
        self._review(session)
        del self._writers[session]
        for group in (self._held, self._exempt, self._unsettled):
            group.discard(session)
        if session.doubled:
            introduction = session.conversation.introduction
            identity = ClientIdentity(writer.address, introduction.client_id)
            self._doubts.note(identity, writer.node, _now(), give_up_seconds(introduction.software))
            for held in [held for held in self._held if self._identity(held) == identity]:
                self._let_pass(held)

    def split(self, belongs: Callable[[ClientIdentity], bool], sessions: Collection[Session]) -> WriteHold:
        """The writes of the clients that belong to a part, which are led by themselves from now on; `sessions` are
        theirs. Not while writes are held."""
        assert not self._holds, "writes are held"
        other = WriteHold()
        other._doubts = self._doubts.split(belongs)
        other._writers = {session: self._writers.pop(session) for session in sessions if session in self._writers}
        return other

    def unite(self, other: WriteHold) -> None:
        """Take over those of a part that is one no more. Not while writes are held, here or there."""
        assert not self._holds, "writes are held"
        assert not other._holds, "writes are held there"
        self._doubts.unite(other._doubts)
        self._writers |= other._writers
        other._writers = {}

    # The hold

    def begin_hold(self, on_settled: Callable[[], None]) -> None:
        """Hold the writes of all clients, of those too that are still to come, until `release`. `on_settled` is called
        once, when no write is under way and no client is in doubt: then none will be before `release`."""
        assert not self._holds, "the writes are held already"
        self._holds, self._on_settled = True, on_settled
        for session in list(self._writers):
            self._gate(session)
            self._unsettled.add(session)
        self._look_again(0.0)

    def release(self) -> None:
        """Let writes pass again."""
        assert self._holds, "the writes are not held"
        self._holds, self._on_settled = False, None
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
    def holds(self) -> bool:
        """Whether writes are held now."""
        return self._holds

    @property
    def shown(self) -> WriteStatus:
        """How it stands now. Without a hold `unanswered` changes with each request."""
        doubts = self._doubts_left()
        waited_for = self._unsettled | self._exempt if self._holds else self._writers
        unanswered = sum(session.unanswered(WRITES) for session in waited_for)
        return WriteStatus(unanswered, len(self._held), doubts)

    def _gate(self, session: Session) -> None:
        session.hold_writes(partial(self._met, session))

    def _met(self, session: Session) -> None:
        """A client has sent a write, which waits now."""
        if self._doubts.of(self._identity(session)):
            self._let_pass(session)
        else:
            self._held.add(session)

    def _let_pass(self, session: Session) -> None:
        self._held.discard(session)
        self._exempt.add(session)
        session.release_writes()

    def _look(self) -> None:
        """Look who has settled; look again soon, unless all have."""
        doubts = self._doubts_left()
        for session in list(self._unsettled):
            if not session.unanswered(WRITES):
                self._unsettled.discard(session)
                if session.conversation.used is not None:
                    session.conversation.used.forget(WRITES)  # what it is sent from now on is no answer to a write
        if self._unsettled or self._exempt or doubts:
            self._look_again(_PAUSE)
        elif self._on_settled is not None:
            on_settled, self._on_settled = self._on_settled, None
            on_settled()

    def _look_again(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _doubts_left(self) -> tuple[Doubt, ...]:
        """Those that are still in doubt. The writes of those that are no more are held like any other's."""
        if self._doubts:
            for session in list(self._writers):
                self._review(session)
        left = self._doubts.left(_now())
        for session in [one for one in self._exempt if not self._doubts.of(self._identity(one))]:
            self._exempt.discard(session)
            self._unsettled.add(session)
            self._gate(session)
        return left

    def _review(self, session: Session) -> None:
        """Clear a doubt that this session clears."""
        identity = self._identity(session)
        if self._doubts.of(identity):
            used, writer = session.conversation.used, self._writers[session]
            if used is not None and used.used(HARMFUL_IF_REPEATED):
                self._doubts.reconnected(identity, writer.node, writer.opened, _now())

    def _identity(self, session: Session) -> ClientIdentity:
        return ClientIdentity(self._writers[session].address, session.conversation.introduction.client_id)


def _now() -> float:
    return asyncio.get_running_loop().time()
