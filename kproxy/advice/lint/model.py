"""What is linted: brokers with their listeners, clients, and the networks between them (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind, parse_endpoints
from kproxy.advice.lint.source import SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue

_MOST_SERVERS = 1000
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ImageFamily(Enum):
    """Whose image or file it is: it decides the names of variables, and the defaults."""

    PROPERTIES = "server.properties"
    APACHE = "apache/kafka"
    CONFLUENT = "Confluent's"
    CONFLUENT_LOCAL = "confluent-local"
    BITNAMI = "Bitnami's"
    WURSTMEISTER = "wurstmeister's"


@dataclass(frozen=True, slots=True)
class PublishedPort:
    """One published port of a container. A port is None if Docker or a variable chooses it."""

    host_ip: str
    host_port: int | None
    container_port: int | None
    value: ConfigValue
    is_single: bool = True
    """Whether its text has this one port, and not a range."""

    @property
    def is_loopback_only(self) -> bool:
        return host_kind(self.host_ip) is HostKind.LOOPBACK


@dataclass(frozen=True, slots=True)
class ComposeService:
    """A service of a Compose file."""

    name: str
    location: SourceLocation
    image: ConfigValue | None
    names: frozenset[str]
    networks: frozenset[str]
    uses_host_network: bool
    published_ports: tuple[PublishedPort, ...]
    environment: Mapping[str, ConfigValue]
    count: int = 1

    def shares_network_with(self, other: ComposeService) -> bool:
        return self.location.source is other.location.source and (
            bool(self.networks & other.networks) or (self.uses_host_network and other.uses_host_network)
        )


@dataclass(eq=False)  # without slots: it keeps what it has worked out
class BrokerConfig:
    """One Kafka node: the properties that it is started with, and where."""

    name: str
    family: ImageFamily
    location: SourceLocation
    settings: Mapping[str, ConfigValue]
    defaults: Mapping[str, str] = field(default_factory=dict)
    service: ComposeService | None = None
    version: tuple[int, int] | None = None
    kraft_only: bool = False
    complete: bool = True
    """Whether all its settings are known: no mounted file, no env_file."""

    def get(self, key: str) -> str:
        """The effective text of a setting; empty if it has none."""
        if key in self.settings:
            return self.settings[key].text
        return self.defaults.get(key, "")

    def names(self, key: str) -> list[str]:
        return [part.strip().upper() for part in self.get(key).split(",") if part.strip()]

    def variable_for(self, key: str) -> str:
        """How this setting is written where the broker is configured."""
        if self.family is ImageFamily.PROPERTIES:
            return key
        prefix = "KAFKA_CFG_" if self.family is ImageFamily.BITNAMI else "KAFKA_"
        return prefix + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()

    @cached_property
    def roles(self) -> list[str]:
        return [role.strip() for role in self.get("process.roles").split(",") if role.strip()]

    @property
    def is_broker(self) -> bool:
        return not self.roles or "broker" in self.get("process.roles").lower()

    @property
    def is_controller(self) -> bool:
        return "controller" in self.get("process.roles").lower()

    @property
    def node_id(self) -> str:
        return self.get("node.id") or self.get("broker.id")

    @cached_property
    def listeners(self) -> list[ListenerEndpoint]:
        """Where it listens. An image may make this of what it advertises."""
        if "listeners" in self.settings:
            return parse_endpoints(self.settings["listeners"])[0]
        if self.listeners_derived:
            found = parse_endpoints(self.settings["advertised.listeners"])[0]
            return [ListenerEndpoint(e.with_host("0.0.0.0"), e.index, e.name, "0.0.0.0", e.port) for e in found]
        return parse_endpoints(self.defaults.get("listeners", "PLAINTEXT://:9092"))[0]

    @property
    def listeners_derived(self) -> bool:
        return (
            self.family in (ImageFamily.APACHE, ImageFamily.CONFLUENT)
            and "listeners" not in self.settings
            and "advertised.listeners" in self.settings
        )

    @cached_property
    def advertised(self) -> list[ListenerEndpoint]:
        """What it advertises: its listeners if nothing else is said."""
        if "advertised.listeners" in self.settings:
            return parse_endpoints(self.settings["advertised.listeners"])[0]
        if "advertised.listeners" in self.defaults:
            return parse_endpoints(self.defaults["advertised.listeners"])[0]
        return [one for one in self.listeners if one.name not in self.controller_names]

    @property
    def client_endpoints(self) -> list[ListenerEndpoint]:
        """What it advertises, without the controllers' listeners."""
        return [one for one in self.advertised if one.name not in self.controller_names] if self.is_broker else []

    def listener(self, name: str) -> ListenerEndpoint | None:
        return next((one for one in self.listeners if one.name == name), None)

    def advertised_endpoint(self, name: str) -> ListenerEndpoint | None:
        return next((one for one in self.advertised if one.name == name), None)

    @cached_property
    def controller_names(self) -> list[str]:
        return self.names("controller.listener.names")

    @cached_property
    def protocol_map(self) -> dict[str, str]:
        """Name to protocol, as the broker would have it. A given map replaces Kafka's own."""
        text = self.get("listener.security.protocol.map")
        if text:
            pairs = (part.strip().partition(":") for part in text.split(","))
            return {name.strip().upper(): protocol.strip().upper() for name, sign, protocol in pairs if sign}
        own = {name: name for name in PROTOCOLS}
        if all(one.name in ("PLAINTEXT", *self.controller_names) for one in self.listeners):
            own |= dict.fromkeys(self.controller_names, "PLAINTEXT")
        return own

    def protocol(self, name: str) -> str:
        """The protocol of a listener; empty if it has none or a variable decides it."""
        found = self.protocol_map.get(name, "")
        return found if found in PROTOCOLS else ""

    @property
    def inter_broker(self) -> str:
        """The name of the listener between brokers."""
        name = self.get("inter.broker.listener.name")
        return name.upper() if name else (self.get("security.inter.broker.protocol") or "PLAINTEXT").upper()

    @cached_property
    def voters(self) -> list[tuple[str, str]]:
        """Node id and HOST:PORT of each voter."""
        pairs = (part.strip().partition("@") for part in self.get("controller.quorum.voters").split(","))
        return [(node, address) for node, sign, address in pairs if sign]

    def mechanisms(self, listener: str) -> list[str]:
        """The SASL mechanisms of a listener; none if nothing is said of them."""
        own = f"listener.name.{listener.lower()}.sasl.enabled.mechanisms"
        return self.names(own) or self.names("sasl.enabled.mechanisms")


class ClientPlacement(Enum):
    """Where a client runs."""

    CONTAINER = "in a container of the Compose file"
    ANYWHERE = "anywhere"  # a file of properties does not say


@dataclass(frozen=True, slots=True)
class BootstrapServer:
    """One bootstrap server of a client."""

    host: str
    port: int | None
    text: str
    index: int
    value: ConfigValue


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Something that connects to brokers."""

    name: str
    location: SourceLocation
    placement: ClientPlacement
    servers: tuple[BootstrapServer, ...]
    settings: Mapping[str, ConfigValue]
    """Its properties by Kafka's names, whatever stands before them in the file."""
    service: ComposeService | None = None

    def get(self, key: str) -> str:
        return self.settings[key].text if key in self.settings else ""

    @property
    def protocol(self) -> str:
        return (self.get("security.protocol") or "PLAINTEXT").upper()


@dataclass(slots=True)
class Setup:
    """Everything in the files that were given."""

    sources: list[SourceFile]
    brokers: list[BrokerConfig] = field(default_factory=list)
    clients: list[ClientConfig] = field(default_factory=list)
    services: list[ComposeService] = field(default_factory=list)
    clusters: list[object] = field(default_factory=list)
    """What operators make brokers of: `operators.Cluster`."""
    unchecked: list[str] = field(default_factory=list)
    """What was not checked, and why."""
    advertise: str = ""
    """The host by which clients reach the brokers, if the user has said so."""

    def add_unchecked(self, text: str) -> None:
        if text not in self.unchecked:
            self.unchecked.append(text)


def parse_servers(value: ConfigValue) -> list[BootstrapServer]:
    """The addresses of a list of bootstrap servers; what is none is left out."""
    found = []
    for index, entry in enumerate(value.entries[:_MOST_SERVERS]):
        address = entry.rpartition("://")[2]
        match = re.fullmatch(r"(\[[^\]]*\]|[^\[\]:/\s]+):(\d{1,5}|[^:/\s]*\{[^}]*\})", address)
        if match is not None:
            port = int(match[2]) if match[2].isdigit() else None
            found.append(BootstrapServer(match[1].strip("[]"), port, entry, index, value))
    return found
