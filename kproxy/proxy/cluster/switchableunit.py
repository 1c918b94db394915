"""What a cluster that can be switched needs beside its sessions: its writes, which are held before, and the guards of
its sessions afterwards. Other clusters have none of it, and do not import it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from kproxy.proxy.cluster.sessionguards import SessionGuards
from kproxy.proxy.cluster.writehold import WriteHold, WriteStatus
from kproxy.proxy.relay.calls import Calls, SessionCalls
from kproxy.proxy.relay.session import Session
from kproxy.proxy.switching.caps import CAPS
from kproxy.proxy.switching.doubts import ClientIdentity
from kproxy.proxy.switching.parts import Part
from kproxy.proxy.switching.positions import WaitingConsumer


class SwitchableUnit:
    """Of one cluster without its parts, or of one part."""

    def __init__(self, writing: WriteHold, guards: SessionGuards) -> None:
        self._writing, self._guards = writing, guards

    @classmethod
    def new(cls, name: str, wake: Callable[[], None]) -> SwitchableUnit:
        """Of a cluster whose clients nobody knows yet. `wake` lets the loop see what was scheduled from within the data
        plane."""
        return cls(WriteHold(), SessionGuards(name, wake))

    @property
    def highest(self) -> Mapping[int, int]:
        """The newest versions that clients may use, by API key, of APIs of which kproxy could pass on more."""
        return CAPS

    def calls(self, calls: Calls) -> Calls:
        """The calls towards a node, for one session: it is noted which it uses."""
        return SessionCalls(calls)

    def opened(self, session: Session, node: str, address: str) -> None:
        """A session has begun, with a client at this address. Nothing has passed in it yet."""
        self._guards.opened(session, address)
        self._writing.opened(session, node, address)

    def took_over(self, session: Session, node: str, address: str) -> None:
        """A session has been there since before the cluster could be switched: nobody has noted what its client has
        done."""
        session.note_use()
        self._writing.opened(session, node, address)
        self._guards.took_over(session, address)

    def ended(self, session: Session, address: str) -> None:
        """That session has ended."""
        self._writing.ended(session)
        self._guards.ended(session, address)

    def split(self, part: Part, sessions: Collection[Session]) -> SwitchableUnit:
        """What these clients need, who are switched by themselves from now on; `sessions` are theirs."""
        writing = self._writing.split(lambda identity: part.has(identity.client_id), sessions)
        return SwitchableUnit(writing, self._guards.split(sessions))

    def is_as_when_it_was_split(self, other: SwitchableUnit) -> bool:
        """Whether neither has led its clients elsewhere since."""
        return self._guards.has_rules_of(other._guards)

    def unite(self, other: SwitchableUnit) -> None:
        """Take over what the clients of a part need, which is one no more; see `is_as_when_it_was_split`."""
        self._writing.unite(other._writing)
        self._guards.unite(other._guards)

    def begin_hold(self, on_settled: Callable[[], None]) -> None:
        """Hold all writes, and nothing else, until `release`: see `Writing.begin_hold`."""
        self._writing.begin_hold(on_settled)

    def release(self) -> None:
        """Let writes pass again."""
        self._guards.writes_pass()
        self._writing.release()

    @property
    def writes(self) -> WriteStatus:
        """How it stands with the writes of the cluster's clients."""
        return self._writing.shown

    def flipped(self, *, everyone: bool) -> None:
        """The cluster leads to another upstream, and its sessions have ended: those that come have a guard. `everyone`:
        nobody knows which clients have fetched."""
        self._guards.begin(everyone=everyone)

    @property
    def fetched(self) -> tuple[ClientIdentity, ...] | None:
        """See `Guards.fetched`."""
        return self._guards.fetched

    def know(self, fetched: Iterable[ClientIdentity]) -> None:
        """See `Guards.know`."""
        self._guards.know(fetched)

    def guard_everyone(self) -> None:
        """The cluster has been switched lately, and kproxy was started since: guard the sessions to come, as if each
        client had fetched before."""
        self._guards.begin(everyone=True)
        if not self._writing.holds:
            self._guards.writes_pass()

    def end_guards(self) -> None:
        """See `Guards.end`."""
        self._guards.end()

    @property
    def waiting(self) -> tuple[WaitingConsumer, ...]:
        """The clients that get nothing, since they have not asked for their position since the switch."""
        return self._guards.waiting
