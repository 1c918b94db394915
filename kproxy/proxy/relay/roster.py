"""The roster of one cluster's open sessions, which kproxy holds and drains together.

Several callers may ask for both at once. A hold ends when each caller has released it; a drain covers the sessions that
are open when it begins. Nothing here touches the sessions of another cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kproxy.proxy.relay.pump import Pump

if TYPE_CHECKING:
    from kproxy.proxy.relay.session import Session


class _SessionWait:
    """A wait for an event of each of these sessions. The future `done` is done when it has happened."""

    def __init__(self, remaining: Iterable[Session]) -> None:
        self._remaining = set(remaining)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._check()

    def remove(self, session: Session) -> None:
        self._remaining.discard(session)
        self._check()

    def _check(self) -> None:
        if not self._remaining and not self.done.done():
            self.done.set_result(None)


class SessionRoster:
    """The open sessions of one cluster in this process. Each adds itself, and reports when it settles and ends."""

    def __init__(self, pump: Pump) -> None:
        self.pump = pump
        self.sessions: set[Session] = set()
        self._holding = 0  # the number of holds on all of them
        self._settling: set[_SessionWait] = set()
        self._ending: set[_SessionWait] = set()

    def add(self, session: Session) -> None:
        """Add a session, and hold it if all are held."""
        self.sessions.add(session)
        if self._holding:
            session.hold()

    def session_settled(self, session: Session) -> None:
        """Note that the session is held, and nothing is in flight in it."""
        self._notify(session, self._settling)

    def session_ended(self, session: Session) -> None:
        """Note that the session has ended."""
        self.sessions.discard(session)
        self._notify(session, self._settling)
        self._notify(session, self._ending)

    def hold(self) -> asyncio.Future[None]:
        """Hold the requests of all clients, present and future, until as many calls of `release`.

        The future is done once nothing is in flight in any session that is open now.
        """
        self._holding += 1
        if self._holding == 1:
            for session in list(self.sessions):
                session.hold()
        return self._wait(self._settling, (session for session in self.sessions if not session.settled))

    def release(self) -> None:
        """Undo one `hold`."""
        assert self._holding, "no hold to release"
        self._holding -= 1
        if not self._holding:
            for session in list(self.sessions):
                session.release()

    def drain(self) -> asyncio.Future[None]:
        """Close each open session as soon as nothing is in flight in it. The future is done when none is left."""
        draining = list(self.sessions)
        for session in draining:
            session.drain()
        return self._wait(self._ending, self.sessions.intersection(draining))

    def close(self) -> int:
        """Close all sessions now; return their number."""
        remaining = list(self.sessions)
        for session in remaining:
            session.close()
        return len(remaining)

    def _wait(self, waits: set[_SessionWait], remaining: Iterable[Session]) -> asyncio.Future[None]:
        wait = _SessionWait(remaining)
        waits.add(wait)
        wait.done.add_done_callback(lambda _: waits.discard(wait))  # when it is done, or cancelled
        return wait.done

    def _notify(self, session: Session, waits: set[_SessionWait]) -> None:
        if waits:
            self.pump.selector.wake = True  # a waiting task may continue
            for wait in waits:
                wait.remove(session)
