"""One connection to a broker, blocking: a Spark task does one thing at a time.

The broker is reached through kproxy, so there is neither TLS nor a login here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from struct import Struct

from kproxy.base.errors import UpstreamError
from kproxy.migrate.copier.requests import API_VERSIONS, VERSIONS, parse_response, read_versions
from kproxy.net.blocking import connect
from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.primitives import INT32, Buffer, malformed
from kproxy.protocol.wire.request import CLIENT_ID

# How long a broker may take for anything, in seconds.
PATIENCE = 30.0
# The largest answer: a Fetch asks for less, but one batch always comes whole, and brokers may allow large ones.
_LARGEST = 512 * 1024 * 1024
# So much is read at once: many answers to Produce, and the beginning of one to Fetch.
_AT_ONCE = 16 * 1024
_FIRST = Struct(">ii")
_HEADER = Struct(">ihhih")


class BrokerConnection:
    """Requests go out at once; their answers come in the same order, each as a memoryview without its correlation
    id."""

    def __init__(self, host: str, port: int, patience: float = PATIENCE) -> None:
        """Raises UpstreamError."""
        self.address = f"{host}:{port}"
        self.is_open = True
        self.versions: dict[int, range] = {}
        self._waiting: deque[int] = deque()
        self._next = 0
        self._read = memoryview(bytearray(_AT_ONCE))
        self._at = self._end = 0  # what of it has come and was not taken
        try:
            self._socket = connect(host, port, patience)
        except OSError as error:
            raise self._lost(error) from None
        try:
            self.versions = parse_response(read_versions, self.request(API_VERSIONS, 0, b""))
        except BaseException:
            self.close()
            raise

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return len(self._waiting)

    def version(self, key: int) -> int:
        """The newest one that both have. Raises WireError."""
        both = [version for version in VERSIONS[key] if version in self.versions.get(key, ())]
        if not both:
            raise malformed(f"the broker at {self.address} is too old or too new for kproxy (API key {key})")
        return both[-1]

    def send(self, key: int, version: int, *body: Buffer) -> None:
        """Raises UpstreamError."""
        size = sum(map(len, body))
        rest = CLIENT_ID + b"\0" if version >= APIS[key].flexible else CLIENT_ID  # no tagged fields
        head = _HEADER.pack(_HEADER.size - 4 + len(rest) + size, key, version, self._next, len(CLIENT_ID))
        self._waiting.append(self._next)
        self._next = (self._next + 1) & 0x7FFFFFFF
        try:
            self._send([head + rest, *body])
        except OSError as error:
            raise self._lost(error) from None

    def _send(self, parts: Sequence[Buffer]) -> None:
        sent = self._socket.sendmsg(parts)
        for part in parts:
            if sent < len(part):
                self._socket.sendall(memoryview(part)[sent:])
                sent = 0
            else:
                sent -= len(part)

    def receive(self) -> memoryview:
        """The next answer. Raises UpstreamError and WireError."""
        try:
            if self._end - self._at < _FIRST.size:
                self._more(INT32.size)  # of a frame without a correlation id, no more would come
                if INT32.unpack_from(self._read, self._at)[0] < 4:
                    raise malformed(f"{self.address} does not answer as a Kafka broker")
                self._more(_FIRST.size)
            size, correlation_id = _FIRST.unpack_from(self._read, self._at)
            if not 4 <= size <= _LARGEST or correlation_id != self._waiting.popleft():
                raise malformed(f"{self.address} does not answer as a Kafka broker")
            self._at += _FIRST.size
            answer = memoryview(bytearray(size - 4))
            here = min(self._end - self._at, size - 4)
            answer[:here] = self._read[self._at : self._at + here]
            self._at += here
            if here < size - 4:
                self._fill(answer, here, size - 4)
        except OSError as error:
            raise self._lost(error) from None
        except BaseException:
            self.close()
            raise
        return answer

    def _more(self, least: int) -> None:
        """The first bytes of the next answer, `least` of them, and what else is there already."""
        left = self._end - self._at
        self._read[:left] = self._read[self._at : self._end]
        self._at, self._end = 0, self._fill(self._read, left, least)

    def _fill(self, into: memoryview, got: int, least: int) -> int:
        """Behind the first `got` bytes, until there are `least`; returns how many there are then."""
        while got < least:
            more = self._socket.recv_into(into[got:])
            if not more:
                raise ConnectionResetError("the broker closed the connection")
            got += more
        return got

    def request(self, key: int, version: int, *body: Buffer) -> memoryview:
        """Both. Nothing else may be in flight."""
        self.send(key, version, *body)
        return self.receive()

    def _lost(self, error: OSError) -> UpstreamError:
        self.close()
        if isinstance(error, TimeoutError):
            return UpstreamError("timeout", f"{self.address} does not answer")
        return UpstreamError("closed", f"{self.address}: {error.strerror or error}")

    def close(self) -> None:
        """It cannot be used again."""
        self.is_open = False
        if hasattr(self, "_socket"):
            self._socket.close()
