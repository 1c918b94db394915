"""Rules for brokers in containers: advertised addresses, compared with published ports and the other containers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kproxy.advice.lint.client import BootstrapServer, ClientConfig
from kproxy.advice.lint.container import Container, Platform, PublishedPort
from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, Setup
from kproxy.advice.lint.rules.cluster import group_by_cluster
from kproxy.advice.lint.rules.table import combine, finding
from kproxy.advice.lint.source import Edit
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity

_MAP = "listener.security.protocol.map"
# Docker's first networks; the others of its default pool are private networks of clouds, too.
_DOCKER_ADDRESS = re.compile(r"172\.1[789]\.0\.\d{1,3}")
Groups = list[Sequence[Edit] | None]


def check(setup: Setup) -> Iterator[LintDiagnostic]:
    for group in group_by_cluster(setup):
        for broker in group:
            if broker.container is not None and not broker.container.uses_host_network and broker.is_broker:
                yield from _ContainerCheck(broker, broker.container, group, setup).check()


def clients_of(broker: BrokerConfig, setup: Setup) -> list[tuple[ClientConfig, BootstrapServer, ListenerEndpoint]]:
    """Return the clients in other containers that connect to this broker, each with the listener that it uses."""
    results = []
    for client in setup.clients:
        if (
            client.container is None
            or broker.container is None
            or not client.container.shares_network_with(broker.container)
        ):
            continue
        for server in client.servers:
            listener = next((endpoint for endpoint in broker.listeners if endpoint.port == server.port), None)
            if listener is not None and setup.leads_to(server.host, broker.container):
                results.append((client, server, listener))
    return results


class _ContainerCheck:
    def __init__(self, broker: BrokerConfig, container: Container, group: Sequence[BrokerConfig], setup: Setup) -> None:
        self.broker = broker
        self.container = container
        # A controller connects to no broker.
        self.others = [member for member in group if member is not broker and member.container and member.is_broker]
        self.users = clients_of(broker, setup)
        self.setup = setup

    def check(self) -> Iterator[LintDiagnostic]:
        for advertised in self.broker.client_endpoints:
            listener, value = self.broker.listener(advertised.name), advertised.value
            if listener is None:
                continue
            yield from self.check_bind_address(listener)
            if value is None:
                continue
            if advertised.kind is HostKind.LOOPBACK:
                yield from self.check_loopback(advertised, listener, value)
            yield from self.check_container_address(advertised, value)
            if advertised.host in self.container.names:
                yield from self.check_container_name(advertised, listener, value)
            elif advertised.kind in (HostKind.LOOPBACK, HostKind.IP, HostKind.NAME) or (
                # Clients inside need the listener's port, and those outside the published one, whatever the host is.
                advertised.kind is HostKind.UNKNOWN and advertised.port != listener.port
            ):
                yield from self.check_published(advertised, listener, value)

    def check_bind_address(self, listener: ListenerEndpoint) -> Iterator[LintDiagnostic]:
        alone = not self.broker.published(listener) and not self.others and not self.clients_using(listener)
        if listener.kind is HostKind.LOOPBACK and not alone and listener.value is not None:
            edits = listener.value.change_entry(listener.index, f"//{listener.host}:", "//0.0.0.0:")
            text = f"{listener.name} listens on {listener.host} only"
            yield finding("bound-to-loopback", listener.value, self.broker, text, edits)
        elif listener.value is not None and self.is_foreign(listener):
            edits = listener.value.change_entry(listener.index, f"//{listener.host}:", "//0.0.0.0:")
            text = f"{listener.name} listens on {listener.host}, which is no address of the container"
            yield finding("foreign-bind-address", listener.value, self.broker, text, edits)

    def is_foreign(self, listener: ListenerEndpoint) -> bool:
        """Return True if the container cannot have the address that a listener has."""
        if listener.kind is HostKind.IP:
            return listener.host not in self.container.addresses
        of_others = {name for other in self.setup.containers if other is not self.container for name in other.names}
        is_other = listener.host in of_others - self.container.names
        # A name without dots may be an alias that another file gives.
        is_public = "." in listener.host and not self.container.has_extra_hosts
        may_be_own = listener.host in self.container.names or self.container.platform is not Platform.COMPOSE
        return listener.kind is HostKind.NAME and not may_be_own and (is_other or is_public)

    def clients_using(self, listener: ListenerEndpoint) -> list[ClientConfig]:
        return [client for client, _, to in self.users if to.name == listener.name]

    def for_brokers(self, advertised: ListenerEndpoint) -> bool:
        """Return True if other brokers connect to this listener."""
        return advertised.name == self.broker.inter_broker and bool(self.others)

    # localhost

    def check_loopback(
        self, advertised: ListenerEndpoint, listener: ListenerEndpoint, value: ConfigValue
    ) -> Iterator[LintDiagnostic]:
        clients, for_brokers = self.clients_using(listener), self.for_brokers(advertised)
        users = [*(self.others if for_brokers else ()), *clients]
        if not users:
            yield from self.check_loopback_in_kubernetes(advertised, value)
            yield from self.check_dependents(advertised, value)
            return
        names = ", ".join(dict.fromkeys(user.name for user in users))
        text = f"{advertised.name} advertises {advertised.host}, but {names} must use it"
        endpoints = self.broker.client_endpoints
        inner = next((endpoint for endpoint in endpoints if endpoint.host in self.container.names), None)
        edits: list[Edit] | None
        if inner is not None:
            port = self.broker.listener(inner.name)
            edits = self._move_users(
                [], listener, inner.name, port.port if port is not None else inner.port, for_brokers
            )
        elif not self.broker.published(listener):
            old = f"//{advertised.host}:{advertised.port_text}"
            edits = value.change_entry(advertised.index, old, f"//{self.container.name}:{listener.port}")
        else:
            name, free = self._free_name("DOCKER"), self._free_port(29092)
            groups = self._add_listener(advertised, name, f"{self.container.name}:{free}", free)
            edits = self._move_users(groups, listener, name, free, for_brokers)
        yield finding("loopback-advertised", value, self.broker, text, edits)

    def check_loopback_in_kubernetes(
        self, advertised: ListenerEndpoint, value: ConfigValue
    ) -> Iterator[LintDiagnostic]:
        """Report a broker that other pods cannot use at all."""
        endpoints = self.broker.client_endpoints
        is_only = all(endpoint.kind is HostKind.LOOPBACK for endpoint in endpoints) and endpoints[0] == advertised
        if self.container.platform is Platform.KUBERNETES and is_only and self.container.names != {self.container.name}:
            name = min((name for name in self.container.names), key=lambda name: (name.count("."), name))
            text = f"{advertised.name} advertises {advertised.host}, and a Service leads to the pod"
            why = (
                "In another pod, localhost is that pod itself. A port-forward may use this address, other pods cannot."
            )
            edits = value.change_entry(advertised.index, f"//{advertised.host}:", f"//{name}:")
            warning = Severity.WARNING
            yield finding("loopback-advertised", value, self.broker, text, edits, severity=warning, why=why)

    def check_dependents(self, advertised: ListenerEndpoint, value: ConfigValue) -> Iterator[LintDiagnostic]:
        """Report services that wait for a broker which no other container can use; they may be clients, or not."""
        endpoints = self.broker.client_endpoints
        if endpoints[0] != advertised or any(endpoint.kind is not HostKind.LOOPBACK for endpoint in endpoints):
            return
        clients = {client.container.name for client in self.setup.clients if client.container is not None}
        names = [
            other.name
            for other in self.setup.containers
            if other.depends_on & self.container.names and other.name not in clients and other is not self.container
        ]
        if names:
            text = (
                f"{advertised.name} advertises {advertised.host}, and {', '.join(names)} depends on {self.broker.name}"
            )
            why = "If this is a client of Kafka, it cannot connect: in another container, localhost is that container."
            name, free = self._free_name("DOCKER"), self._free_port(29092)
            edits = combine(*self._add_listener(advertised, name, f"{self.container.name}:{free}", free))
            yield finding("loopback-advertised", value, self.broker, text, edits, severity=Severity.NOTE, why=why)

    def _move_users(
        self, groups: Groups, listener: ListenerEndpoint, name: str, port: int | None, for_brokers: bool
    ) -> list[Edit] | None:
        """Move clients and brokers of the network to the listener that is made for it."""
        if for_brokers:
            groups.append(self.broker.set_or_add("inter.broker.listener.name", name, _MAP, "advertised.listeners"))
        for _, server, to in self.users:
            if to.name == listener.name:
                groups.append(server.value.change_entry(server.index, f":{server.port}", f":{port}"))
        return combine(*groups)

    def _add_listener(self, template: ListenerEndpoint, name: str, advertised: str, port: int) -> Groups:
        """Return the edits that add a listener with the protocol of another one, or [None]."""
        broker, settings, protocol = self.broker, self.broker.settings, self.broker.protocol(template.name)
        if not protocol or "advertised.listeners" not in settings:
            return [None]
        groups: Groups = [settings["advertised.listeners"].add_entry(f"{name}://{advertised}")]
        if "listeners" in settings:
            groups.append(settings["listeners"].add_entry(f"{name}://:{port}"))
        elif not broker.listeners_derived:
            return [None]
        if _MAP in settings:
            return [*groups, settings[_MAP].add_entry(f"{name}:{protocol}")]
        names = [*(endpoint.name for endpoint in broker.listeners), *broker.controller_names]
        protocols = {**{other: broker.protocol_map.get(other, "") for other in names}, name: protocol}
        text = ",".join(f"{other}:{protocol}" for other, protocol in protocols.items())
        known = all(protocols.values())
        return [*groups, broker.set_or_add(_MAP, text, "advertised.listeners") if known else None]

    def _free_name(self, name: str) -> str:
        taken = {*self.broker.protocol_map, *(endpoint.name for endpoint in self.broker.listeners)}
        return next(free for number in range(1, 99) if (free := f"{name}{number if number > 1 else ''}") not in taken)

    def _free_port(self, first: int) -> int:
        taken = {endpoint.port for endpoint in self.broker.listeners}
        taken |= {published.container_port for published in self.container.published_ports}
        return next(port for port in range(first, 65536) if port not in taken)

    # The container's address

    def check_container_address(self, advertised: ListenerEndpoint, value: ConfigValue) -> Iterator[LintDiagnostic]:
        """Report an address of the networks that Docker makes by default: a container has another one later."""
        is_fixed = advertised.host in self.container.addresses or self.container.platform is not Platform.COMPOSE
        if _DOCKER_ADDRESS.fullmatch(advertised.host) and not is_fixed:
            text = f"{advertised.name} advertises {advertised.host}, which looks like an address that Docker gave once"
            edits = value.change_entry(advertised.index, f"//{advertised.host}:", f"//{self.container.name}:")
            line = f"{value.key}: {advertised.name}://{self.container.name}:{advertised.port_text}"
            if value.key.upper().endswith("HOST_NAME"):
                line = f"{value.key}: {self.container.name}"
            why = "A container gets another address at a later start, unless ipv4_address names it."
            warning = Severity.WARNING
            yield finding("container-name-advertised", value, self.broker, text, edits, line, severity=warning, why=why)

    # The host, and other machines

    def check_published(
        self, advertised: ListenerEndpoint, listener: ListenerEndpoint, value: ConfigValue
    ) -> Iterator[LintDiagnostic]:
        """Check a listener that advertises an address of the host or of another machine."""
        if advertised.port is None or listener.port is None:
            return
        same_name = [container for container in self.setup.containers if advertised.host in container.names]
        if same_name:
            if any(container.shares_network_with(self.container) for container in same_name):
                text = f"{advertised.name} advertises {advertised.host}, which is service {same_name[0].name}"
                edits = value.change_entry(advertised.index, f"//{advertised.host}:", f"//{self.container.name}:")
                why = "Clients that ask for this broker come to another container."
                yield finding("container-name-advertised", value, self.broker, text, edits, why=why)
            return
        ports = [port.host_port for port in self.broker.published(listener)]
        random = [port for port in self.broker.published(listener) if port.is_random]
        if random and len(random) == len(ports):
            address = f"{advertised.host}:{advertised.port}"
            text = f"{advertised.name} advertises {address}, but Docker publishes it at a random port"
            old = random[0].value
            edits = old.replace(f"{advertised.port}:{old.text}") if old.text.strip() == str(listener.port) else None
            line = f'- "{advertised.port}:{listener.port}"'
            yield finding("published-port-random", old, self.broker, text, edits, line)
        elif None in ports:
            text = f"{self.broker.name}: {advertised.name}: on which port of the host it is published"
            self.setup.add_unchecked(text)
        elif ports and advertised.port not in ports:
            text = f"{advertised.name} advertises port {advertised.port}, but is published at port {ports[0]}"
            edits = value.change_entry(advertised.index, f":{advertised.port}", f":{ports[0]}")
            yield finding("published-port-differs", value, self.broker, text, edits)
        elif not ports:
            yield from self._check_unpublished(advertised, listener, value)

    def _check_unpublished(
        self, advertised: ListenerEndpoint, listener: ListenerEndpoint, value: ConfigValue
    ) -> Iterator[LintDiagnostic]:
        if self.container.platform is not Platform.COMPOSE:
            return
        wrong = next((port for port in self.container.published_ports if port.host_port == advertised.port), None)
        if wrong is not None:
            # Containers use their own listener without a published port.
            listeners = [endpoint for endpoint in self.broker.listeners if endpoint.port == wrong.container_port]
            endpoints = [self.broker.advertised_endpoint(endpoint.name) for endpoint in listeners]
            serves_containers = all(endpoint and endpoint.host in self.container.names for endpoint in endpoints)
            mapping = f"port {advertised.port} of the host leads to port {wrong.container_port}"
            text = f"{mapping}, but {advertised.name} has {listener.port}"
            can_change = wrong.is_single and serves_containers
            edits = _change_published_port(wrong, listener.port) if can_change else None
            yield finding("published-port-differs", wrong.value, self.broker, text, edits)
        elif (
            advertised.kind is HostKind.LOOPBACK
            and not self.clients_using(listener)
            and advertised.name != self.broker.inter_broker
        ):
            address = f"{advertised.host}:{advertised.port}"
            text = f"{advertised.name} advertises {address}, and port {listener.port} is not published"
            line = f'- "{advertised.port}:{listener.port}"'
            edits = self._publish_port(advertised, listener)
            yield finding("port-not-published", value, self.broker, text, edits, line)

    def _publish_port(self, advertised: ListenerEndpoint, listener: ListenerEndpoint) -> list[Edit] | None:
        """Add one line below `ports`."""
        last = self.container.published_ports[-1].value if self.container.published_ports else None
        if last is None or last.key_start >= 0 or not self.container.published_ports[-1].is_single:
            return None
        source = last.source
        start = source.line_start(last.start)
        line = source.text[start : source.line_end(last.end)]
        if line.strip().lstrip("- ").strip("\"'") != last.raw or last.source is not self.broker.location.source:
            return None
        new = source.text[start : last.start] + f"{advertised.port}:{listener.port}"
        new += source.text[last.end : source.line_end(last.end)] + source.newline
        position = source.next_line(last.end)
        return [Edit(source.name, position, position, new)] if source.text[:position].endswith(("\n", "\r")) else None

    # A container's name

    def has_other_port(self, advertised: ListenerEndpoint, listener: ListenerEndpoint) -> bool:
        """Check for a port where the container does not listen. Services of Kubernetes may change ports."""
        known = advertised.port is not None and listener.port is not None
        return known and advertised.port != listener.port and self.container.platform is Platform.COMPOSE

    def check_container_name(
        self, advertised: ListenerEndpoint, listener: ListenerEndpoint, value: ConfigValue
    ) -> Iterator[LintDiagnostic]:
        published = self.broker.published(listener)
        is_published_so = any(port.host_port == advertised.port for port in published)
        has_users = bool(self.clients_using(listener)) or self.for_brokers(advertised)
        if self.has_other_port(advertised, listener) and (has_users or not is_published_so):
            text = f"{advertised.name} advertises {advertised.host}:{advertised.port}, but listens on {listener.port}"
            old = f"//{advertised.host}:{advertised.port_text}"
            edits = value.change_entry(advertised.index, old, f"//{advertised.host}:{listener.port}")
            yield finding("container-port-differs", value, self.broker, text, edits)
            return
        for_host = [endpoint for endpoint in self.broker.client_endpoints if endpoint.host not in self.container.names]
        if not published or any(port.host_port == endpoint.port for port in published for endpoint in for_host):
            return
        text = f"{advertised.name} advertises {advertised.host}, and its port is published"
        port = published[0].host_port
        if any(self._is_published_as_advertised(endpoint) for endpoint in for_host):
            line = f"(without the published port {port or published[0].container_port})"
            why = "The host has a listener of its own. Through this port, its clients get a name of the containers."
            note = Severity.NOTE
            yield finding("container-name-advertised", value, self.broker, text, None, line, severity=note, why=why)
            return
        edits = None
        if port is not None and not published[0].value.key and published[0].is_single:
            host = self.setup.advertise or "localhost"
            if has_users:
                name, inside = self._free_name("HOST"), self._free_port(19092)
                groups = self._add_listener(advertised, name, f"{host}:{port}", inside)
                if self.broker.listeners_derived:
                    groups[0] = self.broker.settings["advertised.listeners"].add_entry(f"{name}://{host}:{inside}")
                    port = inside
                edits = combine(*groups, _change_published_port(published[0], inside, port))
            else:
                old = f"//{advertised.host}:{advertised.port_text}"
                edits = value.change_entry(advertised.index, old, f"//{host}:{port}")
        yield finding("container-name-advertised", value, self.broker, text, edits)

    def _is_published_as_advertised(self, advertised: ListenerEndpoint) -> bool:
        """Check whether this listener is published at the port that it advertises."""
        ports = self.broker.published(self.broker.listener(advertised.name))
        return any(port.host_port == advertised.port for port in ports)


def _change_published_port(port: PublishedPort, inside: int | None, outside: int | None = None) -> list[Edit] | None:
    """Map a published port to another port of the container."""
    value = port.value
    old = f":{port.container_port}"
    written = value.raw.partition("/")[0]
    if value.key or not written.endswith(old):
        return None
    end = value.start + len(written)
    edits = [Edit(value.source.name, end - len(old), end, f":{inside}")]
    if outside is not None and outside != port.host_port:
        before, host_port = written.removesuffix(old), str(port.host_port)
        if not before.endswith(host_port):
            return None
        position = value.start + len(before) - len(host_port)
        edits.append(Edit(value.source.name, position, position + len(host_port), str(outside)))
    return edits
