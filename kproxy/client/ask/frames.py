"""Reading the response frames to kproxy's own requests. Sessions do not use this module."""

from __future__ import annotations

from struct import Struct

from kproxy.base.errors import WireError
from kproxy.net.dial.stream import Stream
from kproxy.protocol.wire.greeting import ENOUGH, recognise
from kproxy.protocol.wire.mismatch import wrong_upstream
from kproxy.protocol.wire.primitives import INT32, malformed

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


class FrameReader:
    """A reader of frames of at most `limit` bytes each; it returns them without their sizes."""

    def __init__(self, stream: Stream, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._data = bytearray()  # received bytes that belong to no returned frame yet

    async def read(self) -> bytes:
        """Return the next frame.

        Raises WireError if the bytes are not Kafka's protocol, EOFError if the broker closes the connection, and
        OSError.
        """
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

    def check_empty(self) -> None:
        """Raise WireError if unread bytes are left."""
        if self._data:
            raise malformed("the server at this address sent more than kproxy asked for")
