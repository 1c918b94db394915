"""The sessions of one cluster that are there now, as they are held and drained together.

Both may be asked for by several at once. A hold ends when each who has asked for it has released; a drain is for the
sessions that are there when it is asked for. What is done here touches no other cluster's sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kproxy.proxy.relay.pump import Pump

if TYPE_CHECKING:
    from kproxy.proxy.relay.session import Session


class _SessionWait:
    """Somebody waits for something to happen to each of these sessions. `done` is done when it has."""

    def __init__(self, left: Iterable[Session]) -> None:
        self._left = set(left)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._check()

    def remove(self, session: Session) -> None:
        self._left.discard(session)
        self._check()

    def _check(self) -> None:
        if not self._left and not self.done.done():
            self.done.set_result(None)


class SessionRoster:
    """The open sessions of one cluster in this process. They add themselves, and say when they settle and end."""

    def __init__(self, pump: Pump) -> None:
        self.pump = pump
        self.sessions: set[Session] = set()
        self._holding = 0  # who hold all of them
        self._settling: set[_SessionWait] = set()
        self._ending: set[_SessionWait] = set()

    def add(self, session: Session) -> None:
        self.sessions.add(session)
        if self._holding:
            session.hold()

    def session_settled(self, session: Session) -> None:
        """The session is held, and nothing is in flight in it."""
        self._notify(session, self._settling)

    def session_ended(self, session: Session) -> None:
        self.sessions.discard(session)
        self._notify(session, self._settling)
        self._notify(session, self._ending)

    def hold(self) -> asyncio.Future[None]:
        """Hold the requests of all clients, of those too that are still to come, until `release` is called as often as
        this. What is returned is done once nothing is in flight in any session that is there now."""
        self._holding += 1
        if self._holding == 1:
            for session in list(self.sessions):
                session.hold()
        return self._wait(self._settling, (session for session in self.sessions if not session.settled))

    def release(self) -> None:
        """Undo one `hold`."""
        assert self._holding, "nobody holds"
        self._holding -= 1
        if not self._holding:
            for session in list(self.sessions):
                session.release()

    def drain(self) -> asyncio.Future[None]:
        """Close each session that is there now as soon as nothing is in flight in it. What is returned is done when
        none of them is left."""
        draining = list(self.sessions)
        for session in draining:
            session.drain()
        return self._wait(self._ending, self.sessions.intersection(draining))

    def close(self) -> int:
        """Close all sessions now; return how many those were."""
        left = list(self.sessions)
        for session in left:
            session.close()
        return len(left)

    def _wait(self, waits: set[_SessionWait], left: Iterable[Session]) -> asyncio.Future[None]:
        wait = _SessionWait(left)
        waits.add(wait)
        wait.done.add_done_callback(lambda _: waits.discard(wait))  # when it is over, or its waiter has been cancelled
        return wait.done

    def _notify(self, session: Session, waits: set[_SessionWait]) -> None:
        if waits:
            self.pump.selector.wake = True  # somebody may go on
            for wait in waits:
                wait.remove(session)
