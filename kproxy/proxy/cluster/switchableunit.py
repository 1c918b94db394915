"""The parts of a switchable unit beside its sessions: the hold on its writes, and the guards of its sessions.

Clusters that cannot be switched have none of it, and do not import it.
"""

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
    """The writes and guards of a cluster without its parts, or of one part."""

    def __init__(self, write_hold: WriteHold, guards: SessionGuards) -> None:
        self._write_hold, self._guards = write_hold, guards

    @classmethod
    def new(cls, name: str, wake: Callable[[], None]) -> SwitchableUnit:
        """Return those of a unit whose clients are all unknown yet.

        `wake` makes the event loop see what the data plane has scheduled.
        """
        return cls(WriteHold(), SessionGuards(name, wake))

    @property
    def highest(self) -> Mapping[int, int]:
        """The newest versions that clients may use, by API key, where kproxy could pass on newer ones."""
        return CAPS

    def calls(self, calls: Calls) -> Calls:
        """Return the calls towards a node for one session, which note the APIs that it uses."""
        return SessionCalls(calls)

    def session_opened(self, session: Session, node: str, address: str) -> None:
        """Note a new session of a client at this address. No byte has passed in it yet."""
        self._guards.session_opened(session, address)
        self._write_hold.session_opened(session, node, address)

    def adopt_session(self, session: Session, node: str, address: str) -> None:
        """Note a session that is older than the ability to switch: what its client has done so far is unknown."""
        session.note_used_apis()
        self._write_hold.session_opened(session, node, address)
        self._guards.adopt_session(session, address)

    def session_ended(self, session: Session, address: str) -> None:
        """Note that a session has ended."""
        self._write_hold.session_ended(session)
        self._guards.session_ended(session, address)

    def split(self, part: Part, sessions: Collection[Session]) -> SwitchableUnit:
        """Return what these clients need, which are switched by themselves from now on; `sessions` are theirs."""
        write_hold = self._write_hold.split(lambda identity: part.has(identity.client_id), sessions)
        return SwitchableUnit(write_hold, self._guards.split(sessions))

    def is_unchanged_since_split(self, other: SwitchableUnit) -> bool:
        """Check whether neither of the two units was switched since one was split from the other."""
        return self._guards.shares_rules_with(other._guards)

    def merge(self, other: SwitchableUnit) -> None:
        """Take over the clients of a part that is dissolved; see `is_unchanged_since_split`."""
        self._write_hold.merge(other._write_hold)
        self._guards.merge(other._guards)

    def begin_hold(self, on_settled: Callable[[], None]) -> None:
        """Hold all writes, and nothing else, until `release`: see `WriteHold.begin_hold`."""
        self._write_hold.begin_hold(on_settled)

    def release(self) -> None:
        """Let writes pass again."""
        self._guards.note_writes_pass()
        self._write_hold.release()

    @property
    def writes(self) -> WriteStatus:
        """The state of the writes of the unit's clients."""
        return self._write_hold.status

    def flipped(self, *, everyone: bool) -> None:
        """Guard the sessions that come: the unit is routed to another upstream, and its sessions have ended.

        `everyone`: it is unknown which clients have fetched.
        """
        self._guards.begin(everyone=everyone)

    @property
    def fetched(self) -> tuple[ClientIdentity, ...] | None:
        """The clients that have fetched; see `SessionGuards.fetched`."""
        return self._guards.fetched

    def restore_fetched(self, fetched: Iterable[ClientIdentity]) -> None:
        """Remember clients that have fetched; see `SessionGuards.restore_fetched`."""
        self._guards.restore_fetched(fetched)

    def guard_everyone(self) -> None:
        """Guard the sessions that come as if each client had fetched.

        The unit was switched recently, and kproxy was restarted since.
        """
        self._guards.begin(everyone=True)
        if not self._write_hold.holds:
            self._guards.note_writes_pass()

    def end_guards(self) -> None:
        """End all guards; see `SessionGuards.end`."""
        self._guards.end()

    @property
    def waiting(self) -> tuple[WaitingConsumer, ...]:
        """The clients that receive no records until they ask for their position again."""
        return self._guards.waiting
