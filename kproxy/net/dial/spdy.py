"""SPDY/3.1 for the client of a Kubernetes port-forward (pure): bytes in, events and bytes out.

A port-forward needs nothing from a server's headers, so none is inflated. SPDY has no flow control here: Kubernetes'
implementation (moby/spdystream) neither sends windows nor respects them. So one connection carries one pair of streams,
and a slow reader delays no other.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# draft-mbelshe-httpbis-spdy-00 §2.2.2, §2.6
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN = 1
_VERSION = 3
_HEAD = 8
_SIZES = {_RST_STREAM: 8, _PING: 4, _GOAWAY: 8}
_LEAST = {_SYN_STREAM: 10, _SYN_REPLY: 4, _HEADERS: 4}
# The largest control frame, in bytes: a reply of Kubernetes has no headers, and other frames have a few bytes.
_MOST_CONTROL = 64 * 1024
_MOST_DATA = (1 << 24) - 1

# §2.6.10.1: both ends begin with it. First names and values with their lengths, then what else is often in headers.
_WORDS = (
    "options,head,post,put,delete,trace,accept,accept-charset,accept-encoding,accept-language,accept-ranges,age,allow,"
    "authorization,cache-control,connection,content-base,content-encoding,content-language,content-length,"
    "content-location,content-md5,content-range,content-type,date,etag,expect,expires,from,host,if-match,"
    "if-modified-since,if-none-match,if-range,if-unmodified-since,last-modified,location,max-forwards,pragma,"
    "proxy-authenticate,proxy-authorization,range,referer,retry-after,server,te,trailer,transfer-encoding,upgrade,"
    "user-agent,vary,via,warning,www-authenticate,method,get,status,200 OK,version,HTTP/1.1,url,public,set-cookie,"
    "keep-alive,origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(text: str) -> bytes:
    return len(text).to_bytes(4) + text.encode()


DICTIONARY = b"".join(map(_counted, _WORDS.split(","))) + _REST.encode()


class SpdyError(ValueError):
    """The received bytes are not SPDY/3.1, or a frame is larger than a port-forward needs."""


@dataclass(frozen=True, slots=True)
class StreamAccepted:
    """The server has accepted a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class StreamData:
    """Bytes on a stream."""

    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a stream's incoming direction; with `reset`, of both directions."""

    stream: int
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Ping:
    """A ping of the server; `reply` is the frame to send back."""

    reply: bytes


@dataclass(frozen=True, slots=True)
class GoAway:
    """The server accepts no more streams."""


SpdyEvent = StreamAccepted | StreamData | StreamEnd | Ping | GoAway


class Spdy:
    """The client's end of a connection. Methods that send return the bytes to send."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._next = 1
        self._open: set[int] = set()  # streams on which data may still arrive
        self._head = bytearray()  # the head of a data frame, or the beginning of a control frame
        self._data: tuple[int, int, bool] | None = (
            None  # the current data frame: stream, bytes left, whether it is the last
        )

    def open(self, headers: Mapping[str, str], *, last: bool = False) -> tuple[int, bytes]:
        """Begin a stream, and return its number and the bytes to send; `last` if it will carry no data."""
        stream, self._next = self._next, self._next + 2
        self._open.add(stream)
        block = len(headers).to_bytes(4) + b"".join(
            _counted(name.lower()) + _counted(value) for name, value in headers.items()
        )
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        # No associated stream, the highest priority, no slot.
        return stream, _control(_SYN_STREAM, stream.to_bytes(4) + bytes(6) + packed, _FIN if last else 0)

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        """Return a data frame of at most 16 MiB - 1 bytes; `last` ends the sending direction."""
        return b"%b%c%b%b" % (stream.to_bytes(4), _FIN if last else 0, len(data).to_bytes(3), data)

    def ping(self) -> bytes:
        """Return a ping frame, which keeps the connection alive. Its reply is no event."""
        return _control(_PING, (1).to_bytes(4))

    def receive(self, data: bytes) -> list[SpdyEvent]:
        """Process received bytes, and return the events. Raises SpdyError; nothing can be received after that."""
        events: list[SpdyEvent] = []
        view = memoryview(data)
        while view:
            if self._data is not None:
                view = self._payload(view, events)
                continue
            wanted = self._frame_size() - len(self._head)
            self._head += view[:wanted]
            view = view[wanted:]
            if len(self._head) == self._frame_size():
                frame = bytes(self._head)
                self._head.clear()
                events += self._control_frame(frame) if frame[0] & 0x80 else self._data_frame(frame)
        return events

    def _frame_size(self) -> int:
        """Return the bytes of the current frame that are needed to process it."""
        head = self._head
        if len(head) < _HEAD or not head[0] & 0x80:
            return _HEAD
        size = int.from_bytes(head[5:8])
        if size > _MOST_CONTROL:
            raise SpdyError(f"a control frame of {size} bytes")
        return _HEAD + size

    def _data_frame(self, head: bytes) -> Iterator[SpdyEvent]:
        stream, left, last = int.from_bytes(head[:4]), int.from_bytes(head[5:8]), bool(head[4] & _FIN)
        if left:
            self._data = stream, left, last
        elif last:
            yield from self._end(stream)

    def _payload(self, view: memoryview, events: list[SpdyEvent]) -> memoryview:
        """Take the bytes of a data frame, and return those that follow it. Frames of 16 MiB need no memory."""
        assert self._data is not None
        stream, left, last = self._data
        part, following = view[:left], view[left:]
        if stream in self._open:
            events.append(StreamData(stream, bytes(part)))
        left -= len(part)
        self._data = (stream, left, last) if left else None
        if not left and last:
            events += self._end(stream)
        return following

    def _control_frame(self, frame: bytes) -> Iterator[SpdyEvent]:
        version, kind, body = int.from_bytes(frame[:2]) & 0x7FFF, int.from_bytes(frame[2:4]), frame[_HEAD:]
        if version != _VERSION:
            raise SpdyError(f"a frame of SPDY/{version}")
        if len(body) != _SIZES.get(kind, len(body)) or len(body) < _LEAST.get(kind, 0):
            raise SpdyError(f"a frame of type {kind} with {len(body)} bytes")
        number = int.from_bytes(body[:4]) & 0x7FFFFFFF
        if kind == _SYN_REPLY and number in self._open:
            yield StreamAccepted(number)
        if kind in (_SYN_REPLY, _HEADERS) and frame[4] & _FIN:
            yield from self._end(number)
        elif kind == _RST_STREAM:
            yield from self._end(number, reset=True)
        elif kind == _PING and not body[3] & 1:  # the odd ones are answers
            yield Ping(frame)
        elif kind == _GOAWAY:
            yield GoAway()
        # All other types are irrelevant here, and unknown ones must be ignored (§2.2.1). A stream that the server
        # begins gets no reply.

    def _end(self, stream: int, *, reset: bool = False) -> Iterator[SpdyEvent]:
        if stream in self._open or (reset and stream % 2 and stream < self._next):
            self._open.discard(stream)
            yield StreamEnd(stream, reset)


def _control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return b"%b%c%b%b" % ((1 << 31 | _VERSION << 16 | kind).to_bytes(4), flags, len(body).to_bytes(3), body)
