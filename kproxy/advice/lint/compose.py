"""Docker Compose files: services, their networks, ports and variables, and the brokers and clients among them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

import yaml

from kproxy.advice.lint import images
from kproxy.advice.lint.model import (
    BrokerConfig,
    ClientConfig,
    ClientPlacement,
    ComposeService,
    ImageFamily,
    PublishedPort,
    Setup,
    parse_servers,
)
from kproxy.advice.lint.tree import YamlTree
from kproxy.advice.lint.value import ConfigValue
from kproxy.advice.lint.variables import interpolate

# Services are compared pairwise, so their number is bounded.
_MOST_SERVICES, _MOST_PORTS, _LONGEST_RANGE = 200, 1000, 1000
_HELPERS = ("zookeeper", "schema-registry", "-ui", "connect", "rest", "ksql", "control-center", "exporter", "init")
_BOOTSTRAP = re.compile(
    r"(?:.*_)?(BOOTSTRAP_?SERVERS?|BOOTSTRAP|BROKERS?|BROKER_?LIST|BROKER_?CONNECT|BROKER_?URLS?|KAFKA_HOSTS?)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?:[A-Z_]+://)?(?:\[[^\]]*\]|[^\[\]:/\s,]+):\d{1,5}(?:,.*)?", re.DOTALL)
# The directories from which images read further settings.
_MOUNTED = {ImageFamily.APACHE: "/mnt/shared/config", ImageFamily.BITNAMI: "/bitnami/kafka/config"}


def add_services(tree: YamlTree, root: yaml.Node, variables: Mapping[str, str], setup: Setup) -> None:
    """Add the services of one Compose file to the setup."""
    reading = _ServiceReader(tree, variables, setup)
    services = tree.mapping(tree.get(root, "services"))
    if len(services) > _MOST_SERVICES:
        setup.add_unchecked(f"{tree.source.name}: all but the first {_MOST_SERVICES} services")
    for name, (key, node) in islice(services.items(), _MOST_SERVICES):
        reading.add_service(name, key, node)


class _ServiceReader:
    def __init__(self, tree: YamlTree, variables: Mapping[str, str], setup: Setup) -> None:
        self.tree = tree
        self.variables = variables
        self.setup = setup

    def interpolate(self, text: str) -> str:
        return interpolate(text, self.variables)

    def add_service(self, name: str, key: yaml.Node, node: yaml.Node) -> None:
        tree = self.tree
        environment = self.parse_environment(tree.get(node, "environment"))
        mode = self.interpolate(tree.text(node, "network_mode") or "")
        networks, aliases = self.parse_networks(node, mode, name)
        image = tree.get(node, "image")
        names = {name, *aliases}
        names |= {self.interpolate(tree.text(node, word) or "") for word in ("container_name", "hostname")} - {""}
        published = [port for item in tree.items(tree.get(node, "ports")) for port in self.parse_ports(item)]
        service = ComposeService(
            name=name,
            location=tree.location(key),
            image=None if image is None else tree.value(image, read=self.interpolate),
            names=frozenset(names),
            networks=frozenset(networks),
            uses_host_network=mode == "host",
            published_ports=tuple(published[:_MOST_PORTS]),
            environment=environment,
            count=self.replica_count(node),
        )
        self.setup.services.append(service)
        if tree.get(node, "extends") is not None:
            self.setup.add_unchecked(f"{tree.source.name}: service {name}: what it takes from 'extends'")
        if not self.add_broker(service, node):
            self.add_clients(service)

    def replica_count(self, node: yaml.Node) -> int:
        for path in (("deploy", "replicas"), ("scale",)):
            text = self.interpolate(self.tree.text(node, *path) or "")
            if text.isdigit():
                return int(text)
        return 1

    def parse_environment(self, node: yaml.Node | None) -> dict[str, ConfigValue]:
        values = [self.tree.value(value, key, self.interpolate) for key, value in self.tree.mapping(node).values()]
        pairs = (self.tree.pair(item, self.interpolate) for item in self.tree.items(node))
        return {value.key: value for value in (*values, *(pair for pair in pairs if pair is not None))}

    def parse_networks(self, node: yaml.Node, mode: str, name: str) -> tuple[set[str], set[str]]:
        """Return the networks of a service, and its aliases there."""
        names, tree = network_names(self.tree, node), self.tree
        aliases = {
            alias.value
            for _, value in tree.mapping(tree.get(node, "networks")).values()
            for alias in tree.items(tree.get(value, "aliases"))
            if isinstance(alias, yaml.ScalarNode)
        }
        if mode.startswith(("service:", "container:")):
            self.setup.add_unchecked(f"{tree.source.name}: service {name}: its network is that of another container")
        if mode in ("host", "none") or mode.startswith(("service:", "container:")):
            return set(), aliases
        return names or {"default"}, aliases

    def parse_ports(self, item: yaml.Node) -> list[PublishedPort]:
        if isinstance(item, yaml.MappingNode):
            return self.parse_long_ports(item)
        value = self.tree.value(item, read=self.interpolate)
        return parse_short_ports(value)

    def parse_long_ports(self, item: yaml.MappingNode) -> list[PublishedPort]:
        tree = self.tree
        target, node = self.interpolate(tree.text(item, "target") or ""), tree.get(item, "published")
        pair = tree.mapping(item).get("published") or tree.mapping(item).get("target")
        if pair is None or not (target.isdigit() or "{" in target):
            return []
        value = tree.value(pair[1], pair[0], self.interpolate)
        host = self.interpolate(tree.text(item, "published") or "") if node is not None else ""
        return [
            PublishedPort(
                self.interpolate(tree.text(item, "host_ip") or ""),
                int(host) if host.isdigit() and int(host) else None,
                int(target) if target.isdigit() else None,
                value,
            )
        ]

    def add_broker(self, service: ComposeService, node: yaml.Node) -> bool:
        """Add the broker that a service runs; return False if the service is no broker."""
        where = f"{self.tree.source.name}: service {service.name}"
        listening = [
            word for word in service.environment if re.fullmatch(r"KAFKA_(CFG_)?(ADVERTISED_)?LISTENERS", word)
        ]
        reference = service.image.text if service.image else ""
        if "{" in reference.partition(":")[0]:
            if listening:
                self.setup.add_unchecked(f"{where}: its image is {reference}, which has no value here")
            return bool(listening)
        image = images.recognise_image(reference)
        if image is None:
            if listening and not any(word in service.name for word in _HELPERS):
                what = f"its image {reference} is not one that kproxy knows" if reference else "it has no image"
                self.setup.add_unchecked(f"{where}: {what}")
                return True
            return False
        if not listening and self.has_command(node) and not any(w.startswith("KAFKA_") for w in service.environment):
            return False  # a container for Kafka's tools
        settings: dict[str, ConfigValue] = {}
        for word, value in service.environment.items():
            name = images.property_name(image.family, word)
            if name and not (name in settings and word.startswith("KAFKA_CFG_") is False):
                settings[name] = value
        complete = not self.has_external_settings(node, image.family, where)
        self.setup.brokers.append(
            BrokerConfig(
                name=service.name,
                family=image.family,
                location=service.location,
                settings=settings,
                defaults=images.defaults(image.family, settings) if complete else {},
                service=service,
                version=image.version,
                kraft_only=image.kraft_only,
                complete=complete,
            )
        )
        return True

    def has_command(self, node: yaml.Node) -> bool:
        return self.tree.get(node, "command") is not None or self.tree.get(node, "entrypoint") is not None

    def has_external_settings(self, node: yaml.Node, family: ImageFamily, where: str) -> bool:
        """Check whether some settings are in files that kproxy has not been given."""
        tree = self.tree
        sources = []
        if tree.get(node, "env_file") is not None:
            sources.append("env_file")
        targets = [item.value for item in tree.items(tree.get(node, "volumes")) if isinstance(item, yaml.ScalarNode)]
        targets += [tree.text(item, "target") or "" for item in tree.items(tree.get(node, "volumes"))]
        if any(_MOUNTED.get(family, "server.properties") in target for target in targets):
            sources.append("a mounted file")
        if sources:
            self.setup.add_unchecked(f"{where}: the settings in {' and '.join(sources)}")
        return bool(sources) or tree.get(node, "extends") is not None

    def add_clients(self, service: ComposeService) -> None:
        """Add a client for each variable of a service that names bootstrap servers."""
        for word, value in service.environment.items():
            if _BOOTSTRAP.fullmatch(word) and _ADDRESS.fullmatch(value.text.strip()) and parse_servers(value):
                protocol = self.protocol_variable(service, word)
                settings = {"security.protocol": protocol} if protocol is not None else {}
                name = f"service {service.name}"
                servers = tuple(parse_servers(value))
                self.setup.clients.append(
                    ClientConfig(name, value.location, ClientPlacement.CONTAINER, servers, settings, service)
                )

    def protocol_variable(self, service: ComposeService, word: str) -> ConfigValue | None:
        """Return the variable with the security protocol that belongs to a variable with bootstrap servers."""
        prefix = re.sub(r"(?i)_?BOOTSTRAP_?SERVERS?$", "", word)
        candidates = (service.environment.get(f"{prefix}_{end}") for end in ("SECURITY_PROTOCOL", "SECURITYPROTOCOL"))
        return next((candidate for candidate in candidates if candidate is not None), None)


def network_names(tree: YamlTree, node: yaml.Node) -> set[str]:
    networks = tree.get(node, "networks")
    return {
        *tree.mapping(networks),
        *(item.value for item in tree.items(networks) if isinstance(item, yaml.ScalarNode)),
    }


_PORT = re.compile(
    r"(?:(?P<ip>\[[^\]]+\]|[^:\[\]]*(?:\{[^}]*\})?|[0-9a-fA-F:]+):)?(?P<host>[^:]*):(?P<inside>[^:/]+)(?:/\w+)?"
)


def parse_short_ports(value: ConfigValue) -> list[PublishedPort]:
    """Parse the short syntax `[IP:][HOST:]CONTAINER[/PROTOCOL]`; each port may be a range."""
    text = value.text.strip()
    if text.endswith("/udp"):
        return []
    match = _PORT.fullmatch(text)
    if match is None:
        inside = _parse_port_range(text.partition("/")[0])
        return [PublishedPort("", None, port, value, len(inside) == 1) for port in inside]
    ip, host, inside = (
        (match["ip"] or "").strip("[]"),
        _parse_port_range(match["host"]),
        _parse_port_range(match["inside"]),
    )
    if len(host) == len(inside):
        return [PublishedPort(ip, *pair, value, len(host) == 1) for pair in zip(host, inside, strict=True)]
    return [PublishedPort(ip, None, port, value, False) for port in inside]


def _parse_port_range(text: str) -> list[int | None]:
    first, dash, end = text.partition("-")
    if dash and first.isdigit() and end.isdigit() and int(first) <= int(end) <= 65535:
        if int(end) - int(first) >= _LONGEST_RANGE:
            return [None]
        return list(range(int(first), int(end) + 1))
    return [int(text) if text.isdigit() and 0 < int(text) <= 65535 else None]
