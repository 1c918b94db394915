"""A client that sends and receives single frames, at any time and as slowly as a test wants.

Requests have old, inflexible versions that every broker still supports, so that this module can encode them by hand:
the tests of kproxy do not depend on kproxy's own protocol code.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence

_SECONDS = 60


def address(text: str) -> tuple[str, int]:
    """Convert `127.0.0.1:9092` to the address of a socket."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def request(key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """Return a whole request with a client id."""
    payload = struct.pack(">hhih", key, version, correlation_id, 4) + b"test" + body
    return struct.pack(">i", len(payload)) + payload


def api_versions(correlation_id: int) -> bytes:
    return request(18, 0, correlation_id)


def metadata(correlation_id: int, topics: Sequence[str] = ()) -> bytes:
    """Return Metadata v1 for these topics; an empty list means no topics, not all."""
    return request(3, 1, correlation_id, struct.pack(">i", len(topics)) + b"".join(map(_string, topics)))


def fetch(correlation_id: int, topic: str, partition: int, offset: int, most: int) -> bytes:
    """Return Fetch v4 for one partition, at most `most` bytes (but at least one batch), without waiting."""
    body = struct.pack(">iiiibi", -1, 0, 0, most, 0, 1) + _string(topic)
    return request(1, 4, correlation_id, body + struct.pack(">iiqi", 1, partition, offset, most))


def produce(correlation_id: int, topic: str, partition: int, batches: bytes, acks: int) -> bytes:
    """Return Produce v3 of encoded record batches; acks=0 has no response."""
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + _string(topic)
    return request(0, 3, correlation_id, body + struct.pack(">iii", 1, partition, len(batches)) + batches)


def records_in(response: bytes, topic: str) -> tuple[int, bytes]:
    """Return the error code and the record batches of a response (without its size) to `fetch` for one partition."""
    at = 4 + 4 + 4 + len(_string(topic)) + 4  # correlation id, throttle time, count, name, count
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", response, at)
    at += 26 + 16 * max(0, aborted)
    (size,) = struct.unpack_from(">i", response, at)
    return error, response[at + 4 : at + 4 + size]


class Frames:
    """One connection. Use it as a context manager."""

    def __init__(self, where: str) -> None:
        self.socket = socket.create_connection(address(where), timeout=_SECONDS)

    def __enter__(self) -> Frames:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *requests: bytes) -> None:
        self.socket.sendall(b"".join(requests))

    def receive(self) -> bytes:
        """Return the next response without its size."""
        return b"".join(bytes(part) for part in self.stream())

    def ask(self, one: bytes) -> bytes:
        """Send a request and return its response."""
        self.send(one)
        return self.receive()

    def stream(self) -> Iterator[memoryview]:
        """Yield the next response without its size in parts, as they arrive; each part is valid until the next."""
        (left,) = struct.unpack(">i", self._exactly(4))
        buffer = memoryview(bytearray(min(left, 1 << 20)))
        while left:
            count = self.socket.recv_into(buffer[: min(left, len(buffer))])
            if not count:
                raise ConnectionError(f"closed with {left} bytes of a response to come")
            yield buffer[:count]
            left -= count

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            part = self.socket.recv(count - len(got))
            if not part:
                raise ConnectionError("closed instead of a response")
            got += part
        return got


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw
