"""Docker Compose files: services, their networks, ports and variables, and the brokers and clients among them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from kproxy.advice.lint import images, redpanda
from kproxy.advice.lint.clientsettings import ClientSource, add_clients, add_clients_of_variables
from kproxy.advice.lint.commandline import add_clients_of_command
from kproxy.advice.lint.container import Container, PublishedPort
from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.tree import YamlNode, flatten, parse_block
from kproxy.advice.lint.value import ConfigValue, LineLayout
from kproxy.advice.lint.variables import interpolate

# Services are compared pairwise, so their number is bounded.
_MOST_SERVICES, _MOST_PORTS, _LONGEST_RANGE, _MOST_COPIES, _MOST_BLOCKS = 200, 1000, 1000, 1000, 20
# Variables that Kafka's tools and their scripts read.
_TOOL_VARIABLES = r"_BOOTSTRAP_?SERVERS?$|_BROKERS?$|_OPTS$|_TOPICS?$"
_HELPERS = ("zookeeper", "schema-registry", "-ui", "connect", "rest", "ksql", "control-center", "exporter", "init")
# The scripts of images and of Kafka that start a broker.
_STARTS_BROKER = re.compile(r"server-start|start-kafka|entrypoint\.sh|/(docker|kafka)/(run|launch|configure)")
# One of these shows that a service is a broker.
_LISTENING = re.compile(r"KAFKA_(CFG_)?(ADVERTISED_)?LISTENERS|KAFKA_ADVERTISED_HOST_NAME")
# The variables of images that are made from wurstmeister's.
_OLD = {"KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ZOOKEEPER_CONNECT"}
# Keys of a service. No service is likely to be called so.
_SERVICE_KEYS = ("environment", "volumes", "ports", "networks", "depends_on", "image", "command", "env_file", "restart")
# The directories from which images read further settings.
_MOUNTED = {ImageFamily.APACHE: "/mnt/shared/config", ImageFamily.BITNAMI: "/bitnami/kafka/config"}


def add_services(root: YamlNode, variables: Mapping[str, str], setup: Setup) -> None:
    """Add the services of one Compose file to the setup."""
    reading = _ServiceReader(root.source.name, variables, setup)
    # Version 1 of the format has its services at the top, and so has what people cut out of a file.
    services = root["services"].mapping or {
        name: node for name, node in root.mapping.items() if node["image"].is_scalar
    }
    if len(services) > _MOST_SERVICES:
        setup.add_unchecked(f"{root.source.name}: all but the first {_MOST_SERVICES} services")
    for name, node in islice(services.items(), _MOST_SERVICES):
        reading.add_service(name, node)


def misplaced_keys(root: YamlNode) -> list[YamlNode]:
    """Return the keys of a service that stand beside the services, because they are not indented enough."""
    services = root["services"].mapping.items()
    return [node for name, node in services if name in _SERVICE_KEYS and not (node["image"] or node["build"])]


class _ServiceReader:
    def __init__(self, file: str, variables: Mapping[str, str], setup: Setup) -> None:
        self.file = file
        self.variables = variables
        self.setup = setup

    def interpolate(self, text: str) -> str:
        return interpolate(text, self.variables)

    def text(self, node: YamlNode) -> str:
        return self.interpolate(node.text)

    def add_service(self, name: str, node: YamlNode) -> None:
        where = f"{self.file}: service {name}"
        mode, networks = self.text(node["network_mode"]), node["networks"]
        of_other = mode.startswith(("service:", "container:"))
        if of_other:
            self.setup.add_unchecked(f"{where}: its network is that of another container")
        alias_nodes = [alias for network in networks.mapping.values() for alias in network["aliases"].items]
        aliases = {alias.text for alias in alias_nodes if alias.is_scalar}
        own_networks = {*networks.mapping, *(item.text for item in networks.items if item.is_scalar)} or {"default"}
        names = {name, *aliases, self.text(node["container_name"]), self.text(node["hostname"])} - {""}
        published = [port for item in node["ports"].items for port in self.parse_ports(item)]
        counts = [self.text(count) for count in (node["deploy"]["replicas"], node["scale"])]
        service = Container(
            name=name,
            location=node.location,
            image=node["image"].value(self.interpolate) if node["image"] else None,
            names=frozenset(names),
            networks=frozenset() if of_other or mode in ("host", "none") else frozenset(own_networks),
            uses_host_network=mode == "host",
            published_ports=tuple(published[:_MOST_PORTS]),
            environment=self.parse_environment(node["environment"]),
            addresses=frozenset(
                self.text(network[key])
                for network in networks.mapping.values()
                for key in ("ipv4_address", "ipv6_address")
                if network[key]
            ),
            depends_on=frozenset([*node["depends_on"].mapping, *(item.text for item in node["depends_on"].items)]),
            is_complete=not (node["env_file"] or node["extends"] or node["entrypoint"] or self.has_own_program(node)),
            has_extra_hosts=bool(node["extra_hosts"] or node["domainname"]),
            has_docker_socket=any("/docker.sock" in target for target in self.mounts(node)),
        )
        self.setup.containers.append(service)
        self.setup.interpolated.append(service.environment)
        if node["extends"]:
            self.setup.add_unchecked(f"{where}: what it takes from 'extends'")
        copies = next((min(int(count), _MOST_COPIES) for count in counts if count.isdecimal() and int(count)), 1)
        if not self.add_broker(service, node, where, copies) and not self.add_redpanda(service, node):
            self.add_clients(service, node)

    def parse_environment(self, node: YamlNode) -> dict[str, ConfigValue]:
        values = [value.value(self.interpolate) for value in node.mapping.values()]
        pairs = [pair for item in node.items if (pair := item.pair(self.interpolate)) is not None]
        return {value.key: value for value in (*values, *pairs)}

    def parse_ports(self, item: YamlNode) -> list[PublishedPort]:
        """Parse an item of `ports`, in the short or the long syntax."""
        if item.is_scalar:
            return parse_short_ports(item.value(self.interpolate))
        target, host = self.text(item["target"]), self.text(item["published"])
        if not (target.isdigit() or "{" in target):
            return []
        host_port = int(host) if host.isdigit() and int(host) else None
        value = (item["published"] or item["target"]).value(self.interpolate)
        inside = int(target) if target.isdigit() else None
        return [PublishedPort(self.text(item["host_ip"]), host_port, inside, value)]

    def add_broker(self, service: Container, node: YamlNode, where: str, copies: int) -> bool:
        """Add the broker that a service runs; return False if the service is no broker."""
        listening = [word for word in service.environment if _LISTENING.fullmatch(word)]
        reference = service.image.text if service.image else ""
        if "{" in reference.partition(":")[0]:
            if listening:
                self.setup.add_unchecked(f"{where}: its image is {reference}, which has no value here")
            return bool(listening)
        image, is_known = images.recognise_image(reference), True
        if image is None:
            if not listening or any(word in service.name for word in _HELPERS):
                return False
            what = f"its image {reference} is not one that kproxy knows" if reference else "it has no image"
            # An image of one's own that takes both settings is mostly made from a known one.
            is_judged = not reference and (len(listening) > 1 or service.environment.keys() >= _OLD)
            self.setup.add_unchecked(f"{where}: {'what its own image sets' if is_judged else what}")
            if not is_judged:
                return True
            image, is_known = images.Image(images.likely_family(service.environment), None, kraft_only=False), False
        has_command = node["command"] or node["entrypoint"]
        of_broker = (word.startswith("KAFKA_") and not re.search(_TOOL_VARIABLES, word) for word in service.environment)
        if not listening and has_command and not (any(of_broker) and self.starts_broker(node)):
            return False  # a container for Kafka's tools
        if service.uses_host_network:
            docker = "the network of Docker Desktop's host, which is that of a virtual machine unless its settings"
            self.setup.add_unchecked(f"{where}: {docker} turn host networking on")
        settings = images.settings_of(image.family, service.environment)
        complete = is_known and not self.has_external_settings(node, image.family, where)
        self.setup.brokers.append(
            BrokerConfig(
                name=service.name,
                family=image.family,
                location=service.location,
                settings=settings,
                defaults=images.defaults(image.family, settings) if complete else {},
                container=service,
                version=image.version,
                kraft_only=image.kraft_only,
                complete=complete,
                environment=service.environment,
                layout=LineLayout.MAPPING,
                copies=copies,
            )
        )
        return True

    def has_own_program(self, node: YamlNode) -> bool:
        """Check whether the command of a service is a shell's that does not start what its image starts."""
        command = [item.text for item in (node["command"], *node["command"].items)]
        is_shell = any(re.match(r"(?:/bin/)?(?:ba)?sh\b", word) for word in command)
        return is_shell and not any("/docker/run" in word or "entrypoint" in word for word in command)

    def starts_broker(self, node: YamlNode) -> bool:
        """Check whether the command of a service is one that starts a broker."""
        parts = (node["entrypoint"], node["command"])
        words = [item.text for part in parts for item in (part, *part.items)]
        return any(_STARTS_BROKER.search(word) for word in words)

    def mounts(self, node: YamlNode) -> list[str]:
        """Return the volumes of a service, and the paths of those that are mappings."""
        return [text for item in node["volumes"].items for text in (item.text, item["target"].text)]

    def has_external_settings(self, node: YamlNode, family: ImageFamily, where: str) -> bool:
        """Check whether some settings are in files that kproxy has not been given."""
        sources = ["env_file"] if node["env_file"] else []
        targets = self.mounts(node)
        if any(_MOUNTED.get(family, "server.properties") in target for target in targets):
            sources.append("a mounted file")
        if any(target.endswith(".sh") for target in targets):
            sources.append("a mounted script")
        if sources:
            self.setup.add_unchecked(f"{where}: the settings in {' and '.join(sources)}")
        return bool(sources or node["extends"])

    def add_redpanda(self, service: Container, node: YamlNode) -> bool:
        """Add the Redpanda broker that a service runs; return False if it runs none."""
        return redpanda.add_broker_of_command(service, self.words(node["command"]), self.setup)

    def words(self, command: YamlNode) -> list[ConfigValue]:
        """Return the parts of a command, which is one text or a list."""
        return [item.value(self.interpolate) for item in (command, *command.items) if item.is_scalar]

    def add_clients(self, service: Container, node: YamlNode) -> None:
        """Add the clients that the variables of a service configure, or the files inside of variables."""
        origin = ClientSource(service.location.source, f"service {service.name}", None, service)
        add_clients_of_variables(origin, service.environment, self.setup)
        add_clients_of_command(origin, [*self.words(node["entrypoint"]), *self.words(node["command"])], self.setup)
        for block in [value for value in node["environment"].mapping.values() if value.is_literal()][:_MOST_BLOCKS]:
            for root in parse_block(block):
                values, _ = flatten(root, self.interpolate)
                add_clients(replace(origin, kind=FileKind.APPLICATION), values, self.setup)


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
