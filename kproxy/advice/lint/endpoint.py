"""The entries of `listeners` and `advertised.listeners`, and what a host in an address is (pure)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from enum import Enum

from kproxy.advice.lint.value import ConfigValue

_MOST = 100
_ENTRY = re.compile(
    r"(?P<name>[^:/\s]+)://(?P<host>\[[^\]]*\]|[^\[\]:/\s]*):(?P<port>\d{1,5}|[^:/\s]*\{[^}]*\}[^:/\s]*)"
)


class HostKind(Enum):
    """What a host in an address is."""

    EMPTY = "empty"
    WILDCARD = "wildcard"
    LOOPBACK = "loopback"
    IP = "ip"
    NAME = "name"
    UNKNOWN = "unknown"  # a variable that has no value here


def host_kind(host: str) -> HostKind:
    """What this host is, without asking a resolver."""
    bare = host.strip("[]").partition("%")[0].lower()
    if not bare:
        return HostKind.EMPTY
    if "{" in bare or "$" in bare:
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
    """One entry of `listeners` or `advertised.listeners`. `port` is None if a variable decides it."""

    text: str
    index: int
    name: str
    host: str
    port: int | None
    value: ConfigValue | None = None
    """None for an image's own default."""

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
    """The endpoints of a list, and the entries that are none, with their index."""
    # Nobody has a hundred listeners; each is compared with each.
    entries = value.entries if isinstance(value, ConfigValue) else value.split(",")
    found: list[ListenerEndpoint] = []
    wrong: list[tuple[int, str]] = []
    for index, entry in enumerate(entries[:_MOST]):
        match = _ENTRY.fullmatch(entry)
        port = match["port"] if match else ""
        if match is None or (port.isdigit() and int(port) > 65535):
            wrong.append((index, entry))
            continue
        given = value if isinstance(value, ConfigValue) else None
        number = int(port) if port.isdigit() else None
        found.append(ListenerEndpoint(entry, index, match["name"].upper(), match["host"], number, given))
    return found, wrong
