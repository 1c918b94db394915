"""By which names the admin endpoint may be asked, and from where without a token. Pure.

A page of any site can make a browser ask a name of that site for `/status`, when that name leads to this machine for a
moment (DNS rebinding). The Host that the browser sends is then that name, which is nobody's name for kproxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

ANY = "*"


def is_accepted(host: str, names: Collection[str]) -> bool:
    """Whether a request with this Host header ("": none) is for kproxy. `names` are known, ANY among them all.

    - none: HTTP/1.0 and programs; browsers always send one
    - an IP address: nobody's name can lead there in its place
    - a name without a dot: localhost, services in Docker and Kubernetes; no site has one
    """
    name = _without_port(host.strip().lower())
    if not name or ANY in names or name in {known.lower() for known in names}:
        return True
    if "." not in name and ":" not in name:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def is_loopback(peer: str) -> bool:
    """Whether a peer's IP address ("": unknown) is one that only this machine has, also as IPv6 writes IPv4's."""
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
