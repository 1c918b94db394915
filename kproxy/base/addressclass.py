"""The class of an advertised address, by its form: localhost, a container's name, a private address. Pure."""

from __future__ import annotations

import ipaddress
import re
from enum import Enum

# Docker's: the first twelve digits of a container's id are its host name.
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}")
_KUBERNETES = re.compile(r"\.svc(\.|$)|\.pod(\.|$)|\.cluster\.local\.?$|\.local\.svc")
# As /etc/hosts of Linux distributions has them; the domain alone is also given to other machines.
_LOCALHOST = frozenset(("localhost", "localhost.localdomain", "localhost4", "localhost6", "localhost6.localdomain6"))
# RFC 1918, 3927, 6598, 2544, 4193, 4291. The ranges for examples in documents are in no network.
_PRIVATE = tuple(
    ipaddress.ip_network(network)
    for network in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "fc00::/7",
        "fe80::/10",
    )
)  # fmt: skip


class AddressClass(Enum):
    """The networks in which an address is valid."""

    LOOPBACK = "each machine itself"
    WILDCARD = "every interface"
    CONTAINER = "a container network"
    KUBERNETES = "a Kubernetes cluster"
    PRIVATE = "a private network"
    SHORT_NAME = "a local network"
    PUBLIC = "everywhere"


def classify(host: str) -> AddressClass:
    """Return where this host, a name or an IP address, is valid."""
    name = host.lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return _place_of_name(name)
    if address.is_unspecified:
        return AddressClass.WILDCARD
    if address.is_loopback:
        return AddressClass.LOOPBACK
    if is_private(str(address)):
        return AddressClass.PRIVATE
    return AddressClass.PUBLIC


def is_private(address: str) -> bool:
    """Return True if an IP address is valid in its own network only (RFC 1918, 4193, 6598, link-local)."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return any((mapped or ip) in network for network in _PRIVATE)


def is_loopback(address: str) -> bool:
    """Return True if an IP address or name is the machine itself, as far as its form tells."""
    return classify(address) is AddressClass.LOOPBACK


def is_this_machine(host: str) -> bool:
    """Return True if this host is certainly this machine: localhost, or an IP address of the loopback interface.

    An IPv4 address may be written as one of IPv6. Other names may lead elsewhere, whatever they look like.
    """
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _place_of_name(name: str) -> AddressClass:
    if name in _LOCALHOST or name.endswith(".localhost"):
        return AddressClass.LOOPBACK
    if _CONTAINER_ID.fullmatch(name) or name == "host.docker.internal":
        return AddressClass.CONTAINER
    if _KUBERNETES.search(name):
        return AddressClass.KUBERNETES
    return AddressClass.SHORT_NAME if "." not in name else AddressClass.PUBLIC
