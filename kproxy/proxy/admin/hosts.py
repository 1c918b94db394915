"""The Host names that the admin endpoint accepts, and the peers that need no token. Pure.

A page of any site can make a browser request `/status` from a name of that site, if that name resolves to this machine
for a moment (DNS rebinding). The Host header of the browser is then that name, which kproxy does not know.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

ANY = "*"


def is_accepted(host: str, names: Collection[str]) -> bool:
    """Return True if kproxy accepts a request with this Host header ("": none); `names` are accepted, ANY accepts all.

    These are always accepted: no Host (HTTP/1.0 and programs; browsers always send one); an IP address (no name can
    take its place); and a name without a dot (localhost, services in Docker and Kubernetes; no site has one).
    """
    name = _without_port(host.strip().lower())
    if not name or ANY in names or name in {accepted.lower() for accepted in names}:
        return True
    if "." not in name and ":" not in name:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def is_loopback(peer: str) -> bool:
    """Return True if a peer's IP address ("": unknown) is a loopback address, also IPv4's as written in IPv6."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if colon and (port.isdecimal() or not port) and (":" not in name or name.endswith("]")):
        return name
    return host
