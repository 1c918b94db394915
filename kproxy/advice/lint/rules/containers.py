"""Rules for brokers in containers: advertised addresses, compared with published ports and the other services."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BootstrapServer, BrokerConfig, ClientConfig, ComposeService, PublishedPort, Setup
from kproxy.advice.lint.rules.cluster import group_by_cluster
from kproxy.advice.lint.rules.table import combine, finding
from kproxy.advice.lint.source import Edit
from kproxy.base.diagnostic import Severity

_MAP = "listener.security.protocol.map"


def check(setup: Setup) -> Iterator[LintDiagnostic]:
    for group in group_by_cluster(setup):
        for broker in group:
            if broker.service is not None and not broker.service.uses_host_network and broker.is_broker:
                yield from _ContainerCheck(broker, broker.service, group, setup).check()


def clients_of(broker: BrokerConfig, setup: Setup) -> list[tuple[ClientConfig, BootstrapServer, ListenerEndpoint]]:
    """Return the clients in other containers that connect to this broker, each with the listener that it uses."""
    results = []
    for client in setup.clients:
        if client.service is None or broker.service is None or not client.service.shares_network_with(broker.service):
            continue
        for server in client.servers:
            listener = next((endpoint for endpoint in broker.listeners if endpoint.port == server.port), None)
            if server.host in broker.service.names and listener is not None:
                results.append((client, server, listener))
    return results


class _ContainerCheck:
    def __init__(
        self, broker: BrokerConfig, service: ComposeService, group: Sequence[BrokerConfig], setup: Setup
    ) -> None:
        self.broker = broker
        self.service = service
        self.others = [member for member in group if member is not broker and member.service is not None]
        self.users = clients_of(broker, setup)
        self.setup = setup

    def check(self) -> Iterator[LintDiagnostic]:
        for advertised in self.broker.client_endpoints:
            listener = self.broker.listener(advertised.name)
            if listener is None:
                continue
            yield from self.check_bind_address(listener)
            if advertised.kind is HostKind.LOOPBACK:
                yield from self.check_loopback(advertised, listener)
            if (
                advertised.kind in (HostKind.LOOPBACK, HostKind.IP, HostKind.NAME)
                and advertised.host not in self.service.names
            ):
                yield from self.check_published(advertised, listener)
            if advertised.host in self.service.names:
                yield from self.check_container_name(advertised, listener)

    def check_bind_address(self, listener: ListenerEndpoint) -> Iterator[LintDiagnostic]:
        alone = not self.published_ports(listener) and not self.others and not self.clients_using(listener)
        if listener.kind is HostKind.LOOPBACK and not alone and listener.value is not None:
            edits = listener.value.change_entry(listener.index, f"//{listener.host}:", "//0.0.0.0:")
            text = f"{listener.name} listens on {listener.host} only"
            yield finding("bound-to-loopback", listener.value, self.broker, text, edits)

    def clients_using(self, listener: ListenerEndpoint) -> list[ClientConfig]:
        return [client for client, _, to in self.users if to.name == listener.name]

    def published_ports(self, listener: ListenerEndpoint) -> list[PublishedPort]:
        return [
            published
            for published in self.service.published_ports
            if listener.port and published.container_port == listener.port
        ]

    # localhost

    def check_loopback(self, advertised: ListenerEndpoint, listener: ListenerEndpoint) -> Iterator[LintDiagnostic]:
        if advertised.value is None:
            return
        clients = self.clients_using(listener)
        for_brokers = advertised.name == self.broker.inter_broker and bool(self.others)
        if not clients and not for_brokers:
            return
        user_names = [f"{endpoint.name}" for endpoint in self.others] if for_brokers else []
        user_names += [client.name for client in clients]
        text = f"{advertised.name} advertises {advertised.host}, but {', '.join(dict.fromkeys(user_names))} must use it"
        inner = next(
            (endpoint for endpoint in self.broker.client_endpoints if endpoint.host in self.service.names), None
        )
        if inner is not None:
            edits = self._use_inner_listener(inner, clients, listener, for_brokers)
        elif not self.published_ports(listener):
            edits = advertised.value.change_entry(
                advertised.index,
                f"//{advertised.host}:{advertised.port_text}",
                f"//{self.service.name}:{listener.port}",
            )
        else:
            edits = self._add_container_listener(
                advertised, self.service.name, self._free_port(), clients, listener, for_brokers
            )
        yield finding("loopback-advertised", advertised.value, self.broker, text, edits)

    def _use_inner_listener(
        self, inner: ListenerEndpoint, clients: list[ClientConfig], listener: ListenerEndpoint, for_brokers: bool
    ) -> list[Edit] | None:
        """Move clients and brokers of the network to the listener that is made for it."""
        port = self.broker.listener(inner.name)
        groups: list[Sequence[Edit] | None] = []
        if for_brokers:
            groups.append(self.broker.set_or_add("inter.broker.listener.name", inner.name, "advertised.listeners"))
        for client in dict.fromkeys(id(client) for client in clients):
            groups += self._change_ports(client, listener, port.port if port is not None else inner.port)
        return combine(*groups)

    def _change_ports(self, client: int, listener: ListenerEndpoint, port: int | None) -> list[Sequence[Edit] | None]:
        return [
            server.value.change_entry(server.index, f":{server.port}", f":{port}")
            for user, server, to in self.users
            if id(user) == client and to.name == listener.name
        ]

    def _add_container_listener(
        self,
        advertised: ListenerEndpoint,
        host: str,
        port: int,
        clients: list[ClientConfig],
        listener: ListenerEndpoint,
        for_brokers: bool,
    ) -> list[Edit] | None:
        """Add a listener for the containers' network, and move its clients and brokers to it."""
        name = self._free_name("DOCKER")
        groups = self._add_listener(advertised, name, f"{host}:{port}", port)
        if for_brokers:
            keys = (_MAP, "advertised.listeners")
            groups.append(self.broker.set_or_add("inter.broker.listener.name", name, *keys))
        for client in dict.fromkeys(id(client) for client in clients):
            groups += self._change_ports(client, listener, port)
        return combine(*groups)

    def _add_listener(
        self, template: ListenerEndpoint, name: str, advertised: str, port: int
    ) -> list[Sequence[Edit] | None]:
        settings, protocol = self.broker.settings, self.broker.protocol(template.name)
        if not protocol or "advertised.listeners" not in settings:
            return [None]
        advertised_edits = settings["advertised.listeners"].add_entry(f"{name}://{advertised}")
        groups: list[Sequence[Edit] | None] = [advertised_edits]
        if "listeners" in settings:
            groups.append(settings["listeners"].add_entry(f"{name}://:{port}"))
        elif not self.broker.listeners_derived:
            return [None]
        if _MAP in settings:
            groups.append(settings[_MAP].add_entry(f"{name}:{protocol}"))
        else:
            names = [*(endpoint.name for endpoint in self.broker.listeners), *self.broker.controller_names]
            protocols = {
                **{listener_name: self.broker.protocol_map.get(listener_name, "") for listener_name in names},
                name: protocol,
            }
            text = ",".join(f"{listener_name}:{protocol}" for listener_name, protocol in protocols.items())
            groups.append(
                self.broker.set_or_add(_MAP, text, "advertised.listeners") if all(protocols.values()) else None
            )
        return groups

    def _free_name(self, name: str) -> str:
        taken = {*self.broker.protocol_map, *(endpoint.name for endpoint in self.broker.listeners)}
        return (
            name
            if name not in taken
            else next(f"{name}{number}" for number in range(2, 99) if f"{name}{number}" not in taken)
        )

    def _free_port(self) -> int:
        taken = {endpoint.port for endpoint in self.broker.listeners} | {
            published.container_port for published in self.service.published_ports
        }
        return next(port for port in range(29092, 65536) if port not in taken)

    # The host, and other machines

    def check_published(self, advertised: ListenerEndpoint, listener: ListenerEndpoint) -> Iterator[LintDiagnostic]:
        """Check a listener that advertises an address of the host or of another machine."""
        if advertised.value is None or advertised.port is None or listener.port is None:
            return
        if any(advertised.host in service.names for service in self.setup.services):
            if not any(
                advertised.host in service.names
                for service in self.setup.services
                if service.shares_network_with(self.service)
            ):
                return
            other_service = next(service for service in self.setup.services if advertised.host in service.names)
            text = f"{advertised.name} advertises {advertised.host}, which is service {other_service.name}"
            edits = advertised.value.change_entry(advertised.index, f"//{advertised.host}:", f"//{self.service.name}:")
            yield finding(
                "container-name-advertised",
                advertised.value,
                self.broker,
                text,
                edits,
                why="Clients that ask for this broker come to another container.",
            )
            return
        ports = self.published_ports(listener)
        if any(port.host_port is None for port in ports):
            self.setup.add_unchecked(
                f"{self.broker.name}: {advertised.name}: on which port of the host it is published"
            )
            return
        if any(port.host_port == advertised.port for port in ports):
            return
        if ports:
            text = f"{advertised.name} advertises port {advertised.port}, but is published at port {ports[0].host_port}"
            edits = advertised.value.change_entry(advertised.index, f":{advertised.port}", f":{ports[0].host_port}")
            yield finding("published-port-differs", advertised.value, self.broker, text, edits)
            return
        yield from self._check_unpublished(advertised, listener)

    def _check_unpublished(self, advertised: ListenerEndpoint, listener: ListenerEndpoint) -> Iterator[LintDiagnostic]:
        wrong = next((port for port in self.service.published_ports if port.host_port == advertised.port), None)
        if wrong is not None:
            # Containers use their own listener without a published port.
            endpoints = [
                self.broker.advertised_endpoint(endpoint.name)
                for endpoint in self.broker.listeners
                if endpoint.port == wrong.container_port
            ]
            serves_containers = all(
                endpoint is not None and endpoint.host in self.service.names for endpoint in endpoints
            )
            mapping = f"port {advertised.port} of the host leads to port {wrong.container_port}"
            text = f"{mapping}, but {advertised.name} has {listener.port}"
            edits = None
            if wrong.is_single and serves_containers:
                edits = _change_published_port(wrong, listener.port)
            yield finding("published-port-differs", wrong.value, self.broker, text, edits)
        elif (
            advertised.kind is HostKind.LOOPBACK
            and not self.clients_using(listener)
            and advertised.name != self.broker.inter_broker
        ):
            address = f"{advertised.host}:{advertised.port}"
            text = f"{advertised.name} advertises {address}, and port {listener.port} is not published"
            edits = self._publish_port(advertised, listener)
            yield finding(
                "port-not-published",
                advertised.value or self.broker.location,
                self.broker,
                text,
                edits,
                f'- "{advertised.port}:{listener.port}"',
            )

    def _publish_port(self, advertised: ListenerEndpoint, listener: ListenerEndpoint) -> list[Edit] | None:
        """Add one line below `ports`."""
        last = self.service.published_ports[-1].value if self.service.published_ports else None
        if last is None or last.key_start >= 0 or not self.service.published_ports[-1].is_single:
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

    def check_container_name(
        self, advertised: ListenerEndpoint, listener: ListenerEndpoint
    ) -> Iterator[LintDiagnostic]:
        ports = self.published_ports(listener)
        if (
            not ports
            or advertised.value is None
            or any(port.host_port == endpoint.port for port in ports for endpoint in self._host_endpoints())
        ):
            return
        clients, for_brokers = (
            self.clients_using(listener),
            advertised.name == self.broker.inter_broker and bool(self.others),
        )
        text = f"{advertised.name} advertises {advertised.host}, and its port is published"
        port = ports[0].host_port
        if any(self._is_published_as_advertised(endpoint) for endpoint in self._host_endpoints()):
            line = f"(without the published port {port or ports[0].container_port})"
            why = "The host has a listener of its own. Through this port, its clients get a name of the containers."
            setting, note = advertised.value, Severity.NOTE
            yield finding("container-name-advertised", setting, self.broker, text, None, line, severity=note, why=why)
            return
        edits = None
        if port is not None and not ports[0].value.key and ports[0].is_single:
            host = self.setup.advertise or "localhost"
            if clients or for_brokers:
                name, inside = self._free_name("HOST"), self._free_host_port()
                groups = self._add_listener(advertised, name, f"{host}:{port}", inside)
                if self.broker.listeners_derived:
                    groups[0] = self.broker.settings["advertised.listeners"].add_entry(f"{name}://{host}:{inside}")
                    port = inside
                edits = combine(*groups, _change_published_port(ports[0], inside, port))
            else:
                edits = advertised.value.change_entry(
                    advertised.index, f"//{advertised.host}:{advertised.port_text}", f"//{host}:{port}"
                )
        yield finding("container-name-advertised", advertised.value, self.broker, text, edits)

    def _is_published_as_advertised(self, advertised: ListenerEndpoint) -> bool:
        """Check whether this listener is published at the port that it advertises."""
        listener = self.broker.listener(advertised.name)
        return listener is not None and any(
            port.host_port == advertised.port for port in self.published_ports(listener)
        )

    def _free_host_port(self) -> int:
        taken = {endpoint.port for endpoint in self.broker.listeners} | {
            published.container_port for published in self.service.published_ports
        }
        return next(port for port in range(19092, 65536) if port not in taken)

    def _host_endpoints(self) -> list[ListenerEndpoint]:
        return [endpoint for endpoint in self.broker.client_endpoints if endpoint.host not in self.service.names]


def _change_published_port(port: PublishedPort, inside: int | None, outside: int | None = None) -> list[Edit] | None:
    """Map a published port to another port of the container."""
    value = port.value
    old = f":{port.container_port}"
    if value.key or not value.raw.partition("/")[0].endswith(old):
        return None
    end = value.start + len(value.raw.partition("/")[0])
    edits = [Edit(value.source.name, end - len(old), end, f":{inside}")]
    if outside is not None and outside != port.host_port:
        before = value.raw.partition("/")[0].removesuffix(old)
        if not before.endswith(str(port.host_port)):
            return None
        position = value.start + len(before) - len(str(port.host_port))
        edits.append(Edit(value.source.name, position, position + len(str(port.host_port)), str(outside)))
    return edits
