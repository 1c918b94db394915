"""Rules for hosts that lead nowhere, in the addresses that a broker advertises or asks, and that a client asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.client import ClientConfig
from kproxy.advice.lint.container import Container, Platform
from kproxy.advice.lint.endpoint import HostKind, host_kind
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules import images
from kproxy.advice.lint.rules.table import finding
from kproxy.base.diagnostic import Severity

# inet_aton takes one to four numbers for an address: 32505 is 0.0.126.249.
_NUMBERS = re.compile(r"\d+(\.\d+){0,3}")
# The name of a service, or the last part of an image's; a user interface or an exporter has more after it.
_ZOOKEEPER = re.compile(r"(.*[-_])?(zookeeper|zk|zoo)[-_]?\d*")

_CONTAINER_NAME = "A container is called by its id, unless hostname names it. Only its own network knows this name."


def check_broker(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    setting = broker.settings.get("advertised.listeners")
    if not broker.is_broker:
        return
    if setting is None:
        yield from _check_unadvertised(broker, setup)
        return
    for endpoint in broker.for_clients(broker.advertised):
        if _is_numeric(endpoint.host):
            text = f"{endpoint.name} advertises the host {endpoint.host}, which is a number and no name"
            host = setup.advertise or "<host that clients reach>"
            edits = setting.replace_entry(endpoint.index, endpoint.with_host(host)) if setup.advertise else None
            yield finding("numeric-host", setting, broker, text, edits, endpoint.with_host(host))
        elif endpoint.kind is HostKind.EMPTY:
            yield from _check_empty(broker, endpoint.name, endpoint.index, setup)


def check_machine(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Report a broker of several machines that advertises localhost only. Its file shows the other machines."""
    setting, endpoints = broker.settings.get("advertised.listeners"), broker.client_endpoints
    if broker.container is not None or broker.environment or setting is None or not endpoints:
        return
    others = [
        *(address for _, address in broker.voters),
        *broker.get("controller.quorum.bootstrap.servers").split(","),
        *broker.get("zookeeper.connect").partition("/")[0].split(","),
    ]
    hosts = [host for address in others if (host := address.strip().rpartition(":")[0])]
    away = [host for host in hosts if host_kind(host) in (HostKind.NAME, HostKind.IP)]
    if len(away) == len(hosts) and away and all(endpoint.kind is HostKind.LOOPBACK for endpoint in endpoints):
        text = (
            f"{endpoints[0].name} advertises {endpoints[0].host}, but this is no cluster of one machine: see {away[0]}"
        )
        why = "On each other machine, localhost is that machine itself."
        line, warning = endpoints[0].with_host("<host that clients reach>"), Severity.WARNING
        yield finding("loopback-advertised", setting, broker, text, None, line, severity=warning, why=why)


def check_zookeeper(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    """Report a broker that looks for ZooKeeper in its own container, although ZooKeeper is another service."""
    setting, container = broker.settings.get("zookeeper.connect"), broker.container
    if setting is None or container is None or container.uses_host_network:
        return
    there = next((other for other in setup.containers if _is_zookeeper(other, container)), None)
    for index, server in enumerate(setting.text.partition("/")[0].split(",") if there else ()):
        host, _, port = server.strip().rpartition(":")
        if there and host_kind(host) is HostKind.LOOPBACK:
            own = next((str(to.container_port) for to in there.published_ports if str(to.host_port) == port), port)
            edits = setting.change_entry(index, f"{host}:{port}", f"{there.name}:{own}")
            text = f"the broker looks for ZooKeeper at {host}:{port}"
            yield finding("zookeeper-loopback", setting, broker, text, edits)


def _is_zookeeper(container: Container, broker: Container) -> bool:
    """Check whether a service of Compose is ZooKeeper, by its name or image, and the broker can reach it."""
    image = container.image.text.rpartition("/")[2].partition(":")[0] if container.image else ""
    return (
        container.platform is Platform.COMPOSE
        and container.name != broker.name
        and any(_ZOOKEEPER.fullmatch(name.lower()) for name in (container.name, image))
        and container.shares_network_with(broker)
    )


def _check_empty(broker: BrokerConfig, name: str, index: int, setup: Setup) -> Iterator[LintDiagnostic]:
    """Report an advertised address without a host: the broker then advertises what its machine is called."""
    setting, container = broker.settings["advertised.listeners"], broker.container
    endpoint = next(other for other in broker.advertised if other.index == index)
    if container is None or container.uses_host_network:
        if broker.family in (ImageFamily.PROPERTIES, ImageFamily.OTHER, ImageFamily.BITNAMI):
            text = f"{name} advertises no host"
            yield finding("canonical-host-name", setting, broker, text, None, endpoint.with_host("<host>"))
        return
    # A port of the host that changes at each start serves no client that is configured.
    published = [port for port in broker.published(broker.listener(name)) if not port.is_random]
    # In its network, a container has this name. So has a pod of a StatefulSet, with its Service.
    is_pod_named = any(other.startswith(f"{container.name}-0.") for other in container.names)
    if not published and (container.platform is Platform.COMPOSE or is_pod_named):
        return
    text = f"{name} advertises no host: the broker takes its container's own name"
    why = _CONTAINER_NAME
    # Of several listeners, brokers use their own from inside.
    is_inner = name == broker.inter_broker and len(broker.advertised) > 1
    host = container.name if is_inner else setup.advertise or ("localhost" if published else container.name)
    edits = setting.replace_entry(index, endpoint.with_host(host))
    line, error = endpoint.with_host(host), Severity.ERROR
    yield finding("canonical-host-name", setting, broker, text, edits, line, severity=error, why=why)


def _check_unadvertised(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    """Report a container without advertised.listeners whose port is published: it advertises its own name."""
    name, listeners = "advertised.listeners", broker.settings.get("listeners")
    unnamed = published_without_name(broker)
    if not unnamed or images.lacks_listeners(broker):
        return
    entries = []
    for endpoint in broker.client_endpoints:
        host, port = broker.container.name if broker.container else "", endpoint.port_text
        if endpoint.name in unnamed:
            host, port = setup.advertise or "localhost", str(unnamed[endpoint.name] or port)
        entries.append(f"{endpoint.name}://{host}:{port}")
    pair = (broker.variable_for(name), ",".join(entries))
    text = f"{name} is missing: the broker takes its container's own name, and clients outside cannot use it"
    edits = listeners.insert_after([pair]) if listeners is not None else None
    place = listeners or (broker.container and broker.container.image) or broker.location
    line = broker.line(name, pair[1])
    # Containers may be all that uses it: Bitnami's own example is so.
    yield finding("canonical-host-name", place, broker, text, edits, line, why=_CONTAINER_NAME)


def published_without_name(broker: BrokerConfig) -> dict[str, int | None]:
    """Return the host's port of each published listener for which nothing says what the broker advertises.

    Some images require or have a setting for it; with others, an old setting or a command does.
    """
    container = broker.container
    if container is None or container.uses_host_network or not broker.complete or not broker.is_broker:
        return {}
    if broker.family not in (ImageFamily.BITNAMI, ImageFamily.WURSTMEISTER) or (
        {"advertised.listeners", "advertised.host.name"} & broker.settings.keys()
        or "HOSTNAME_COMMAND" in broker.environment
        or any(host_kind(name) is HostKind.LOOPBACK for name in container.names)
    ):
        return {}
    endpoints = [endpoint for endpoint in broker.client_endpoints if endpoint.kind is HostKind.EMPTY]
    pairs = ((endpoint, port) for endpoint in endpoints for port in broker.published(endpoint))
    return {endpoint.name: port.host_port for endpoint, port in pairs if not port.is_random}


def check_client(client: ClientConfig) -> Iterator[LintDiagnostic]:
    for server in client.servers:
        if _is_numeric(server.host):
            text = f"the host of '{server.text}' is a number and no name"
            yield finding("numeric-host", server.value, client, text, None, f"HOST:{server.port or 9092}")


def _is_numeric(host: str) -> bool:
    """Check whether a host is one to four numbers, but no IPv4 address as people write it."""
    if not _NUMBERS.fullmatch(host):
        return False
    numbers = host.split(".")
    return len(numbers) != 4 or any(len(number) > 3 or int(number) > 255 for number in numbers)
