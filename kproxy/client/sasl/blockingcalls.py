"""Calls that may block for long (a KDC, a token endpoint, a file that is a pipe, hashing), beside the event loop.

Each runs in a daemon thread of its own: at exit, Python would wait for the threads of an executor.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import TypeVar

T = TypeVar("T")

# The most calls at a time, each in a thread. Long calls wait for other hosts, or release the interpreter lock.
_MAX_THREADS = 32


class BlockingCalls:
    """The blocking calls of one cluster, at most so many at a time.

    Calls that never return keep no other cluster from logging in.
    """

    def __init__(self, most: int = _MAX_THREADS) -> None:
        self._slots = asyncio.Semaphore(most)

    async def run(self, seconds: float, function: Callable[..., T], *args: object) -> T:
        """Run the function in a thread, and return or raise its result.

        Raises TimeoutError after `seconds`; the function then continues, and its result is ignored.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def ended(resolve: Callable[[], None]) -> None:
            self._slots.release()
            if not outcome.done():  # the caller still waits
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
