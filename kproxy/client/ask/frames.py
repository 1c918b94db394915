"""Reading a broker's answers to what kproxy itself asks, one by one. Sessions do not go through here."""

from __future__ import annotations

from struct import Struct

from kproxy.base.errors import WireError
from kproxy.net.dial.stream import Stream
from kproxy.protocol.wire.greeting import ENOUGH, recognise
from kproxy.protocol.wire.mismatch import wrong_upstream
from kproxy.protocol.wire.primitives import INT32, malformed

# What is read at once. Answers are small, and several come together.
_CHUNK = 64 * 1024
_FIRST = Struct(">ii")
# What a broker sends at most: a size above this is another protocol's first bytes.
_LARGEST = 1 << 30


class ResponseTooLarge(WireError):
    """The broker answers with more than kproxy reads."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__("answer-too-large", f"the answer has {size} bytes, and kproxy reads {limit} at most")


class NotAResponse(WireError):
    """What comes is larger than an answer may be; or it is none, and its first eight bytes are no size and no
    correlation id."""

    def __init__(self, size: int, correlation_id: int, limit: int) -> None:
        self._size = size
        self._correlation_id = correlation_id
        self._limit = limit
        super().__init__("malformed", "the server at this address is not a Kafka broker")

    def for_request(self, correlation_id: int) -> WireError:
        """What it is for somebody who waits for the answer with this correlation id."""
        if self._correlation_id == correlation_id and 0 < self._size <= _LARGEST:
            return ResponseTooLarge(self._size, self._limit)
        return self


class FrameReader:
    """The frames that come, each of at most `limit` bytes, without their sizes."""

    def __init__(self, stream: Stream, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._data = bytearray()  # what has come, and is nobody's yet

    async def read(self) -> bytes:
        """The next one. Raises WireError if what comes is not Kafka's, EOFError if the broker closes the connection,
        and OSError."""
        data = self._data
        while (frame := self._take_frame()) is None:
            is_foreign = len(data) >= 4 and not 0 <= INT32.unpack_from(data)[0] <= self._limit
            if is_foreign or 0 < len(data) < 4:
                greeting = recognise(bytes(data[:ENOUGH]), from_upstream=True)
                if greeting is not None:
                    raise wrong_upstream(greeting)
                if is_foreign and len(data) >= ENOUGH:  # fewer may not yet tell whose it is
                    size, correlation_id = _FIRST.unpack_from(data)
                    raise NotAResponse(size, correlation_id, self._limit)
            chunk = await self._stream.receive(_CHUNK)
            if not chunk:
                raise EOFError
            data += chunk
        return frame

    def _take_frame(self) -> bytes | None:
        """The next one, if all of it is there."""
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

    def check_empty(self) -> None:
        """Raises WireError if something is left over."""
        if self._data:
            raise malformed("the server at this address sent more than kproxy asked for")
