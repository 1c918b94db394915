"""Connecting from this machine. This module converts errors of the operating system to UpstreamError.

kproxy tries every address of a name, IPv6 and IPv4 in turn, and starts the next one while the last still tries (RFC
8305, through aiohappyeyeballs).
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence

from aiohappyeyeballs import start_connection

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.base.messages.reachability import (
    CONNECT_TIMEOUT,
    CONNECTION_REFUSED,
    DNS_TIMEOUT,
    NO_ROUTE_TO_HOST,
    NO_ROUTE_TO_NETWORK,
    PROXY_LOOP,
    TOO_MANY_OPEN_FILES,
)
from kproxy.net.dial.connector import Deadline, DialStepKind
from kproxy.net.dial.resolver import AddrInfo, Resolver
from kproxy.net.dial.sockets import non_blocking_socket, tune
from kproxy.net.dial.stream import wait_until_ready

# RFC 8305 §5: how long one address may try before the next one starts beside it, in seconds.
_NEXT_ADDRESS_AFTER = 0.25

_REASONS = {
    errno.ECONNREFUSED: CONNECTION_REFUSED.with_reason(),
    errno.ETIMEDOUT: ("timeout", "no answer (a firewall drops the packets, or the host is down)"),
    errno.EHOSTUNREACH: NO_ROUTE_TO_HOST.with_reason(),
    errno.ENETUNREACH: NO_ROUTE_TO_NETWORK.with_reason(),
    errno.EMFILE: TOO_MANY_OPEN_FILES.with_reason(),
    errno.ENFILE: ("limit", "the system has too many open files"),
    errno.EADDRNOTAVAIL: ("limit", "no local port is free for another connection"),
}

# The errors of connect on a non-blocking socket before the peer has answered.
_UNDER_WAY = (errno.EINPROGRESS, errno.EINTR)


class DirectConnector:
    """The connector that uses no hop.

    `is_own` returns whether an IP address and port are kproxy's own listener: such a connection would be a loop.
    """

    def __init__(self, is_own: Callable[[Address], bool] = lambda _: False) -> None:
        self._is_own = is_own
        self._resolver = Resolver()

    async def connect(self, address: Address, deadline: Deadline) -> socket.socket:
        """Resolve the name and connect. Raises UpstreamError."""
        with deadline.step(DialStepKind.RESOLVE, address.host):
            addresses = self._resolver.parse_ip(address) or await self._resolve(address, deadline)
            self._refuse_own_listener(address, addresses)
        with deadline.step(DialStepKind.CONNECT, address):
            return await self._connect_to_any(address, addresses, deadline)

    async def _resolve(self, address: Address, deadline: Deadline) -> Sequence[AddrInfo]:
        try:
            async with deadline.timeout():
                return await self._resolver.resolve(address)
        except TimeoutError:
            raise UpstreamError(
                *DNS_TIMEOUT.with_reason(address=address, host=address.host, seconds=deadline.seconds)
            ) from None

    def _refuse_own_listener(self, address: Address, addresses: Sequence[AddrInfo]) -> None:
        for _, _, _, _, to in addresses:
            scope = f"%{to[3]}" if len(to) == 4 and to[3] else ""  # the interface of a link-local address
            if self._is_own(Address(f"{to[0]}{scope}", address.port)):
                raise UpstreamError(*PROXY_LOOP.with_reason(address=address))

    async def _connect_to_any(
        self, address: Address, addresses: Sequence[AddrInfo], deadline: Deadline
    ) -> socket.socket:
        try:
            if len(addresses) == 1:
                return await _connect(addresses[0], deadline)
            async with deadline.timeout():
                sock = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER, interleave=1)
            tune(sock, str(sock.getpeername()[0]))
            return sock
        except TimeoutError:
            self._resolver.mark_doubtful(address.host)
            raise UpstreamError(*CONNECT_TIMEOUT.with_reason(address=address, seconds=deadline.seconds)) from None
        except OSError as error:
            self._resolver.mark_doubtful(address.host)
            reason, text = _REASONS.get(error.errno or 0, ("other", error.strerror or str(error)))
            raise UpstreamError(reason, f"{address}: {text}") from None

    async def close(self) -> None:
        """Do nothing: nothing is kept open."""


async def _connect(info: AddrInfo, deadline: Deadline) -> socket.socket:
    """Connect to the only address of a name. Raises OSError."""
    family, kind, protocol, _, address = info
    sock = non_blocking_socket(family, kind, protocol)
    try:
        tune(sock, str(address[0]))
        error = sock.connect_ex(address)
        if error in _UNDER_WAY:
            # A connection to this machine is established at once, although the system reports EINPROGRESS.
            error = 0 if _is_connected(sock) else await _outcome(sock, deadline)
        if error:
            raise OSError(error, os.strerror(error))
    except BaseException:
        sock.close()
        raise
    return sock


def _is_connected(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


async def _outcome(sock: socket.socket, deadline: Deadline) -> int:
    """Wait for a connection in progress, and return its error code."""
    async with deadline.timeout():
        await wait_until_ready(sock, write=True)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
