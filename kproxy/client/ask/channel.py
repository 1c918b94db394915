"""Sending requests to a broker and receiving its responses, on a connection of kproxy's own."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kproxy.client.ask.frames import FrameReader
from kproxy.net.dial.stream import Stream

# The largest response that kproxy reads, in bytes: a list of ten thousand brokers has one million.
MAX_RESPONSE_SIZE = 4 * 1024 * 1024


class Channel(Protocol):
    """A way to send requests to a broker and to receive the responses in the same order.

    Only one coroutine may use it at a time. It may send several requests before it receives the first response.
    """

    def send(self, request: bytes) -> None:
        """Queue a request, a whole frame; it leaves at the latest with the next call of `receive`."""

    async def receive(self, seconds: float | None = None) -> bytes:
        """Return the response to the oldest unanswered request, without its size.

        The broker may take `seconds`. Raises TimeoutError, EOFError, WireError and OSError.
        """

    async def request(self, request: bytes, seconds: float | None = None) -> bytes:
        """Send a request and return its response; see `receive` for what it raises."""
        self.send(request)
        return await self.receive(seconds)


class ConnectionChannel(Channel):
    """A channel on a connection of its own. A response may have at most `limit` bytes."""

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
        """Raise WireError if the broker has sent more than the responses that were asked for.

        Call this before the connection is used for a client's session.
        """
        self._frames.check_empty()
