"""Getting requests to a broker and its responses back, on a connection of kproxy's own."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kproxy.client.ask.frames import FrameReader
from kproxy.net.dial.stream import Stream

# A broker's answer to kproxy has at most so many bytes: a list of ten thousand brokers has one million.
MAX_RESPONSE_SIZE = 4 * 1024 * 1024


class Channel(Protocol):
    """Somebody who can be asked. One at a time uses it; several requests may be sent before the first is answered."""

    def send(self, request: bytes) -> None:
        """Have a request, a whole frame, sent by the time that its answer is waited for."""

    async def receive(self, seconds: float | None = None) -> bytes:
        """The response to the next request, without its size; the broker may take so many seconds. Raises TimeoutError,
        EOFError, WireError and OSError."""

    async def request(self, request: bytes, seconds: float | None = None) -> bytes:
        """Both."""
        self.send(request)
        return await self.receive(seconds)


class ConnectionChannel(Channel):
    """On a connection of kproxy's own. A response may have `limit` bytes."""

    def __init__(self, stream: Stream, limit: int = MAX_RESPONSE_SIZE) -> None:
        self._stream = stream
        self._frames = FrameReader(stream, limit)
        self._unsent = b""

    def send(self, request: bytes) -> None:
        self._unsent += request

    async def receive(self, seconds: float | None = None) -> bytes:
        if seconds is not None:
            async with asyncio.timeout(seconds):
                return await self.receive()
        if self._unsent:
            unsent, self._unsent = self._unsent, b""
            await self._stream.send(unsent)
        return await self._frames.read()

    def check_no_excess(self) -> None:
        """Leave the connection to somebody else. Raises WireError if more has come than was asked for."""
        self._frames.check_empty()
