"""The set-up to lint: brokers with their listeners, clients, and the networks between them (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from kproxy.advice.lint.client import ClientConfig
from kproxy.advice.lint.container import Container, PublishedPort
from kproxy.advice.lint.endpoint import ListenerEndpoint, parse_endpoints
from kproxy.advice.lint.source import Edit, SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ImageFamily(Enum):
    """The maker of an image, or a plain file. It decides the names of variables and the defaults."""

    PROPERTIES = "server.properties"
    APACHE = "apache/kafka"
    CONFLUENT = "Confluent's"
    CONFLUENT_LOCAL = "confluent-local"
    BITNAMI = "Bitnami's"
    WURSTMEISTER = "wurstmeister's"
    OTHER = "another image"  # which reads KAFKA_ variables, as far as the file shows
    REDPANDA = "Redpanda"


@dataclass(eq=False)  # without slots, because cached properties need a __dict__
class BrokerConfig:
    """One Kafka node and its settings."""

    name: str
    family: ImageFamily
    location: SourceLocation
    settings: Mapping[str, ConfigValue]
    defaults: Mapping[str, str] = field(default_factory=dict)
    container: Container | None = None
    version: tuple[int, int] | None = None
    kraft_only: bool = False
    complete: bool = True
    """True if all its settings are known: no mounted file, no env_file."""
    environment: Mapping[str, ConfigValue] = field(default_factory=dict)
    """The variables of its container; none for a file of properties."""
    layout: LineLayout = LineLayout.PROPERTY
    """The layout of the lines of its settings."""
    copies: int = 1
    """The number of nodes that are made from these settings."""

    def get(self, key: str) -> str:
        """Return the effective value of a setting; empty if it has none.

        Images write their variables into a file of properties, which has no space at the beginning of a value.
        """
        if key in self.settings:
            return self.settings[key].text.lstrip()
        return self.defaults.get(key, "")

    def names(self, key: str) -> list[str]:
        return [part.strip().upper() for part in self.get(key).split(",") if part.strip()]

    def variable_for(self, key: str) -> str:
        """Return the name of this setting where the broker is configured: a property or a variable."""
        if self.family in (ImageFamily.PROPERTIES, ImageFamily.REDPANDA):
            return key
        prefix = "KAFKA_CFG_" if self.family is ImageFamily.BITNAMI else "KAFKA_"
        return prefix + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()

    def line(self, key: str, text: str) -> str:
        """Return the line for a setting where no other line shows the layout."""
        name = self.variable_for(key)
        if self.family is ImageFamily.REDPANDA:
            listener, _, address = text.partition("://")
            host, _, port = address.rpartition(":")
            return f"advertised_kafka_api: [{{name: {listener.lower()}, address: {host}, port: {port}}}]"
        if self.layout is LineLayout.ENTRY:
            return f'- {{name: {name}, value: "{text}"}}'
        return f"{name}={text}" if self.layout is LineLayout.PROPERTY else f"{name}: {text}"

    def set_or_add(self, key: str, text: str, *beside: str) -> list[Edit] | None:
        """Return edits that change a setting, or add it after one of the settings `beside`; None if none can."""
        if key in self.settings:
            return self.settings[key].replace(text)
        added = (
            self.settings[other].insert_after([(self.variable_for(key), text)])
            for other in beside
            if other in self.settings
        )
        return next((edits for edits in added if edits is not None), None)

    def first_setting(self, *keys: str) -> ConfigValue | SourceLocation:
        """Return the first of these settings that is configured; without any, the location of the broker."""
        return next((self.settings[key] for key in keys if key in self.settings), self.location)

    @property
    def container_names(self) -> frozenset[str]:
        """The names that other containers have for this one; none outside of a container."""
        return self.container.names if self.container else frozenset()

    def published(self, listener: ListenerEndpoint | None) -> list[PublishedPort]:
        """Return the published ports that lead to this listener."""
        ports = self.container.published_ports if self.container and listener and listener.port else ()
        return [port for port in ports if listener and port.container_port == listener.port]

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
        """The entries of `listeners`. Some images derive them from `advertised.listeners`."""
        if "listeners" in self.settings:
            return parse_endpoints(self.settings["listeners"])[0]
        if self.listeners_derived:
            entries = parse_endpoints(self.settings["advertised.listeners"])[0]
            return [
                ListenerEndpoint(endpoint.with_host("0.0.0.0"), endpoint.index, endpoint.name, "0.0.0.0", endpoint.port)
                for endpoint in entries
            ]
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
        """The entries of `advertised.listeners`; without this setting, what Kafka advertises instead."""
        value = self.settings.get("advertised.listeners") or self.defaults.get("advertised.listeners")
        if value is None and self.takes_advertised_host and (host := self.settings.get("advertised.host.name")):
            # wurstmeister's image asks Docker for the port, if it can.
            asks = self.container is not None and self.container.has_docker_socket
            port = self.get("advertised.port") or ("{docker port}" if asks else self.get("port") or "9092")
            value = replace(host, text=f"PLAINTEXT://{host.text}:{port}", style=ValueStyle.FIXED)
        return parse_endpoints(value)[0] if value is not None else self.for_clients(self.listeners)

    @property
    def takes_advertised_host(self) -> bool:
        """True if the broker still has `advertised.host.name`, which Kafka 3.0 has removed."""
        version = self.version
        return version < (3, 0) if version is not None else self.family is ImageFamily.WURSTMEISTER

    @property
    def client_endpoints(self) -> list[ListenerEndpoint]:
        """The advertised endpoints without the controllers' listeners."""
        return self.for_clients(self.advertised) if self.is_broker else []

    def for_clients(self, endpoints: Iterable[ListenerEndpoint]) -> list[ListenerEndpoint]:
        """Return the endpoints that are not the controllers'."""
        return [endpoint for endpoint in endpoints if endpoint.name not in self.controller_names]

    def listener(self, name: str) -> ListenerEndpoint | None:
        return next((endpoint for endpoint in self.listeners if endpoint.name == name), None)

    def advertised_endpoint(self, name: str) -> ListenerEndpoint | None:
        return next((endpoint for endpoint in self.advertised if endpoint.name == name), None)

    @cached_property
    def controller_names(self) -> list[str]:
        return self.names("controller.listener.names")

    @cached_property
    def protocol_map(self) -> dict[str, str]:
        """Protocols by listener name. A configured map replaces Kafka's default."""
        text = self.get("listener.security.protocol.map")
        if text:
            pairs = (part.strip().partition(":") for part in text.split(","))
            return {name.strip().upper(): protocol.strip().upper() for name, sign, protocol in pairs if sign}
        default_map = {name: name for name in PROTOCOLS}
        if all(endpoint.name in ("PLAINTEXT", *self.controller_names) for endpoint in self.listeners):
            default_map |= dict.fromkeys(self.controller_names, "PLAINTEXT")
        return default_map

    def protocol(self, name: str) -> str:
        """Return the protocol of a listener; empty if it has none or a variable decides it."""
        protocol = self.protocol_map.get(name, "")
        return protocol if protocol in PROTOCOLS else ""

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
        """Return the SASL mechanisms of a listener; none if they are not configured."""
        key = f"listener.name.{listener.lower()}.sasl.enabled.mechanisms"
        return self.names(key) or self.names("sasl.enabled.mechanisms")


@dataclass(slots=True)
class Setup:
    """The content of all files that were given."""

    sources: list[SourceFile]
    brokers: list[BrokerConfig] = field(default_factory=list)
    clients: list[ClientConfig] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    clusters: list[object] = field(default_factory=list)
    """The resources of operators: `operators.OperatorCluster`."""
    external_access: list[object] = field(default_factory=list)
    """The external access of each chart: `helmvalues.ExternalAccess`."""
    unchecked: list[str] = field(default_factory=list)
    """The settings that were not checked, and why."""
    interpolated: list[Mapping[str, ConfigValue]] = field(default_factory=list)
    """The variables in whose values Docker Compose replaces others."""
    jaas_files: list[SourceFile] = field(default_factory=list)
    advertise: str = ""
    """The host by which clients reach the brokers; empty if the user has not named it."""

    def leads_to(self, host: str, container: Container) -> bool:
        """Check whether a name is a container's in its network. A name that a file gives wins over a made one."""
        if container.has_name(host):
            return True
        return container.may_be_named(host) and not any(other.has_name(host) for other in self.containers)

    def add_unchecked(self, text: str) -> None:
        if text not in self.unchecked:
            self.unchecked.append(text)
