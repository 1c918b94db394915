"""A blocking connection to one broker.

It is blocking because a Spark task does one thing at a time. The connection goes through kproxy, so it needs neither
TLS nor a login.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from struct import Struct

from kproxy.base.errors import UpstreamError
from kproxy.migrate.copier.requests import VERSIONS, parse_response
from kproxy.net.blocking import connect
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.messages import CLIENT_ID, read_versions
from kproxy.protocol.wire.primitives import INT32, Buffer, malformed

# Timeout of each send and receive, in seconds.
TIMEOUT = 30.0
# Maximum size of a response. A Fetch asks for less, but a broker always sends the first batch whole.
_MAX_RESPONSE = 512 * 1024 * 1024
# Size of the read buffer: room for many Produce responses, and for the beginning of a Fetch response.
_BUFFER_SIZE = 16 * 1024
# How many parts one call to the kernel takes: IOV_MAX of Linux and macOS.
_MAX_PARTS = 1024
_FIRST = Struct(">ii")
_HEADER = Struct(">ihhih")


class BrokerConnection:
    """A connection that sends requests at once and returns their responses in the same order.

    A response is a memoryview of the bytes after its correlation id.
    """

    def __init__(self, host: str, port: int, timeout: float = TIMEOUT) -> None:
        """Connect, and read the API versions of the broker."""
        self.address = f"{host}:{port}"
        self.is_open = True
        self.versions: dict[int, range] = {}
        self._in_flight: deque[int] = deque()
        self._next = 0
        self._buffer = memoryview(bytearray(_BUFFER_SIZE))
        self._start = self._end = 0  # the bytes in the buffer that were read and not returned
        try:
            self._socket = connect(host, port, timeout)
        except OSError as error:
            raise self._close_with(error) from None
        try:
            self.versions = parse_response(read_versions, self.request(ApiKey.API_VERSIONS, 0, b""))
        except BaseException:
            self.close()
            raise

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._in_flight)

    def version(self, key: int) -> int:
        """Return the newest version of an API that the broker and kproxy both support.

        Raises WireError if there is none.
        """
        supported = [version for version in VERSIONS[key] if version in self.versions.get(key, ())]
        if not supported:
            raise malformed(f"the broker at {self.address} supports no version of API key {key} that kproxy supports")
        return supported[-1]

    def send(self, key: int, version: int, *body: Buffer) -> None:
        """Send a request."""
        size = sum(map(len, body))
        client_id = CLIENT_ID + b"\0" if APIS[key].is_flexible(version) else CLIENT_ID  # no tagged fields
        header = _HEADER.pack(_HEADER.size - 4 + len(client_id) + size, key, version, self._next, len(CLIENT_ID))
        self._in_flight.append(self._next)
        self._next = (self._next + 1) & 0x7FFFFFFF
        try:
            self._send([header + client_id, *body])
        except OSError as error:
            raise self._close_with(error) from None

    def _send(self, parts: Sequence[Buffer]) -> None:
        sent = self._socket.sendmsg(parts[:_MAX_PARTS])
        for part in parts:
            if sent < len(part):
                self._socket.sendall(memoryview(part)[sent:])
                sent = 0
            else:
                sent -= len(part)

    def receive(self) -> memoryview:
        """Return the next response."""
        try:
            if self._end - self._start < _FIRST.size:
                self._fill_buffer(INT32.size)  # a frame that is too short may have no more bytes
                if INT32.unpack_from(self._buffer, self._start)[0] < 4:
                    raise malformed(f"{self.address} does not answer as a Kafka broker")
                self._fill_buffer(_FIRST.size)
            size, correlation_id = _FIRST.unpack_from(self._buffer, self._start)
            if not 4 <= size <= _MAX_RESPONSE or correlation_id != self._in_flight.popleft():
                raise malformed(f"{self.address} does not answer as a Kafka broker")
            self._start += _FIRST.size
            response = memoryview(bytearray(size - 4))
            buffered = min(self._end - self._start, size - 4)
            response[:buffered] = self._buffer[self._start : self._start + buffered]
            self._start += buffered
            if buffered < size - 4:
                self._fill(response, buffered, size - 4)
        except OSError as error:
            raise self._close_with(error) from None
        except BaseException:
            self.close()
            raise
        return response

    def _fill_buffer(self, minimum: int) -> None:
        """Read into the buffer until it has `minimum` bytes of the next response."""
        unread = self._end - self._start
        self._buffer[:unread] = self._buffer[self._start : self._end]
        self._start, self._end = 0, self._fill(self._buffer, unread, minimum)

    def _fill(self, buffer: memoryview, received: int, minimum: int) -> int:
        """Read until the buffer has `minimum` bytes, of which `received` exist, and return how many it has."""
        while received < minimum:
            chunk = self._socket.recv_into(buffer[received:])
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            received += chunk
        return received

    def request(self, key: int, version: int, *body: Buffer) -> memoryview:
        """Send a request and return its response. No other request may be in flight."""
        assert not self._in_flight
        self.send(key, version, *body)
        return self.receive()

    def _close_with(self, error: OSError) -> UpstreamError:
        """Close the connection and return the error to raise."""
        self.close()
        if isinstance(error, TimeoutError):
            return UpstreamError("timeout", f"{self.address} does not answer")
        return UpstreamError("closed", f"{self.address}: {error.strerror or error}")

    def close(self) -> None:
        """Close the socket; the connection cannot be used again."""
        self.is_open = False
        if hasattr(self, "_socket"):
            self._socket.close()
