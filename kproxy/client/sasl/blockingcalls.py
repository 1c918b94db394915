"""Calls that may block for long (a KDC, a token endpoint, a file that is a pipe, hashing), beside the event loop.

Each has a daemon thread of its own. Threads of an executor would be waited for at the end of kproxy, whatever they do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import TypeVar

T = TypeVar("T")

# Calls at the same time, each a thread. What takes long waits for others, or lets other threads run.
_MAX_THREADS = 32


class BlockingCalls:
    """The calls of one cluster: those that never end keep no other cluster from logging in."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_MAX_THREADS)

    async def run(self, seconds: float, function: Callable[..., T], *args: object) -> T:
        """What the function returns or raises. Raises TimeoutError after so many seconds; it goes on then, unheeded."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def ended(resolve: Callable[[], None]) -> None:
            self._slots.release()
            if not outcome.done():  # somebody heeds it
                resolve()

        def work() -> None:
            try:
                resolve = partial(outcome.set_result, function(*args))
            except BaseException as error:  # noqa: BLE001  # for the caller
                resolve = partial(outcome.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: kproxy has ended
                loop.call_soon_threadsafe(ended, resolve)

        async with asyncio.timeout(seconds):
            await self._slots.acquire()
            try:
                Thread(target=work, daemon=True).start()
            except RuntimeError:  # no more threads
                self._slots.release()
                raise
            return await outcome
