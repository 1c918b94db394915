"""Options of the proxy's TCP sockets. Options that a platform does not support are left out."""

from __future__ import annotations

import socket
import sys

# A peer that vanished without a FIN (a sleeping laptop, an expired NAT entry) is noticed after 60 + 6 * 10 s.
# macOS calls the first one TCP_KEEPALIVE (tcp(4) there); its default is two hours.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPALIVE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))

# The flag of a new socket that does not block (socket(2)); macOS has none.
_NON_BLOCKING = getattr(socket, "SOCK_NONBLOCK", 0)

_Option = tuple[int, int, "int | bytes"]

_NO_DELAY: _Option = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
_REMOTE: tuple[_Option, ...] = (
    _NO_DELAY,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _KEEPALIVE if hasattr(socket, name)),
)
# BBR, the default of some hosts, paces; over loopback that halves the throughput. And no peer vanishes there.
_LOOPBACK_CONGESTION: tuple[_Option, ...] = (
    ((socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno"),) if hasattr(socket, "TCP_CONGESTION") else ()
)
_LOCAL: tuple[_Option, ...] = (_NO_DELAY, *_LOOPBACK_CONGESTION)
# Whether an accepted socket inherits all of these options from the listening socket.
_INHERITED = sys.platform == "linux"


def non_blocking_socket(family: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
    """Return a new socket that does not block, on Linux in one system call."""
    sock = socket.socket(family, kind | _NON_BLOCKING, protocol)
    if not _NON_BLOCKING:
        sock.setblocking(False)
    return sock


class ListeningSocket(socket.socket):
    """A TCP socket that listens, does not block, and accepts connections at less cost.

    `accept` asks for the family and the type, which `socket.socket` makes members of enumerations each time.
    """

    __slots__ = ("family", "type")

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self.family, self.type = family, socket.SOCK_STREAM.value  # type: ignore[misc,assignment]  # properties there
        self.setblocking(False)


def tune(sock: socket.socket, peer: str) -> None:
    """Set the options of a relayed connection to or from this IP address: no delay, and keepalive."""
    _set(sock, _LOCAL if _is_loopback(peer) else _REMOTE)


def tune_listening(sock: socket.socket, host: str) -> None:
    """Set the options of a socket that will listen on this IP address; accepted connections inherit them."""
    tune(sock, host)


def tune_accepted(sock: socket.socket, peer: str, host: str) -> None:
    """Set the options of a connection that a socket of `tune_listening` has accepted, as `tune` does.

    The socket becomes non-blocking.
    """
    sock.setblocking(False)
    if not _INHERITED:
        tune(sock, peer)
    elif not _is_loopback(host) and _is_loopback(peer):
        _set(sock, _LOOPBACK_CONGESTION)


def _set(sock: socket.socket, options: tuple[_Option, ...]) -> None:
    try:  # `suppress` takes as long as a system call, on each connection
        for level, name, value in options:
            sock.setsockopt(level, name, value)
    except OSError:  # the peer may have closed already; the next call raises the error
        pass


def _is_loopback(host: str) -> bool:
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"
