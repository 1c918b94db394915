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

# More than anybody has; services are compared with one another.
_MOST_SERVICES, _MOST_PORTS, _LONGEST_RANGE = 200, 1000, 1000
_HELPERS = ("zookeeper", "schema-registry", "-ui", "connect", "rest", "ksql", "control-center", "exporter", "init")
_BOOTSTRAP = re.compile(
    r"(?:.*_)?(BOOTSTRAP_?SERVERS?|BOOTSTRAP|BROKERS?|BROKER_?LIST|BROKER_?CONNECT|BROKER_?URLS?|KAFKA_HOSTS?)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?:[A-Z_]+://)?(?:\[[^\]]*\]|[^\[\]:/\s,]+):\d{1,5}(?:,.*)?", re.DOTALL)
# What gives a container its settings from a place that is not in this file.
_MOUNTED = {ImageFamily.APACHE: "/mnt/shared/config", ImageFamily.BITNAMI: "/bitnami/kafka/config"}


def add_services(tree: YamlTree, root: yaml.Node, variables: Mapping[str, str], setup: Setup) -> None:
    """Add the services of one file to the setup."""
    reading = _ServiceReader(tree, variables, setup)
    services = tree.mapping(tree.get(root, "services"))
    if len(services) > _MOST_SERVICES:
        setup.add_unchecked(f"{tree.source.name}: all but the first {_MOST_SERVICES} services")
    for name, (key, node) in islice(services.items(), _MOST_SERVICES):
        reading.service(name, key, node)


class _ServiceReader:
    def __init__(self, tree: YamlTree, variables: Mapping[str, str], setup: Setup) -> None:
        self.tree = tree
        self.variables = variables
        self.setup = setup

    def resolved(self, text: str) -> str:
        return interpolate(text, self.variables)

    def service(self, name: str, key: yaml.Node, node: yaml.Node) -> None:
        tree = self.tree
        environment = self.environment(tree.get(node, "environment"))
        mode = self.resolved(tree.text(node, "network_mode") or "")
        networks, aliases = self.networks(node, mode, name)
        image = tree.get(node, "image")
        names = {name, *aliases}
        names |= {self.resolved(tree.text(node, word) or "") for word in ("container_name", "hostname")} - {""}
        published = [one for item in tree.items(tree.get(node, "ports")) for one in self.published(item)]
        service = ComposeService(
            name=name,
            location=tree.location(key),
            image=None if image is None else tree.value(image, read=self.resolved),
            names=frozenset(names),
            networks=frozenset(networks),
            uses_host_network=mode == "host",
            published_ports=tuple(published[:_MOST_PORTS]),
            environment=environment,
            count=self.count(node),
        )
        self.setup.services.append(service)
        if tree.get(node, "extends") is not None:
            self.setup.add_unchecked(f"{tree.source.name}: service {name}: what it takes from 'extends'")
        if not self.broker(service, node):
            self.client(service)

    def count(self, node: yaml.Node) -> int:
        for path in (("deploy", "replicas"), ("scale",)):
            text = self.resolved(self.tree.text(node, *path) or "")
            if text.isdigit():
                return int(text)
        return 1

    def environment(self, node: yaml.Node | None) -> dict[str, ConfigValue]:
        values = [self.tree.value(value, key, self.resolved) for key, value in self.tree.mapping(node).values()]
        pairs = (self.tree.pair(item, self.resolved) for item in self.tree.items(node))
        return {one.key: one for one in (*values, *(pair for pair in pairs if pair is not None))}

    def networks(self, node: yaml.Node, mode: str, name: str) -> tuple[set[str], set[str]]:
        """The networks of a service, and its other names there."""
        found, tree = network_names(self.tree, node), self.tree
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
        return found or {"default"}, aliases

    def published(self, item: yaml.Node) -> list[PublishedPort]:
        if isinstance(item, yaml.MappingNode):
            return self.published_long(item)
        value = self.tree.value(item, read=self.resolved)
        return parse_short_ports(value)

    def published_long(self, item: yaml.MappingNode) -> list[PublishedPort]:
        tree = self.tree
        target, node = self.resolved(tree.text(item, "target") or ""), tree.get(item, "published")
        pair = tree.mapping(item).get("published") or tree.mapping(item).get("target")
        if pair is None or not (target.isdigit() or "{" in target):
            return []
        value = tree.value(pair[1], pair[0], self.resolved)
        host = self.resolved(tree.text(item, "published") or "") if node is not None else ""
        return [
            PublishedPort(
                self.resolved(tree.text(item, "host_ip") or ""),
                int(host) if host.isdigit() and int(host) else None,
                int(target) if target.isdigit() else None,
                value,
            )
        ]

    def broker(self, service: ComposeService, node: yaml.Node) -> bool:
        """Add the broker that a service is; False if it is none."""
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
        complete = not self.elsewhere(node, image.family, where)
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

    def elsewhere(self, node: yaml.Node, family: ImageFamily, where: str) -> bool:
        """Whether a part of its settings is in files that nobody gave."""
        tree = self.tree
        found = []
        if tree.get(node, "env_file") is not None:
            found.append("env_file")
        targets = [item.value for item in tree.items(tree.get(node, "volumes")) if isinstance(item, yaml.ScalarNode)]
        targets += [tree.text(item, "target") or "" for item in tree.items(tree.get(node, "volumes"))]
        if any(_MOUNTED.get(family, "server.properties") in target for target in targets):
            found.append("a mounted file")
        if found:
            self.setup.add_unchecked(f"{where}: the settings in {' and '.join(found)}")
        return bool(found) or tree.get(node, "extends") is not None

    def client(self, service: ComposeService) -> None:
        """Add a client for each variable of a service that names bootstrap servers."""
        for word, value in service.environment.items():
            if _BOOTSTRAP.fullmatch(word) and _ADDRESS.fullmatch(value.text.strip()) and parse_servers(value):
                protocol = self.protocol(service, word)
                settings = {"security.protocol": protocol} if protocol is not None else {}
                name = f"service {service.name}"
                servers = tuple(parse_servers(value))
                self.setup.clients.append(
                    ClientConfig(name, value.location, ClientPlacement.CONTAINER, servers, settings, service)
                )

    def protocol(self, service: ComposeService, word: str) -> ConfigValue | None:
        """The variable beside that of the bootstrap servers which says the protocol."""
        prefix = re.sub(r"(?i)_?BOOTSTRAP_?SERVERS?$", "", word)
        found = (service.environment.get(f"{prefix}_{end}") for end in ("SECURITY_PROTOCOL", "SECURITYPROTOCOL"))
        return next((one for one in found if one is not None), None)


def network_names(tree: YamlTree, node: yaml.Node) -> set[str]:
    given = tree.get(node, "networks")
    return {*tree.mapping(given), *(item.value for item in tree.items(given) if isinstance(item, yaml.ScalarNode))}


_PORT = re.compile(
    r"(?:(?P<ip>\[[^\]]+\]|[^:\[\]]*(?:\{[^}]*\})?|[0-9a-fA-F:]+):)?(?P<host>[^:]*):(?P<inside>[^:/]+)(?:/\w+)?"
)


def parse_short_ports(value: ConfigValue) -> list[PublishedPort]:
    """The short syntax: `[IP:][HOST:]CONTAINER[/PROTOCOL]`, each port perhaps a range."""
    text = value.text.strip()
    if text.endswith("/udp"):
        return []
    match = _PORT.fullmatch(text)
    if match is None:
        inside = _range(text.partition("/")[0])
        return [PublishedPort("", None, port, value, len(inside) == 1) for port in inside]
    ip, host, inside = (match["ip"] or "").strip("[]"), _range(match["host"]), _range(match["inside"])
    if len(host) == len(inside):
        return [PublishedPort(ip, *pair, value, len(host) == 1) for pair in zip(host, inside, strict=True)]
    return [PublishedPort(ip, None, port, value, False) for port in inside]


def _range(text: str) -> list[int | None]:
    first, dash, last = text.partition("-")
    if dash and first.isdigit() and last.isdigit() and int(first) <= int(last) <= 65535:
        if int(last) - int(first) >= _LONGEST_RANGE:
            return [None]
        return list(range(int(first), int(last) + 1))
    return [int(text) if text.isdigit() and 0 < int(text) <= 65535 else None]
