"""Sending requests to a broker and receiving its responses, on a connection of kproxy's own."""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Protocol

from kproxy.base.errors import WireError
from kproxy.net.dial.stream import Stream
from kproxy.protocol.wire.greeting import ENOUGH, recognise, wrong_upstream
from kproxy.protocol.wire.primitives import INT32, malformed

# The largest response that kproxy reads, in bytes: a list of ten thousand brokers has one million.
MAX_RESPONSE_SIZE = 4 * 1024 * 1024
# The most bytes of one read. Responses are small, and several arrive together.
_CHUNK = 64 * 1024
_FIRST = Struct(">ii")
# The largest frame of a broker: a larger size is the first bytes of another protocol.
_LARGEST = 1 << 30


class ResponseTooLarge(WireError):
    """A response is larger than kproxy reads."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__("answer-too-large", f"the answer has {size} bytes, and kproxy reads {limit} at most")


class NotAResponse(WireError):
    """The received bytes are not a response of acceptable size.

    Either the response is too large, or the server does not speak Kafka, and its first eight bytes are no size and
    correlation id.
    """

    def __init__(self, size: int, correlation_id: int, limit: int) -> None:
        self._size = size
        self._correlation_id = correlation_id
        self._limit = limit
        super().__init__("malformed", "the server at this address is not a Kafka broker")

    def for_request(self, correlation_id: int) -> WireError:
        """Return the error for the request with this correlation id: ResponseTooLarge, if this is its response."""
        if self._correlation_id == correlation_id and 0 < self._size <= _LARGEST:
            return ResponseTooLarge(self._size, self._limit)
        return self


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
        self._limit = limit
        self._unsent = b""
        self._data = bytearray()  # received bytes that belong to no returned response yet

    def send(self, request: bytes) -> None:
        self._unsent += request

    async def receive(self, seconds: float | None = None) -> bytes:
        if seconds is not None:
            async with asyncio.timeout(seconds):
                return await self.receive()
        if self._unsent:
            unsent, self._unsent = self._unsent, b""
            await self._stream.send(unsent)
        data = self._data
        while (frame := self._take_frame()) is None:
            is_foreign = len(data) >= 4 and not 0 <= INT32.unpack_from(data)[0] <= self._limit
            if is_foreign or 0 < len(data) < 4:
                greeting = recognise(bytes(data[:ENOUGH]), from_upstream=True)
                if greeting is not None:
                    raise wrong_upstream(greeting)
                if is_foreign and len(data) >= ENOUGH:  # fewer bytes may not identify the protocol
                    size, correlation_id = _FIRST.unpack_from(data)
                    raise NotAResponse(size, correlation_id, self._limit)
            chunk = await self._stream.receive(_CHUNK)
            if not chunk:
                raise EOFError
            data += chunk
        return frame

    def _take_frame(self) -> bytes | None:
        """Return the next frame if all of it has been received."""
        data = self._data
        if len(data) < 4:
            return None
        (size,) = INT32.unpack_from(data)
        if not 0 <= size <= self._limit:
            return None
        end = 4 + size
        if len(data) < end:
            return None
        frame = bytes(data[4:end])
        del data[:end]
        return frame

    def check_no_excess(self) -> None:
        """Raise WireError if the broker has sent more than the responses that were asked for.

        Call this before the connection is used for a client's session.
        """
        if self._data:
            raise malformed("the server at this address sent more than kproxy asked for")
