"""Rules for clients, against the brokers that are in the same files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kproxy.advice.lint.endpoint import Endpoint, Host, kind_of
from kproxy.advice.lint.findings import Finding, Severity
from kproxy.advice.lint.model import PROTOCOLS, Broker, Client, Runs, Server, Service, Setup
from kproxy.advice.lint.rules.table import found
from kproxy.advice.lint.source import Edit
from kproxy.advice.remedies.faults import Fault

_ON_HOST = ("host.docker.internal", "gateway.docker.internal", "host.containers.internal")


def check(client: Client, setup: Setup) -> Iterator[Finding]:
    yield from own(client)
    reached: list[tuple[Broker, Endpoint]] = []
    for server in client.servers:
        if kind_of(server.host) is Host.UNKNOWN or server.port is None:
            setup.not_checked(f"{client.name}: {server.text}: a variable without a value here")
            continue
        listener, finding = _Meeting(client, server, setup).meet()
        if finding is not None:
            yield finding
        if listener is not None:
            reached.append(listener)
    for broker, one in reached[:1]:
        yield from fits(client, broker, one)


def own(client: Client) -> Iterator[Finding]:
    """What is wrong without any broker."""
    given = client.settings.get("security.protocol")
    if given is not None and given.known and client.protocol not in PROTOCOLS:
        word = client.protocol
        likely = ("SASL_" if "SASL" in word else "") + ("SSL" if "SSL" in word or "TLS" in word else "PLAINTEXT")
        text = f"security.protocol is '{given.text}'"
        yield found("client-protocol-unknown", given, client.name, text, given.replaced(likely))
    servers = client.settings.get("bootstrap.servers") or client.settings.get("metadata.broker.list")
    if servers is not None and servers.known:
        good = {server.index for server in client.servers}
        for index, entry in enumerate(servers.entries):
            if index not in good:
                text = f"'{entry}' is not HOST:PORT"
                plain = ":" not in entry and "/" not in entry
                edits = servers.entry_replaced(index, f"{entry}:9092") if plain else None
                yield found("bootstrap-syntax", servers, client.name, text, edits, f"{servers.key}=HOST:9092")
    mechanism = client.settings.get("sasl.mechanism") or client.settings.get("sasl.jaas.config")
    if mechanism is not None and client.protocol in ("PLAINTEXT", "SSL") and client.runs is Runs.ANYWHERE:
        text = f"{mechanism.key} is set, but security.protocol is {client.protocol}, which has no login"
        edits = None
        if given is not None:
            edits = given.replaced(f"SASL_{client.protocol}")
        yield found("client-protocol", mechanism, client.name, text, edits, "security.protocol=SASL_SSL",
                    severity=Severity.WARNING, fault=Fault.LOGIN_NEEDED, why="The client does not log in.")  # fmt: skip


_Met = tuple[tuple[Broker, Endpoint] | None, Finding | None]


class _Meeting:
    """One bootstrap server, and what is there."""

    def __init__(self, client: Client, server: Server, setup: Setup) -> None:
        self.client = client
        self.server = server
        self.setup = setup
        self.inside = client.service is not None and not client.service.on_host

    def meet(self) -> _Met:
        server, setup = self.server, self.setup
        host = server.host.lower()
        named = [b for b in setup.brokers if b.service is not None and host in {n.lower() for n in b.service.names}]
        if named and not (self.client.service is not None and self.client.service.on_host):
            return self.in_network(named[0])
        if kind_of(host) is Host.LOOPBACK or host in _ON_HOST:
            return self.on_host(host)
        for broker in setup.brokers:
            for one in broker.for_clients:
                if one.host.lower() == host and one.port == server.port:
                    return (broker, one), None
        near = [b for b in setup.brokers if any(one.host.lower() == host for one in b.for_clients)]
        if near and not any(b.service for b in near):
            return None, self.no_listener(near[0], [one for one in near[0].for_clients if one.host.lower() == host])
        if setup.brokers:
            setup.not_checked(f"{self.client.name}: {server.text}: whether this name leads to one of the brokers")
        return None, None

    def in_network(self, broker: Broker) -> _Met:
        service, mine = broker.service, self.client.service
        assert service is not None
        if mine is not None and not mine.shares_network(service):
            if mine.place.source is not service.place.source:
                return None, None
            text = f"{self.client.name} is in {_nets(mine)}, and service {service.name} in {_nets(service)}"
            return None, self.finding(
                "bootstrap-network", text, None, "networks: [" + ", ".join(sorted(service.networks)) + "]"
            )
        listener = next((one for one in broker.listeners if one.port == self.server.port), None)
        if listener is not None and listener.name in broker.controller_names:
            return None, self.no_listener(broker, broker.listeners, "bootstrap-controller")
        if listener is None:
            if any(one.port is None for one in broker.listeners):
                return None, None
            return None, self.no_listener(broker, broker.listeners)
        return (broker, listener), None

    def on_host(self, host: str) -> _Met:
        """`localhost`, or a name that means the host of the containers."""
        if self.inside and kind_of(host) is Host.LOOPBACK:
            brokers = [b for b in self.setup.brokers if b.service is not None and self.client.service is not None
                       and b.service.shares_network(self.client.service)]  # fmt: skip
            if not brokers:
                return None, None
            best = _inner(brokers[0])
            edits = None
            if best is not None and brokers[0].service is not None:
                edits = self.server.value.entry_changed(
                    self.server.index,
                    f"{self.server.host}:{self.server.port}",
                    f"{brokers[0].service.name}:{best.port}",
                )
            return None, self.finding(
                "bootstrap-loopback", f"{self.client.name} looks for a broker at {self.server.text}", edits, ""
            )
        contained = [b for b in self.setup.brokers if b.service is not None]
        for broker in self.setup.brokers:
            for one in broker.listeners:
                if self._at_host(broker, one):
                    return (broker, one), None
        if contained and len(contained) == len(self.setup.brokers):
            ports = [p for b in contained if b.service for p in b.service.published]
            if any(port.host_port is None for port in ports) or any(b.service and b.service.on_host for b in contained):
                return None, None
            listeners = [one for one in contained[0].for_clients if kind_of(one.host) is Host.LOOPBACK]
            return None, self.no_listener(contained[0], listeners)
        if self.setup.brokers and not contained:
            local = [b for b in self.setup.brokers if any(one.kind is Host.LOOPBACK for one in b.for_clients)]
            if local and all(one.port is not None for b in local for one in b.listeners):
                return None, self.no_listener(local[0], local[0].for_clients)
        return None, None

    def _at_host(self, broker: Broker, one: Endpoint) -> bool:
        """Whether the listener is at this port of the host."""
        if one.name in broker.controller_names:
            return False
        if broker.service is None or broker.service.on_host:
            return one.port == self.server.port
        ports = broker.service.published
        return any(p.host_port == self.server.port and p.container_port == one.port for p in ports)

    def no_listener(self, broker: Broker, there: list[Endpoint], rule: str = "bootstrap-port") -> Finding:
        usable = [one for one in there if one.name not in broker.controller_names and one.port]
        best = _inner(broker) if self.inside else None
        if best is None or best not in there:
            best = usable[0] if usable else None
        edits: list[Edit] | None = None
        if best is not None:
            edits = self.server.value.entry_changed(self.server.index, f":{self.server.port}", f":{best.port}")
        said = ", ".join(f"{one.name} {one.port}" for one in usable) or "none for clients there"
        text = f"{self.client.name} looks for a broker at {self.server.text}, but {broker.name} has {said}"
        return self.finding(rule, text, edits, "")

    def finding(self, rule: str, text: str, edits: list[Edit] | None, suggestion: str) -> Finding:
        return found(rule, self.server.value, self.client.name, text, edits, suggestion)


def _nets(service: Service) -> str:
    return "network " + " and ".join(sorted(service.networks)) if service.networks else "no network of the file"


def _inner(broker: Broker) -> Endpoint | None:
    """The listener for containers of the same network."""
    names = broker.service.names if broker.service is not None else frozenset()
    told = next((one for one in broker.for_clients if one.host in names), None)
    return broker.listener(told.name) if told is not None else None


def fits(client: Client, broker: Broker, one: Endpoint) -> Iterator[Finding]:
    """Whether the client speaks what the listener speaks."""
    protocol = broker.protocol(one.name)
    given = client.settings.get("security.protocol")
    if not protocol or client.protocol not in PROTOCOLS or (given is None and client.runs is Runs.CONTAINER):
        return
    at = given or client.servers[0].value
    if client.protocol != protocol:
        edits = given.replaced(protocol) if given is not None else None
        if given is None and client.servers[0].value.key == "bootstrap.servers":
            edits = at.followed([("security.protocol", protocol)])
        text = f"{client.name} speaks {client.protocol}, but {one.name} of {broker.name} speaks {protocol}"
        yield found(
            "client-protocol",
            at,
            client.name,
            text,
            edits,
            f"security.protocol={protocol}",
            fault=_clash(client.protocol, protocol),
        )
        return
    mechanism = client.settings.get("sasl.mechanism")
    enabled = broker.mechanisms(one.name)
    if protocol.startswith("SASL_") and enabled and broker.complete:
        asked = mechanism.text.upper() if mechanism is not None else "GSSAPI"
        if asked not in chain(enabled, ("",)) and "{" not in asked:
            at = mechanism or at
            edits = mechanism.replaced(enabled[0]) if mechanism is not None and len(enabled) == 1 else None
            text = f"{client.name} logs in with {asked}, but {one.name} of {broker.name} has {', '.join(enabled)}"
            yield found("client-mechanism", at, client.name, text, edits, f"sasl.mechanism={enabled[0]}")


def _clash(client: str, listener: str) -> Fault:
    if client.endswith("SSL") != listener.endswith("SSL"):
        return Fault.TLS_TO_PLAINTEXT if client.endswith("SSL") else Fault.PLAINTEXT_TO_TLS
    return Fault.LOGIN_NEEDED if listener.startswith("SASL_") else Fault.LOGIN_NOT_OFFERED
