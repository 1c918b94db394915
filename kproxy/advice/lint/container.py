"""A container as a file describes it: its names, networks, published ports and variables (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kproxy.advice.lint.endpoint import HostKind, host_kind
from kproxy.advice.lint.source import SourceLocation
from kproxy.advice.lint.value import ConfigValue


@dataclass(frozen=True, slots=True)
class PublishedPort:
    """One published port of a container. A port is None if Docker or a variable chooses it."""

    host_ip: str
    host_port: int | None
    container_port: int | None
    value: ConfigValue
    is_single: bool = True
    """True if its text has this one port, and not a range."""

    @property
    def is_random(self) -> bool:
        """True if Docker chooses the port of the host at each start."""
        return self.host_port is None and self.container_port is not None and "{" not in self.value.text

    @property
    def is_loopback_only(self) -> bool:
        return host_kind(self.host_ip) is HostKind.LOOPBACK


class Platform(Enum):
    """The program that starts a container."""

    COMPOSE = "Docker Compose"
    KUBERNETES = "Kubernetes"


@dataclass(frozen=True, slots=True)
class Container:
    """A container as a file describes it: a service of Docker Compose, or one of the pods of a workload."""

    name: str
    location: SourceLocation
    image: ConfigValue | None
    names: frozenset[str]
    networks: frozenset[str]
    uses_host_network: bool
    published_ports: tuple[PublishedPort, ...]
    environment: Mapping[str, ConfigValue]
    platform: Platform = Platform.COMPOSE
    addresses: frozenset[str] = frozenset()
    """Its own IP addresses, as far as they are set."""
    is_complete: bool = True
    """True if all its variables are known: they are in the file itself, and its image's own program starts."""
    depends_on: frozenset[str] = frozenset()
    """The services that start before it."""
    has_extra_hosts: bool = False
    """True if the file gives it addresses for further names."""
    has_docker_socket: bool = False
    """True if it can ask Docker, for example at which port of the host it is published."""
    linked_services: frozenset[str] = frozenset()
    """The Services of Kubernetes for which the container gets variables."""

    def has_name(self, host: str) -> bool:
        return host.lower() in {name.lower() for name in self.names}

    def may_be_named(self, host: str) -> bool:
        """Check for the name that Compose makes: PROJECT-SERVICE-NUMBER, with underscores before its version 2."""
        made = rf".+([-_]){re.escape(self.name.lower())}\1\d+"
        return self.platform is Platform.COMPOSE and bool(re.fullmatch(made, host.lower()))

    def shares_network_with(self, other: Container) -> bool:
        if Platform.KUBERNETES in (self.platform, other.platform):
            return self.platform is other.platform
        return self.location.source is other.location.source and (
            bool(self.networks & other.networks) or (self.uses_host_network and other.uses_host_network)
        )
