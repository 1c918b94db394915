"""Rules for clients, against the brokers that are in the same files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind
from kproxy.advice.lint.findings import LintFinding, Severity
from kproxy.advice.lint.model import (
    PROTOCOLS,
    BootstrapServer,
    BrokerConfig,
    ClientConfig,
    ClientPlacement,
    ComposeService,
    Setup,
)
from kproxy.advice.lint.rules.table import new_finding
from kproxy.advice.lint.source import Edit
from kproxy.advice.remedies.faults import Fault

_ON_HOST = ("host.docker.internal", "gateway.docker.internal", "host.containers.internal")


def check(client: ClientConfig, setup: Setup) -> Iterator[LintFinding]:
    yield from own(client)
    reached: list[tuple[BrokerConfig, ListenerEndpoint]] = []
    for server in client.servers:
        if host_kind(server.host) is HostKind.UNKNOWN or server.port is None:
            setup.add_unchecked(f"{client.name}: {server.text}: a variable without a value here")
            continue
        listener, finding = _BootstrapLookup(client, server, setup).meet()
        if finding is not None:
            yield finding
        if listener is not None:
            reached.append(listener)
    for broker, one in reached[:1]:
        yield from fits(client, broker, one)


def own(client: ClientConfig) -> Iterator[LintFinding]:
    """What is wrong without any broker."""
    given = client.settings.get("security.protocol")
    if given is not None and given.is_known and client.protocol not in PROTOCOLS:
        word = client.protocol
        likely = ("SASL_" if "SASL" in word else "") + ("SSL" if "SSL" in word or "TLS" in word else "PLAINTEXT")
        text = f"security.protocol is '{given.text}'"
        yield new_finding("client-protocol-unknown", given, client.name, text, given.replace(likely))
    servers = client.settings.get("bootstrap.servers") or client.settings.get("metadata.broker.list")
    if servers is not None and servers.is_known:
        good = {server.index for server in client.servers}
        for index, entry in enumerate(servers.entries):
            if index not in good:
                text = f"'{entry}' is not HOST:PORT"
                plain = ":" not in entry and "/" not in entry
                edits = servers.replace_entry(index, f"{entry}:9092") if plain else None
                yield new_finding("bootstrap-syntax", servers, client.name, text, edits, f"{servers.key}=HOST:9092")
    mechanism = client.settings.get("sasl.mechanism") or client.settings.get("sasl.jaas.config")
    if (
        mechanism is not None
        and client.protocol in ("PLAINTEXT", "SSL")
        and client.placement is ClientPlacement.ANYWHERE
    ):
        text = f"{mechanism.key} is set, but security.protocol is {client.protocol}, which has no login"
        edits = None
        if given is not None:
            edits = given.replace(f"SASL_{client.protocol}")
        yield new_finding("client-protocol", mechanism, client.name, text, edits, "security.protocol=SASL_SSL",
                    severity=Severity.WARNING, fault=Fault.LOGIN_NEEDED, why="The client does not log in.")  # fmt: skip


_MeetResult = tuple[tuple[BrokerConfig, ListenerEndpoint] | None, LintFinding | None]


class _BootstrapLookup:
    """One bootstrap server, and what is there."""

    def __init__(self, client: ClientConfig, server: BootstrapServer, setup: Setup) -> None:
        self.client = client
        self.server = server
        self.setup = setup
        self.inside = client.service is not None and not client.service.uses_host_network

    def meet(self) -> _MeetResult:
        server, setup = self.server, self.setup
        host = server.host.lower()
        named = [b for b in setup.brokers if b.service is not None and host in {n.lower() for n in b.service.names}]
        if named and not (self.client.service is not None and self.client.service.uses_host_network):
            return self.in_network(named[0])
        if host_kind(host) is HostKind.LOOPBACK or host in _ON_HOST:
            return self.uses_host_network(host)
        for broker in setup.brokers:
            for one in broker.client_endpoints:
                if one.host.lower() == host and one.port == server.port:
                    return (broker, one), None
        near = [b for b in setup.brokers if any(one.host.lower() == host for one in b.client_endpoints)]
        if near and not any(b.service for b in near):
            return None, self.no_listener(
                near[0], [one for one in near[0].client_endpoints if one.host.lower() == host]
            )
        if setup.brokers:
            setup.add_unchecked(f"{self.client.name}: {server.text}: whether this name leads to one of the brokers")
        return None, None

    def in_network(self, broker: BrokerConfig) -> _MeetResult:
        service, mine = broker.service, self.client.service
        assert service is not None
        if mine is not None and not mine.shares_network_with(service):
            if mine.location.source is not service.location.source:
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

    def uses_host_network(self, host: str) -> _MeetResult:
        """`localhost`, or a name that means the host of the containers."""
        if self.inside and host_kind(host) is HostKind.LOOPBACK:
            brokers = [b for b in self.setup.brokers if b.service is not None and self.client.service is not None
                       and b.service.shares_network_with(self.client.service)]  # fmt: skip
            if not brokers:
                return None, None
            best = _inner(brokers[0])
            edits = None
            if best is not None and brokers[0].service is not None:
                edits = self.server.value.change_entry(
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
            ports = [p for b in contained if b.service for p in b.service.published_ports]
            if any(port.host_port is None for port in ports) or any(
                b.service and b.service.uses_host_network for b in contained
            ):
                return None, None
            listeners = [one for one in contained[0].client_endpoints if host_kind(one.host) is HostKind.LOOPBACK]
            return None, self.no_listener(contained[0], listeners)
        if self.setup.brokers and not contained:
            local = [b for b in self.setup.brokers if any(one.kind is HostKind.LOOPBACK for one in b.client_endpoints)]
            if local and all(one.port is not None for b in local for one in b.listeners):
                return None, self.no_listener(local[0], local[0].client_endpoints)
        return None, None

    def _at_host(self, broker: BrokerConfig, one: ListenerEndpoint) -> bool:
        """Whether the listener is at this port of the host."""
        if one.name in broker.controller_names:
            return False
        if broker.service is None or broker.service.uses_host_network:
            return one.port == self.server.port
        ports = broker.service.published_ports
        return any(p.host_port == self.server.port and p.container_port == one.port for p in ports)

    def no_listener(
        self, broker: BrokerConfig, there: list[ListenerEndpoint], rule: str = "bootstrap-port"
    ) -> LintFinding:
        usable = [one for one in there if one.name not in broker.controller_names and one.port]
        best = _inner(broker) if self.inside else None
        if best is None or best not in there:
            best = usable[0] if usable else None
        edits: list[Edit] | None = None
        if best is not None:
            edits = self.server.value.change_entry(self.server.index, f":{self.server.port}", f":{best.port}")
        said = ", ".join(f"{one.name} {one.port}" for one in usable) or "none for clients there"
        text = f"{self.client.name} looks for a broker at {self.server.text}, but {broker.name} has {said}"
        return self.finding(rule, text, edits, "")

    def finding(self, rule: str, text: str, edits: list[Edit] | None, suggestion: str) -> LintFinding:
        return new_finding(rule, self.server.value, self.client.name, text, edits, suggestion)


def _nets(service: ComposeService) -> str:
    return "network " + " and ".join(sorted(service.networks)) if service.networks else "no network of the file"


def _inner(broker: BrokerConfig) -> ListenerEndpoint | None:
    """The listener for containers of the same network."""
    names = broker.service.names if broker.service is not None else frozenset()
    told = next((one for one in broker.client_endpoints if one.host in names), None)
    return broker.listener(told.name) if told is not None else None


def fits(client: ClientConfig, broker: BrokerConfig, one: ListenerEndpoint) -> Iterator[LintFinding]:
    """Whether the client speaks what the listener speaks."""
    protocol = broker.protocol(one.name)
    given = client.settings.get("security.protocol")
    if (
        not protocol
        or client.protocol not in PROTOCOLS
        or (given is None and client.placement is ClientPlacement.CONTAINER)
    ):
        return
    at = given or client.servers[0].value
    if client.protocol != protocol:
        edits = given.replace(protocol) if given is not None else None
        if given is None and client.servers[0].value.key == "bootstrap.servers":
            edits = at.insert_after([("security.protocol", protocol)])
        text = f"{client.name} speaks {client.protocol}, but {one.name} of {broker.name} speaks {protocol}"
        yield new_finding(
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
            edits = mechanism.replace(enabled[0]) if mechanism is not None and len(enabled) == 1 else None
            text = f"{client.name} logs in with {asked}, but {one.name} of {broker.name} has {', '.join(enabled)}"
            yield new_finding("client-mechanism", at, client.name, text, edits, f"sasl.mechanism={enabled[0]}")


def _clash(client: str, listener: str) -> Fault:
    if client.endswith("SSL") != listener.endswith("SSL"):
        return Fault.TLS_TO_PLAINTEXT if client.endswith("SSL") else Fault.PLAINTEXT_TO_TLS
    return Fault.LOGIN_NEEDED if listener.startswith("SASL_") else Fault.LOGIN_NOT_OFFERED
