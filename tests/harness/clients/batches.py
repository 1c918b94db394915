"""Record batches as a broker keeps them: written to the first partition of a topic, and read from it."""

from __future__ import annotations

import socket
import struct
from contextlib import closing

from kproxy.protocol.records.header import Batch, read_batches

PRODUCE, FETCH = 0, 1


def produced(broker: tuple[str, int], topic: str, batch: bytes) -> None:
    """Write one batch; the broker must accept it."""
    body = struct.pack(">hhi", -1, -1, 30_000) + _named(topic) + struct.pack(">iii", 1, 0, len(batch)) + batch
    answer = _asked(broker, PRODUCE, 7, body)
    (error,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)
    assert error == 0, f"the broker answered error {error}"


def fetched(broker: tuple[str, int], topic: str) -> list[Batch]:
    """Return all batches from offset 0 on."""
    found: list[Batch] = []
    offset, highest = 0, -1
    while offset != highest:
        body = struct.pack(">iiiibii", -1, 100, 1, 1 << 30, 0, 0, -1) + _named(topic)
        body += struct.pack(">iiiqqi", 1, 0, -1, offset, -1, 1 << 30) + struct.pack(">ih", 0, 0)
        answer = _asked(broker, FETCH, 11, body)
        at = 4 + 2 + 4 + 4 + 2 + len(topic) + 4  # behind the number of partitions
        _, error, highest, _, _, aborted = struct.unpack_from(">ihqqqi", answer, at)
        assert error == 0, f"the broker answered error {error}"
        at += 34 + 16 * max(0, aborted) + 4  # behind the preferred replica
        (size,) = struct.unpack_from(">i", answer, at)
        found += read_batches(memoryview(answer)[at + 4 : at + 4 + size])
        offset = found[-1].last_offset + 1
    return found


def _asked(broker: tuple[str, int], key: int, version: int, body: bytes) -> bytes:
    with closing(socket.create_connection(broker, timeout=30)) as connection:
        frame = struct.pack(">hhih", key, version, 1, -1) + body
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        with connection.makefile("rb") as stream:
            return stream.read(*struct.unpack(">i", stream.read(4)))[4:]


def _named(topic: str) -> bytes:
    return struct.pack(">ih", 1, len(topic)) + topic.encode()
