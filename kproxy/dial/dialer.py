"""Opening one upstream TCP connection.

Every address that a name has is tried, IPv6 and IPv4 in turn, the next one while the last still tries (RFC 8305,
through aiohappyeyeballs). Every error leaves as an UpstreamError whose text says what to do.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from aiohappyeyeballs import start_connection

from kproxy.address import Address
from kproxy.dial.sockets import tune
from kproxy.errors import UpstreamError

# RFC 8305 §5: how long one address may try before the next one starts beside it, in seconds.
_NEXT_ADDRESS_AFTER = 0.25

_REASONS = {
    errno.ECONNREFUSED: ("refused", "connection refused: nothing listens on that port"),
    errno.ETIMEDOUT: ("timeout", "no answer (a firewall drops the packets, or the host is down)"),
    errno.EHOSTUNREACH: ("unreachable", "no route to that host"),
    errno.ENETUNREACH: ("unreachable", "no route to that network"),
    errno.EMFILE: ("limit", "too many open files: raise the limit (ulimit -n)"),
    errno.ENFILE: ("limit", "the system has too many open files"),
    errno.EADDRNOTAVAIL: ("limit", "no local port is free for another connection"),
}


async def dial(address: Address, seconds: float, is_own: Callable[[Address], bool] = lambda _: False) -> socket.socket:
    """Connect within `seconds`, name resolution included. Raises UpstreamError.

    `is_own` tells whether an IP address and port are kproxy's own listener: connecting there would go in a circle.
    """
    try:
        async with asyncio.timeout(seconds):
            sock = await _connect(address, is_own)
    except TimeoutError:
        raise UpstreamError(
            "timeout", f"{address}: no answer within {seconds:g} s (a firewall drops the packets, or the host is down)"
        ) from None
    except OSError as error:
        raise _upstream_error(address, error) from None
    tune(sock)
    return sock


async def resolve(address: Address) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    """The addresses of a name, as getaddrinfo gives them. Raises UpstreamError."""
    try:
        return await asyncio.get_running_loop().getaddrinfo(  # type: ignore[return-value]  # typeshed's tuple is looser
            address.host, address.port, type=socket.SOCK_STREAM
        )
    except (socket.gaierror, UnicodeError):
        raise UpstreamError("resolve", f"{address}: the name '{address.host}' cannot be resolved here") from None
    except OverflowError:
        raise UpstreamError("other", f"{address}: {address.port} is not a port") from None


async def _connect(address: Address, is_own: Callable[[Address], bool]) -> socket.socket:
    found = await resolve(address)
    for info in found:
        if is_own(Address(str(info[4][0]), int(str(info[4][1])))):
            raise UpstreamError("loop", f"{address} is kproxy's own listener: dialling it would go in a circle")
    return await start_connection(found, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER, interleave=1)


def _upstream_error(address: Address, error: OSError) -> UpstreamError:
    reason, text = _REASONS.get(error.errno or 0, ("other", error.strerror or str(error)))
    return UpstreamError(reason, f"{address}: {text}")
