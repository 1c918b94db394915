"""Options of the proxy's TCP sockets. What a platform does not have is left out."""

from __future__ import annotations

import contextlib
import socket

# A peer that vanished without a word (a laptop that sleeps, a NAT that forgot) is noticed after 60 + 6 * 10 s.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))


def tune(sock: socket.socket) -> None:
    """Prepare a connected socket for relaying: non-blocking, no delay, keepalive."""
    sock.setblocking(False)
    with contextlib.suppress(OSError):  # the peer may be gone already; the next call will say so
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if hasattr(socket, "TCP_CONGESTION") and _is_loopback(sock):
            # BBR, the default of some hosts, paces; over loopback that halves the throughput.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


def _is_loopback(sock: socket.socket) -> bool:
    host = str(sock.getpeername()[0])
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"
