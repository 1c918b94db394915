"""Ports that stay a run's own while nobody listens on them, as when a process that had one was killed.

Each is bound by a socket that never listens. With SO_REUSEADDR on both, or SO_REUSEPORT, another socket may bind and
listen beside it; who looks for a free port without that finds it taken. A connection to it is refused while nobody
listens.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from kproxy.net.freeports import HOST, free_ports
from tests.harness.process import free_window

_ATTEMPTS = 50


def bound(port: int) -> socket.socket:
    """A socket with this port, beside the one that holds it. Raises OSError if the port is somebody else's."""
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((HOST, port))
    except OSError:
        sock.close()
        raise
    return sock


class Ports:
    """The ports of one run. Use it as a context manager."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def __enter__(self) -> Ports:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self._held:
            sock.close()

    def one(self) -> int:
        """Any port."""
        return self._take(lambda: free_ports(1)[0], 1)[0]

    def row(self, count: int) -> range:
        """Ports one after the other."""
        return self._take(lambda: free_window(count), count)

    def ten(self) -> int:
        """A number n whose ports 10 n to 10 n + 9 are held: a template can then name a node's port by its id."""
        return self._take(lambda: free_ports(1)[0] // 10 * 10, 10).start // 10

    def _take(self, find: Callable[[], int], count: int) -> range:
        for _ in range(_ATTEMPTS):
            first = find()
            with contextlib.suppress(OSError):
                return self._hold(range(first, first + count))
        raise RuntimeError("no free ports")

    def _hold(self, ports: range) -> range:
        taken: list[socket.socket] = []
        try:
            for port in ports:
                with socket.socket() as probe:  # nobody has it, not even somebody who would share it
                    probe.bind((HOST, port))
                taken.append(bound(port))
        except OSError:
            for sock in taken:
                sock.close()
            raise
        self._held += taken
        return ports
