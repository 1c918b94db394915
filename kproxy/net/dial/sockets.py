"""Options of the proxy's TCP sockets. Options that a platform does not support are left out."""

from __future__ import annotations

import contextlib
import socket
import sys

# A peer that vanished without a FIN (a sleeping laptop, an expired NAT entry) is noticed after 60 + 6 * 10 s.
# macOS calls the first one TCP_KEEPALIVE (tcp(4) there); its default is two hours.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPALIVE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))

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
    elif _is_loopback(peer) and not _is_loopback(host):
        _set(sock, _LOOPBACK_CONGESTION)


def _set(sock: socket.socket, options: tuple[_Option, ...]) -> None:
    with contextlib.suppress(OSError):  # the peer may have closed already; the next call raises the error
        for option in options:
            sock.setsockopt(*option)


def _is_loopback(host: str) -> bool:
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"
