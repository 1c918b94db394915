"""The event loop of asyncio over the data plane's selector."""

from __future__ import annotations

import contextlib

from kproxy.net.dial.stream import ReadinessLoop
from kproxy.proxy.relay.selector import READ, WRITE, RelaySelector


class RelayLoop(ReadinessLoop):
    """An event loop over a `RelaySelector`. Code that waits for a socket waits at the selector, like the data plane."""

    def __init__(self, selector: RelaySelector) -> None:
        super().__init__(selector)
        self._relay = selector

    async def ready(self, fd: int, *, write: bool) -> None:
        selector, ready = self._relay, self.create_future()

        def on_event(mask: int) -> None:
            selector.end_relay(fd)
            selector.wake = True
            if not ready.done():
                ready.set_result(None)

        selector.relay(fd, WRITE if write else READ, on_event)
        try:
            await ready
        except BaseException:
            if selector.callback_of(fd) is on_event:  # else the socket was closed, and another one has its number
                with contextlib.suppress(OSError, KeyError):
                    selector.end_relay(fd)
            raise
