"""Time limits of tasks, as `asyncio.timeout` sets them, at a fraction of its cost: they share one timer.

Each new connection has one, and nearly none expires.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any


class TimeLimits:
    """The limits that are in force now, and the timer of the one that ends first."""

    def __init__(self) -> None:
        self._limits: dict[TimeLimit, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def after(self, seconds: float) -> TimeLimit:
        """Return a context manager that cancels its task after so many seconds, and then raises TimeoutError."""
        return TimeLimit(self, seconds)

    def add(self, limit: TimeLimit, loop: asyncio.AbstractEventLoop) -> None:
        """Put a limit in force."""
        self._limits[limit] = None
        if self._timer is None or self._timer.when() > limit.at:
            self._set_timer(limit.at, loop)

    def remove(self, limit: TimeLimit) -> None:
        """Lift a limit. The timer stays: another limit soon needs it."""
        self._limits.pop(limit, None)

    def _set_timer(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._end_expired, loop)

    def _end_expired(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, now = None, loop.time()
        for limit in [limit for limit in self._limits if limit.at <= now]:
            del self._limits[limit]
            limit.expire()
        if self._limits:
            self._set_timer(min(limit.at for limit in self._limits), loop)


class TimeLimit:
    """A limit of the task that enters it, once. `at`: when it ends, in the loop's seconds."""

    __slots__ = ("_cancelling", "_expired", "_limits", "_seconds", "_task", "at")

    def __init__(self, limits: TimeLimits, seconds: float) -> None:
        self._limits = limits
        self._seconds = seconds
        self._expired = False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task: asyncio.Task[Any] | None = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a time limit needs a task")
        self._task, self._cancelling = task, task.cancelling()
        self.at = loop.time() + self._seconds
        self._limits.add(self, loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._expired:
            self._limits.remove(self)
        elif self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the task."""
        self._expired = True
        self._task.cancel()
