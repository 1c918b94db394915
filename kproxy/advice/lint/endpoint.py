"""Entries of `listeners` and `advertised.listeners`, and the kinds of hosts in them (pure)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from enum import Enum

from kproxy.advice.lint.value import ConfigValue

_MAX_ENTRIES = 100
_ENTRY = re.compile(
    r"(?P<name>[^:/\s]+)://(?P<host>\[[^\]]*\]|[^\[\]:/\s]*):(?P<port>\d{1,5}|[^:/\s]*\{[^}]*\}[^:/\s]*)"
)


class HostKind(Enum):
    """The kind of a host in an address."""

    EMPTY = "empty"
    WILDCARD = "wildcard"
    LOOPBACK = "loopback"
    IP = "ip"
    NAME = "name"
    UNKNOWN = "unknown"  # a variable that has no value here


def host_kind(host: str) -> HostKind:
    """Classify a host without asking a resolver."""
    bare = host.strip("[]").partition("%")[0].lower()
    if not bare:
        return HostKind.EMPTY
    if any(sign in bare for sign in "{$<"):
        return HostKind.UNKNOWN
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return HostKind.LOOPBACK if bare == "localhost" or bare.endswith(".localhost") else HostKind.NAME
    if address.is_unspecified:
        return HostKind.WILDCARD
    return HostKind.LOOPBACK if address.is_loopback else HostKind.IP


@dataclass(frozen=True, slots=True)
class ListenerEndpoint:
    """One entry of `listeners` or `advertised.listeners`."""

    text: str
    index: int
    name: str
    host: str
    port: int | None
    """None if a variable decides it."""
    value: ConfigValue | None = None
    """None for a default of the image."""

    @property
    def kind(self) -> HostKind:
        return host_kind(self.host)

    def with_host(self, host: str) -> str:
        shown = f"[{host}]" if ":" in host else host
        return f"{self.name}://{shown}:{self.port_text}"

    @property
    def port_text(self) -> str:
        return self.text.rpartition(":")[2]


def parse_endpoints(value: ConfigValue | str) -> tuple[list[ListenerEndpoint], list[tuple[int, str]]]:
    """Return the endpoints of a list, and each invalid entry with its index."""
    # Endpoints are compared pairwise, so their number is bounded.
    entries = value.entries if isinstance(value, ConfigValue) else value.split(",")
    endpoints: list[ListenerEndpoint] = []
    invalid: list[tuple[int, str]] = []
    for index, entry in enumerate(entries[:_MAX_ENTRIES]):
        match = _ENTRY.fullmatch(entry)
        port = match["port"] if match else ""
        if match is None or (port.isdigit() and int(port) > 65535):
            invalid.append((index, entry))
            continue
        owner = value if isinstance(value, ConfigValue) else None
        number = int(port) if port.isdigit() else None
        endpoints.append(ListenerEndpoint(entry, index, match["name"].upper(), match["host"], number, owner))
    return endpoints, invalid
