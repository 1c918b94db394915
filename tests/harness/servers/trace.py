"""A TCP forwarder that keeps what passes: what a client asks for, and what it is answered, in its own bytes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kproxy.protocol.rewrite.versionsrequest import read_versions_request
from tests.harness.servers.peers import Road


@dataclass(slots=True)
class _Connection:
    from_client: bytearray = field(default_factory=bytearray)
    from_broker: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """An ApiVersions request of version 5, and the error code of its answer; None before that has come."""

    client_id: str
    cluster_id: str | None
    node_id: int
    error: int | None


class Trace(Road):
    """A road whose connections are kept, oldest first."""

    def __init__(self, target: Callable[[], str], host: str = "127.0.0.1", port: int = 0) -> None:
        self._connections: dict[socket.socket, _Connection] = {}
        super().__init__(target, host, port)

    def note(self, connection: socket.socket, data: bytes, *, from_client: bool) -> None:
        kept = self._connections.setdefault(connection, _Connection())
        (kept.from_client if from_client else kept.from_broker).extend(data)

    def calls(self) -> list[list[tuple[int, int]]]:
        """Return the API keys and versions of the requests of each connection."""
        return [
            [struct.unpack_from(">hh", frame, 4) for frame in _frames(kept.from_client)]
            for kept in list(self._connections.values())
        ]

    def node_checks(self) -> list[NodeCheck]:
        """Return the check with which each connection of a client since Kafka 4.4 begins (KIP-1242)."""
        return [check for kept in list(self._connections.values()) if (check := _check(kept)) is not None]


def _check(kept: _Connection) -> NodeCheck | None:
    request = read_versions_request(bytes(kept.from_client))
    if request is None or request.version < 5:
        return None
    answer = next(_frames(kept.from_broker), None)
    error = None if answer is None else struct.unpack_from(">h", answer, 8)[0]
    return NodeCheck(request.client_id[2:].decode(), request.cluster_id, request.node_id, error)


def _frames(stream: bytearray) -> Iterator[bytes]:
    """Yield the whole frames, with their sizes."""
    data, at = bytes(stream), 0
    while at + 4 <= len(data) and at + 4 + (size := struct.unpack_from(">i", data, at)[0]) <= len(data):
        yield data[at : at + 4 + size]
        at += 4 + size
