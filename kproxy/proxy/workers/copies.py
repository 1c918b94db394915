"""Copies of frames that a worker has made, given to the main process now and then, and only so many bytes of them: it
takes them on the thread of the data plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kproxy.protocol.capture.capture import Frame
from kproxy.proxy.watch.frames import Copied, EmitFrame, Place, Queue
from kproxy.proxy.workers import messages
from kproxy.proxy.workers.batch import Main

# How often, in seconds, and at most how many bytes; what is more is lost, and counted.
_EVERY = 0.1
_MOST_BYTES = 4 * 1024 * 1024


class FrameBatch:
    """What waits for the main process, while it wants any. `emit_to` is told who is to be given the frames."""

    def __init__(self, main: Main, emit_to: Callable[[EmitFrame | None], None]) -> None:
        self._main = main
        self._emit_to = emit_to
        self._queue = Queue(_MOST_BYTES)
        self._timer: asyncio.TimerHandle | None = None

    def switch(self, on: bool) -> None:
        """Whether the main process wants them."""
        if on == (self._timer is not None):
            return
        self._queue = Queue(_MOST_BYTES)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._emit_to(None)
        else:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._tell)
            self._emit_to(self._add)

    def _add(self, place: Place, frame: Frame) -> None:
        self._queue.add(Copied.now(place, frame))

    def _tell(self) -> None:
        queue = self._queue
        if queue or queue.lost:
            copied = tuple(queue.take() for _ in range(len(queue)))
            self._main.tell(messages.Captured(copied, queue.take_lost()))
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._tell)
