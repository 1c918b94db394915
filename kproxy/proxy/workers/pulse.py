"""Whether a process answers, and how soon one that ends again and again has a successor.

Silence is counted in turns of this process's own event loop, not in time. That a machine slept, that all processes of a
terminal were stopped (Ctrl-Z), or that a loaded host did not run this process either, is not the other one's fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

# One turn, in seconds.
TURN = 1.0
# The pause between two starts, in seconds, doubled each time; and how long a process has lived to be thought well.
_FIRST, _LONGEST = 1.0, 30.0
_LIVED = 60.0


async def turns() -> AsyncIterator[bool]:
    """One turn after the other, for ever: whether it came in time. One that did not counts for nobody."""
    now = asyncio.get_running_loop().time
    while True:
        due = now() + TURN
        await asyncio.sleep(TURN)
        yield now() < due + TURN


class Pulse:
    """Pings a process, one ping at a time; whatever it says is an answer. `silent`: for how many turns it has not."""

    def __init__(self, ping: Callable[[], None]) -> None:
        self._ping = ping
        self._waits = False
        self.silent = 0

    def turn(self, in_time: bool) -> bool:
        """One more turn; returns whether `silent` has grown."""
        if self._waits:
            self.silent += in_time
            return in_time
        self._waits = True
        self._ping()
        return False

    def heard(self) -> int:
        """It said something; returns for how many turns it was silent."""
        before, self.silent, self._waits = self.silent, 0, False
        return before


class Pauses:
    """The pauses between the starts of a process that ends: none after a long life, growing ones after short lives."""

    def __init__(self) -> None:
        self._pause = 0.0
        self._began = 0.0

    def begin(self) -> None:
        """It is started."""
        self._began = asyncio.get_running_loop().time()

    async def wait(self) -> None:
        """Until the next one may be started: it has ended."""
        lived = asyncio.get_running_loop().time() - self._began
        self._pause = _FIRST if lived >= _LIVED else min(self._pause * 2 or _FIRST, _LONGEST)
        await asyncio.sleep(max(0.0, self._pause - lived))
