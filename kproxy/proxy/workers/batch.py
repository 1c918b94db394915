"""What a worker has seen pass, told to the main process now and then: a message for each would cost more than to pass
it on."""

from __future__ import annotations

import asyncio
from time import perf_counter, time
from typing import Protocol

from kproxy.proxy.relay.observer import Exchange
from kproxy.proxy.watch.lines import Passed, Where
from kproxy.proxy.workers import messages

# How often it is told, in seconds, and at most how many at a time; what is more is lost, and counted.
_EVERY = 0.1
_MOST = 2_000


class Main(Protocol):
    """Whom it is told to."""

    def tell(self, message: object) -> None: ...


class Batch:
    """Until `end`."""

    def __init__(self, main: Main) -> None:
        self._main = main
        self._passed: list[Passed] = []
        self._lost = 0
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(_EVERY, self._tell)

    def add(self, where: Where, exchange: Exchange) -> None:
        """Something has passed."""
        if len(self._passed) >= _MOST:
            self._lost += 1
        else:
            self._passed.append(Passed(time() - (perf_counter() - exchange.at), where, exchange))

    def end(self) -> None:
        """Nobody looks on any more."""
        self._timer.cancel()

    def _tell(self) -> None:
        if self._passed or self._lost:
            self._main.tell(messages.Seen(tuple(self._passed), self._lost))
            self._passed.clear()
            self._lost = 0
        self._timer = self._loop.call_later(_EVERY, self._tell)
