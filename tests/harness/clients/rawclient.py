"""A minimal Kafka client: frames encoded by hand, one connection, no use of kproxy's own code.

It does what real clients cannot: hold a silent connection, send one request at one moment, watch the end of a
connection.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType

API_VERSIONS, METADATA, PRODUCE, FETCH = 18, 3, 0, 1
_WAIT = 60.0  # for one answer, in seconds: a bound, not an expectation


class RawClient:
    """One connection to `address` (HOST:PORT). Every request has header version 1 and client id "raw"."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=_WAIT)
        self._correlation_id = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, key: int, version: int, body: bytes = b"") -> int:
        """Send a request; return its correlation id."""
        self._correlation_id += 1
        header = struct.pack(">hhih", key, version, self._correlation_id, 3) + b"raw"
        self.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        return self._correlation_id

    def receive(self) -> tuple[int, bytes]:
        """Return correlation id and body of the next response. Raises EOFError if the connection is closed instead."""
        size, correlation_id = struct.unpack(">ii", self._exactly(8))
        return correlation_id, self._exactly(size - 4)

    def ask(self, key: int, version: int, body: bytes = b"") -> bytes:
        sent = self.send(key, version, body)
        correlation_id, answer = self.receive()
        assert correlation_id == sent
        return answer

    def works(self) -> bool:
        """Check whether a broker answers ApiVersions v0 without an error; False if the connection is closed.

        Raises TimeoutError if neither happens, because kproxy must never leave a client hanging.
        """
        try:
            return self.ask(API_VERSIONS, 0)[:2] == b"\0\0"
        except (ConnectionError, EOFError):
            return False

    def send_fetch(self, topic: str, partition: int, offset: int, max_wait_ms: int) -> int:
        """Request at least one byte of a partition (Fetch v4); return the correlation id."""
        name = topic.encode()
        body = struct.pack(">iiiib", -1, max_wait_ms, 1, 1 << 20, 0)
        body += struct.pack(">ih", 1, len(name)) + name
        return self.send(FETCH, 4, body + struct.pack(">iiqi", 1, partition, offset, 1 << 20))

    def wait_closed(self) -> bool:
        """Wait until the other side closes; return whether it sent nothing before."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise EOFError("the connection was closed")
            data += more
        return data
