"""Rules for brokers in containers: what is advertised, against what is published and who else is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint
from kproxy.advice.lint.findings import LintFinding, Severity
from kproxy.advice.lint.model import BootstrapServer, BrokerConfig, ClientConfig, ComposeService, PublishedPort, Setup
from kproxy.advice.lint.rules.cluster import clusters
from kproxy.advice.lint.rules.listeners import set_or_add
from kproxy.advice.lint.rules.table import combine, new_finding
from kproxy.advice.lint.source import Edit

_MAP = "listener.security.protocol.map"


def check(setup: Setup) -> Iterator[LintFinding]:
    for group in clusters(setup):
        for broker in group:
            if broker.service is not None and not broker.service.uses_host_network and broker.is_broker:
                yield from _ContainerCheck(broker, broker.service, group, setup).check()


def users(broker: BrokerConfig, setup: Setup) -> list[tuple[ClientConfig, BootstrapServer, ListenerEndpoint]]:
    """The clients in other containers that come to this broker, and to which of its listeners."""
    found_ = []
    for client in setup.clients:
        if client.service is None or broker.service is None or not client.service.shares_network_with(broker.service):
            continue
        for server in client.servers:
            listener = next((one for one in broker.listeners if one.port == server.port), None)
            if server.host in broker.service.names and listener is not None:
                found_.append((client, server, listener))
    return found_


class _ContainerCheck:
    def __init__(
        self, broker: BrokerConfig, service: ComposeService, group: Sequence[BrokerConfig], setup: Setup
    ) -> None:
        self.broker = broker
        self.service = service
        self.others = [one for one in group if one is not broker and one.service is not None]
        self.users = users(broker, setup)
        self.setup = setup

    def check(self) -> Iterator[LintFinding]:
        for one in self.broker.client_endpoints:
            listener = self.broker.listener(one.name)
            if listener is None:
                continue
            yield from self.bound(listener)
            if one.kind is HostKind.LOOPBACK:
                yield from self.loopback(one, listener)
            if one.kind in (HostKind.LOOPBACK, HostKind.IP, HostKind.NAME) and one.host not in self.service.names:
                yield from self.published(one, listener)
            if one.host in self.service.names:
                yield from self.inner_name(one, listener)

    def bound(self, listener: ListenerEndpoint) -> Iterator[LintFinding]:
        alone = not self.published_at(listener) and not self.others and not self.used(listener)
        if listener.kind is HostKind.LOOPBACK and not alone and listener.value is not None:
            edits = listener.value.change_entry(listener.index, f"//{listener.host}:", "//0.0.0.0:")
            text = f"{listener.name} listens on {listener.host} only"
            yield new_finding("bound-to-loopback", listener.value, self.broker.name, text, edits)

    def used(self, listener: ListenerEndpoint) -> list[ClientConfig]:
        return [client for client, _, to in self.users if to.name == listener.name]

    def published_at(self, listener: ListenerEndpoint) -> list[PublishedPort]:
        return [one for one in self.service.published_ports if listener.port and one.container_port == listener.port]

    # localhost

    def loopback(self, one: ListenerEndpoint, listener: ListenerEndpoint) -> Iterator[LintFinding]:
        if one.value is None:
            return
        clients = self.used(listener)
        between = one.name == self.broker.inter_broker and bool(self.others)
        if not clients and not between:
            return
        who = [f"{other.name}" for other in self.others] if between else []
        who += [client.name for client in clients]
        text = f"{one.name} advertises {one.host}, but {', '.join(dict.fromkeys(who))} must use it"
        inner = next((other for other in self.broker.client_endpoints if other.host in self.service.names), None)
        if inner is not None:
            edits = self._move(inner, clients, listener, between)
        elif not self.published_at(listener):
            edits = one.value.change_entry(
                one.index, f"//{one.host}:{one.port_text}", f"//{self.service.name}:{listener.port}"
            )
        else:
            edits = self._second(one, self.service.name, self._free_port(), clients, listener, between)
        yield new_finding("loopback-advertised", one.value, self.broker.name, text, edits)

    def _move(
        self, inner: ListenerEndpoint, clients: list[ClientConfig], listener: ListenerEndpoint, between: bool
    ) -> list[Edit] | None:
        """Let everybody in the network use the listener that is made for it."""
        port = self.broker.listener(inner.name)
        groups: list[Sequence[Edit] | None] = []
        if between:
            groups.append(set_or_add(self.broker, "inter.broker.listener.name", inner.name, "advertised.listeners"))
        for client in dict.fromkeys(id(client) for client in clients):
            groups += self._ports(client, listener, port.port if port is not None else inner.port)
        return combine(*groups)

    def _ports(self, client: int, listener: ListenerEndpoint, port: int | None) -> list[Sequence[Edit] | None]:
        return [
            server.value.change_entry(server.index, f":{server.port}", f":{port}")
            for user, server, to in self.users
            if id(user) == client and to.name == listener.name
        ]

    def _second(
        self,
        one: ListenerEndpoint,
        host: str,
        port: int,
        clients: list[ClientConfig],
        listener: ListenerEndpoint,
        between: bool,
    ) -> list[Edit] | None:
        """One listener more, for the containers' network; clients there and brokers use it."""
        name = self._free_name("DOCKER")
        groups = self._new_listener(one, name, f"{host}:{port}", port)
        if between:
            keys = (_MAP, "advertised.listeners")
            groups.append(set_or_add(self.broker, "inter.broker.listener.name", name, *keys))
        for client in dict.fromkeys(id(client) for client in clients):
            groups += self._ports(client, listener, port)
        return combine(*groups)

    def _new_listener(
        self, like: ListenerEndpoint, name: str, advertised: str, port: int
    ) -> list[Sequence[Edit] | None]:
        settings, protocol = self.broker.settings, self.broker.protocol(like.name)
        if not protocol or "advertised.listeners" not in settings:
            return [None]
        told = settings["advertised.listeners"].add_entry(f"{name}://{advertised}")
        groups: list[Sequence[Edit] | None] = [told]
        if "listeners" in settings:
            groups.append(settings["listeners"].add_entry(f"{name}://:{port}"))
        elif not self.broker.listeners_derived:
            return [None]
        if _MAP in settings:
            groups.append(settings[_MAP].add_entry(f"{name}:{protocol}"))
        else:
            names = [*(e.name for e in self.broker.listeners), *self.broker.controller_names]
            known = {**{n: self.broker.protocol_map.get(n, "") for n in names}, name: protocol}
            text = ",".join(f"{n}:{p}" for n, p in known.items())
            groups.append(set_or_add(self.broker, _MAP, text, "advertised.listeners") if all(known.values()) else None)
        return groups

    def _free_name(self, name: str) -> str:
        taken = {*self.broker.protocol_map, *(one.name for one in self.broker.listeners)}
        return name if name not in taken else next(f"{name}{n}" for n in range(2, 99) if f"{name}{n}" not in taken)

    def _free_port(self) -> int:
        taken = {one.port for one in self.broker.listeners} | {
            one.container_port for one in self.service.published_ports
        }
        return next(port for port in range(29092, 65536) if port not in taken)

    # The host, and other machines

    def published(self, one: ListenerEndpoint, listener: ListenerEndpoint) -> Iterator[LintFinding]:
        """A listener that advertises an address of the host or of another machine."""
        if one.value is None or one.port is None or listener.port is None:
            return
        if any(one.host in other.names for other in self.setup.services):
            if not any(
                one.host in other.names for other in self.setup.services if other.shares_network_with(self.service)
            ):
                return
            other = next(other for other in self.setup.services if one.host in other.names)
            text = f"{one.name} advertises {one.host}, which is service {other.name}"
            edits = one.value.change_entry(one.index, f"//{one.host}:", f"//{self.service.name}:")
            yield new_finding("container-name-advertised", one.value, self.broker.name, text, edits,
                        why="Clients that ask for this broker come to another container.")  # fmt: skip
            return
        there = self.published_at(listener)
        if any(port.host_port is None for port in there):
            self.setup.add_unchecked(f"{self.broker.name}: {one.name}: on which port of the host it is published")
            return
        if any(port.host_port == one.port for port in there):
            return
        if there:
            text = f"{one.name} advertises port {one.port}, but is published at port {there[0].host_port}"
            edits = one.value.change_entry(one.index, f":{one.port}", f":{there[0].host_port}")
            yield new_finding("published-port-differs", one.value, self.broker.name, text, edits)
            return
        yield from self._elsewhere(one, listener)

    def _elsewhere(self, one: ListenerEndpoint, listener: ListenerEndpoint) -> Iterator[LintFinding]:
        wrong = next((port for port in self.service.published_ports if port.host_port == one.port), None)
        if wrong is not None:
            # Containers reach a listener of theirs without a published port.
            told = [
                self.broker.advertised_endpoint(other.name)
                for other in self.broker.listeners
                if other.port == wrong.container_port
            ]
            free = all(other is not None and other.host in self.service.names for other in told)
            text = (
                f"port {one.port} of the host leads to port {wrong.container_port}, but {one.name} has {listener.port}"
            )
            edits = None
            if wrong.is_single and free:
                edits = _to_port(wrong, listener.port)
            yield new_finding("published-port-differs", wrong.value, self.broker.name, text, edits)
        elif one.kind is HostKind.LOOPBACK and not self.used(listener) and one.name != self.broker.inter_broker:
            text = f"{one.name} advertises {one.host}:{one.port}, and port {listener.port} is not published"
            edits = self._publish(one, listener)
            yield new_finding("port-not-published", one.value or self.broker.location, self.broker.name, text, edits,
                        f'- "{one.port}:{listener.port}"')  # fmt: skip

    def _publish(self, one: ListenerEndpoint, listener: ListenerEndpoint) -> list[Edit] | None:
        """One more line below `ports`."""
        last = self.service.published_ports[-1].value if self.service.published_ports else None
        if last is None or last.key_start >= 0 or not self.service.published_ports[-1].is_single:
            return None
        source = last.source
        start = source.line_start(last.start)
        line = source.text[start : source.line_end(last.end)]
        if line.strip().lstrip("- ").strip("\"'") != last.raw or last.source is not self.broker.location.source:
            return None
        new = source.text[start : last.start] + f"{one.port}:{listener.port}"
        new += source.text[last.end : source.line_end(last.end)] + source.newline
        at = source.next_line(last.end)
        return [Edit(source.name, at, at, new)] if source.text[:at].endswith(("\n", "\r")) else None

    # A container's name

    def inner_name(self, one: ListenerEndpoint, listener: ListenerEndpoint) -> Iterator[LintFinding]:
        there = self.published_at(listener)
        if not there or one.value is None or any(p.host_port == o.port for p in there for o in self._outer()):
            return
        clients, between = self.used(listener), one.name == self.broker.inter_broker and bool(self.others)
        text = f"{one.name} advertises {one.host}, and its port is published"
        port = there[0].host_port
        if any(self._at_host(other) for other in self._outer()):
            line = f"(without the published port {port or there[0].container_port})"
            why = "The host has a listener of its own. Through this port, its clients get a name of the containers."
            at, note = one.value, Severity.NOTE
            yield new_finding(
                "container-name-advertised", at, self.broker.name, text, None, line, severity=note, why=why
            )
            return
        edits = None
        if port is not None and not there[0].value.key and there[0].is_single:
            host = self.setup.advertise or "localhost"
            if clients or between:
                name, inside = self._free_name("HOST"), self._free_outer()
                groups = self._new_listener(one, name, f"{host}:{port}", inside)
                if self.broker.listeners_derived:
                    groups[0] = self.broker.settings["advertised.listeners"].add_entry(f"{name}://{host}:{inside}")
                    port = inside
                edits = combine(*groups, _to_port(there[0], inside, port))
            else:
                edits = one.value.change_entry(one.index, f"//{one.host}:{one.port_text}", f"//{host}:{port}")
        yield new_finding("container-name-advertised", one.value, self.broker.name, text, edits)

    def _at_host(self, one: ListenerEndpoint) -> bool:
        """Whether this listener is published at the port that it advertises."""
        listener = self.broker.listener(one.name)
        return listener is not None and any(port.host_port == one.port for port in self.published_at(listener))

    def _free_outer(self) -> int:
        taken = {one.port for one in self.broker.listeners} | {
            one.container_port for one in self.service.published_ports
        }
        return next(port for port in range(19092, 65536) if port not in taken)

    def _outer(self) -> list[ListenerEndpoint]:
        return [one for one in self.broker.client_endpoints if one.host not in self.service.names]


def _to_port(port: PublishedPort, inside: int | None, outside: int | None = None) -> list[Edit] | None:
    """Let a published port lead to another port of the container."""
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
        at = value.start + len(before) - len(str(port.host_port))
        edits.append(Edit(value.source.name, at, at + len(str(port.host_port)), str(outside)))
    return edits
