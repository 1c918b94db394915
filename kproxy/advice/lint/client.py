"""A client as a file describes it: its bootstrap servers and settings (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kproxy.advice.lint.container import Container
from kproxy.advice.lint.source import SourceLocation
from kproxy.advice.lint.value import ConfigValue

_MOST_SERVERS = 1000


@dataclass(frozen=True, slots=True)
class BootstrapServer:
    """One bootstrap server of a client."""

    host: str
    port: int | None
    text: str
    index: int
    value: ConfigValue


class ClientLibrary(Enum):
    """The library that reads a client's settings: it decides their names."""

    JAVA = "Java"
    LIBRDKAFKA = "librdkafka"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """A client and its settings."""

    name: str
    location: SourceLocation
    servers: tuple[BootstrapServer, ...]
    settings: Mapping[str, ConfigValue]
    """Its properties by Kafka's names, without the prefixes of the file."""
    container: Container | None = None
    """The container that it runs in; None if the file does not show where it runs."""
    library: ClientLibrary = ClientLibrary.UNKNOWN
    complete: bool = True
    """True if the client has no other settings than these, so that a missing protocol is PLAINTEXT."""
    is_worker: bool = False
    """True for a worker of Kafka Connect."""
    servers_misspelt: bool = False
    """True if its program does not know the name of the setting with its bootstrap servers."""

    def get(self, key: str) -> str:
        return self.settings[key].text if key in self.settings else ""

    @property
    def protocol(self) -> str:
        return (self.get("security.protocol") or "PLAINTEXT").upper()


def parse_servers(value: ConfigValue) -> list[BootstrapServer]:
    """Return the addresses of a list of bootstrap servers, without invalid ones."""
    servers = []
    for index, entry in enumerate(value.entries[:_MOST_SERVERS]):
        address = entry.rpartition("://")[2]
        match = re.fullmatch(r"(\[[^\]]*\]|[^\[\]:/\s]+):(\d{1,5}|[^:/\s]*\{[^}]*\})", address)
        if match is not None:
            port = int(match[2]) if match[2].isdigit() else None
            servers.append(BootstrapServer(match[1].strip("[]"), port, entry, index, value))
    return servers
