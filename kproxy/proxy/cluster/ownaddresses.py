"""The addresses on which this process listens: dialling one of them would make a loop.

What counts is the dialled address: an IP address after resolution, in whichever form a peer has written it. A wildcard
address stands for this machine, and an IPv4 address inside an IPv6 one for the IPv4 address.
"""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from kproxy.base.address import Address

_Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class OwnAddresses:
    """The bound IP addresses and ports of one process, of all its listeners: bootstrap, nodes, forwards, admin."""

    def __init__(self) -> None:
        self._bound: Counter[Address] = Counter()
        self._ports: Counter[int] = Counter()

    def add(self, sockets: Iterable[socket.socket]) -> None:
        """Add sockets that listen from now on."""
        for address in map(_bound_at, sockets):
            self._bound[address] += 1
            self._ports[address.port] += 1

    def remove(self, sockets: Iterable[socket.socket]) -> None:
        """Remove sockets that are about to be closed."""
        for address in map(_bound_at, sockets):
            self._bound[address] -= 1
            self._ports[address.port] -= 1
            if not self._bound[address]:
                del self._bound[address]
            if not self._ports[address.port]:
                del self._ports[address.port]

    def is_own(self, address: Address) -> bool:
        """Check whether a connection to this IP address and port would reach this process.

        An IPv6 address may name its interface (`fe80::1%2`).
        """
        # Asked on each dial: the address is looked at closer only where a listener has this port.
        if address.port not in self._ports:
            return False
        try:
            dialled = _dialled(address.host)
        except ValueError:  # no IP address: nothing that was resolved
            return False
        if Address(dialled.partition("%")[0], address.port) in self._bound:
            return True
        # kproxy binds `::` for IPv4 as well.
        wildcards = ("::",) if ":" in dialled else ("::", "0.0.0.0")
        if not any(Address(wildcard, address.port) in self._bound for wildcard in wildcards):
            return False
        return _is_of_this_machine(dialled)


def _bound_at(sock: socket.socket) -> Address:
    host, port = sock.getsockname()[:2]
    return Address(str(_as_ipv4(ipaddress.ip_address(host.partition("%")[0]))), port)


def _dialled(host: str) -> str:
    """Return the IP address to which the system connects for this one. Raises ValueError if it is no IP address."""
    ip = _as_ipv4(ipaddress.ip_address(host))
    if ip.is_unspecified:
        return "127.0.0.1" if ip.version == 4 else "::1"
    return str(ip)


def _as_ipv4(ip: _Ip) -> _Ip:
    """Return the IPv4 address inside an IPv6 one (RFC 4291 §2.5.5.2), or the address itself."""
    return ip if ip.version == 4 or ip.ipv4_mapped is None else ip.ipv4_mapped


def _is_of_this_machine(host: str) -> bool:
    """Check whether this machine has the IP address: then a socket can be bound to it."""
    host, _, interface = host.partition("%")
    scope = int(interface) if interface.isdigit() else 0
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0, 0, scope) if family == socket.AF_INET6 else (host, 0))
        except OSError:
            return False
    return True
