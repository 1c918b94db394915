"""Blocking sockets, for code that does one thing at a time: tools, clusters of tests, Spark tasks."""

from __future__ import annotations

import socket


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Return a connected socket, each of whose operations may take `seconds`. Raises OSError."""
    sock = socket.create_connection((host, port), seconds)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def can_connect(host: str, port: int, seconds: float) -> bool:
    """Return whether a connection can be opened within `seconds`."""
    try:
        connect(host, port, seconds).close()
    except OSError:
        return False
    return True


def receive_exactly(sock: socket.socket, count: int) -> bytes:
    """Return the next `count` bytes. Raises OSError, also if the peer closes the connection before."""
    received = bytearray()
    while len(received) < count:
        chunk = sock.recv(count - len(received))
        if not chunk:
            raise OSError("the peer closed the connection before it answered")
        received += chunk
    return bytes(received)


def resolve(host: str, port: int = 0) -> list[str]:
    """Return the IP addresses of a name, in the resolver's order, each once. Raises OSError."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in infos))
