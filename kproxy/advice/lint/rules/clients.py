"""Rules for clients, compared with the brokers in the same files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import (
    PROTOCOLS,
    BootstrapServer,
    BrokerConfig,
    ClientConfig,
    ClientPlacement,
    ComposeService,
    Setup,
)
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.source import Edit
from kproxy.base.diagnostic import Severity
from kproxy.base.faults import Fault

_ON_HOST = ("host.docker.internal", "gateway.docker.internal", "host.containers.internal")


def check(client: ClientConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    yield from check_settings(client)
    reached: list[tuple[BrokerConfig, ListenerEndpoint]] = []
    for server in client.servers:
        if host_kind(server.host) is HostKind.UNKNOWN or server.port is None:
            setup.add_unchecked(f"{client.name}: {server.text}: a variable without a value here")
            continue
        listener, problem = _BootstrapLookup(client, server, setup).find_listener()
        if problem is not None:
            yield problem
        if listener is not None:
            reached.append(listener)
    for broker, endpoint in reached[:1]:
        yield from check_protocol(client, broker, endpoint)


def check_settings(client: ClientConfig) -> Iterator[LintDiagnostic]:
    """Check a client's settings by themselves, without any broker."""
    protocol_setting = client.settings.get("security.protocol")
    if protocol_setting is not None and protocol_setting.is_known and client.protocol not in PROTOCOLS:
        word = client.protocol
        likely = ("SASL_" if "SASL" in word else "") + ("SSL" if "SSL" in word or "TLS" in word else "PLAINTEXT")
        text = f"security.protocol is '{protocol_setting.text}'"
        yield finding("client-protocol-unknown", protocol_setting, client, text, protocol_setting.replace(likely))
    servers = client.settings.get("bootstrap.servers") or client.settings.get("metadata.broker.list")
    if servers is not None and servers.is_known:
        valid_indexes = {server.index for server in client.servers}
        for index, entry in enumerate(servers.entries):
            if index not in valid_indexes:
                text = f"'{entry}' is not HOST:PORT"
                plain = ":" not in entry and "/" not in entry
                edits = servers.replace_entry(index, f"{entry}:9092") if plain else None
                yield finding("bootstrap-syntax", servers, client, text, edits, f"{servers.key}=HOST:9092")
    mechanism = client.settings.get("sasl.mechanism") or client.settings.get("sasl.jaas.config")
    if (
        mechanism is not None
        and client.protocol in ("PLAINTEXT", "SSL")
        and client.placement is ClientPlacement.ANYWHERE
    ):
        text = f"{mechanism.key} is set, but security.protocol is {client.protocol}, which has no login"
        edits = None
        if protocol_setting is not None:
            edits = protocol_setting.replace(f"SASL_{client.protocol}")
        yield finding(
            "client-protocol",
            mechanism,
            client,
            text,
            edits,
            "security.protocol=SASL_SSL",
            severity=Severity.WARNING,
            fault=Fault.LOGIN_NEEDED,
            why="The client does not log in.",
        )


_LookupResult = tuple[tuple[BrokerConfig, ListenerEndpoint] | None, LintDiagnostic | None]


class _BootstrapLookup:
    """Looks up the broker that one bootstrap server of a client leads to."""

    def __init__(self, client: ClientConfig, server: BootstrapServer, setup: Setup) -> None:
        self.client = client
        self.server = server
        self.setup = setup
        self.in_container = client.service is not None and not client.service.uses_host_network

    def find_listener(self) -> _LookupResult:
        server, setup = self.server, self.setup
        host = server.host.lower()
        named = [
            broker
            for broker in setup.brokers
            if broker.service is not None and host in {name.lower() for name in broker.service.names}
        ]
        if named and not (self.client.service is not None and self.client.service.uses_host_network):
            return self.find_in_network(named[0])
        if host_kind(host) is HostKind.LOOPBACK or host in _ON_HOST:
            return self.find_on_host(host)
        for broker in setup.brokers:
            for endpoint in broker.client_endpoints:
                if endpoint.host.lower() == host and endpoint.port == server.port:
                    return (broker, endpoint), None
        same_host = [
            broker
            for broker in setup.brokers
            if any(endpoint.host.lower() == host for endpoint in broker.client_endpoints)
        ]
        if same_host and not any(broker.service for broker in same_host):
            return None, self.no_listener_finding(
                same_host[0], [endpoint for endpoint in same_host[0].client_endpoints if endpoint.host.lower() == host]
            )
        if setup.brokers:
            setup.add_unchecked(f"{self.client.name}: {server.text}: whether this name leads to one of the brokers")
        return None, None

    def find_in_network(self, broker: BrokerConfig) -> _LookupResult:
        service, client_service = broker.service, self.client.service
        assert service is not None
        if client_service is not None and not client_service.shares_network_with(service):
            if client_service.location.source is not service.location.source:
                return None, None
            client_networks, networks = _describe_networks(client_service), _describe_networks(service)
            text = f"{self.client.name} is in {client_networks}, and service {service.name} in {networks}"
            return None, self.finding(
                "bootstrap-network", text, None, "networks: [" + ", ".join(sorted(service.networks)) + "]"
            )
        listener = next((endpoint for endpoint in broker.listeners if endpoint.port == self.server.port), None)
        if listener is not None and listener.name in broker.controller_names:
            return None, self.no_listener_finding(broker, broker.listeners, "bootstrap-controller")
        if listener is None:
            if any(endpoint.port is None for endpoint in broker.listeners):
                return None, None
            return None, self.no_listener_finding(broker, broker.listeners)
        return (broker, listener), None

    def find_on_host(self, host: str) -> _LookupResult:
        """Find the listener at `localhost`, or at a name that means the host of the containers."""
        if self.in_container and host_kind(host) is HostKind.LOOPBACK:
            brokers = [
                broker
                for broker in self.setup.brokers
                if broker.service is not None
                and self.client.service is not None
                and broker.service.shares_network_with(self.client.service)
            ]
            if not brokers:
                return None, None
            best = _container_listener(brokers[0])
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
        contained = [broker for broker in self.setup.brokers if broker.service is not None]
        for broker in self.setup.brokers:
            for endpoint in broker.listeners:
                if self._is_at_host_port(broker, endpoint):
                    return (broker, endpoint), None
        if contained and len(contained) == len(self.setup.brokers):
            ports = [port for broker in contained if broker.service for port in broker.service.published_ports]
            if any(port.host_port is None for port in ports) or any(
                broker.service and broker.service.uses_host_network for broker in contained
            ):
                return None, None
            listeners = [
                endpoint for endpoint in contained[0].client_endpoints if host_kind(endpoint.host) is HostKind.LOOPBACK
            ]
            return None, self.no_listener_finding(contained[0], listeners)
        if self.setup.brokers and not contained:
            local = [
                broker
                for broker in self.setup.brokers
                if any(endpoint.kind is HostKind.LOOPBACK for endpoint in broker.client_endpoints)
            ]
            if local and all(endpoint.port is not None for broker in local for endpoint in broker.listeners):
                return None, self.no_listener_finding(local[0], local[0].client_endpoints)
        return None, None

    def _is_at_host_port(self, broker: BrokerConfig, endpoint: ListenerEndpoint) -> bool:
        """Check whether the listener is at this port of the host."""
        if endpoint.name in broker.controller_names:
            return False
        if broker.service is None or broker.service.uses_host_network:
            return endpoint.port == self.server.port
        ports = broker.service.published_ports
        return any(port.host_port == self.server.port and port.container_port == endpoint.port for port in ports)

    def no_listener_finding(
        self, broker: BrokerConfig, endpoints: list[ListenerEndpoint], rule: str = "bootstrap-port"
    ) -> LintDiagnostic:
        usable = [endpoint for endpoint in endpoints if endpoint.name not in broker.controller_names and endpoint.port]
        best = _container_listener(broker) if self.in_container else None
        if best is None or best not in endpoints:
            best = usable[0] if usable else None
        edits: list[Edit] | None = None
        if best is not None:
            edits = self.server.value.change_entry(self.server.index, f":{self.server.port}", f":{best.port}")
        choices = ", ".join(f"{endpoint.name} {endpoint.port}" for endpoint in usable) or "none for clients there"
        text = f"{self.client.name} looks for a broker at {self.server.text}, but {broker.name} has {choices}"
        return self.finding(rule, text, edits, "")

    def finding(self, rule: str, text: str, edits: list[Edit] | None, suggestion: str) -> LintDiagnostic:
        return finding(rule, self.server.value, self.client, text, edits, suggestion)


def _describe_networks(service: ComposeService) -> str:
    return "network " + " and ".join(sorted(service.networks)) if service.networks else "no network of the file"


def _container_listener(broker: BrokerConfig) -> ListenerEndpoint | None:
    """Return the listener for containers of the same network."""
    names = broker.service.names if broker.service is not None else frozenset()
    advertised = next((endpoint for endpoint in broker.client_endpoints if endpoint.host in names), None)
    return broker.listener(advertised.name) if advertised is not None else None


def check_protocol(client: ClientConfig, broker: BrokerConfig, endpoint: ListenerEndpoint) -> Iterator[LintDiagnostic]:
    """Check that client and listener have the same protocol and SASL mechanism."""
    protocol = broker.protocol(endpoint.name)
    protocol_setting = client.settings.get("security.protocol")
    if (
        not protocol
        or client.protocol not in PROTOCOLS
        or (protocol_setting is None and client.placement is ClientPlacement.CONTAINER)
    ):
        return
    setting = protocol_setting or client.servers[0].value
    if client.protocol != protocol:
        edits = protocol_setting.replace(protocol) if protocol_setting is not None else None
        if protocol_setting is None and client.servers[0].value.key == "bootstrap.servers":
            edits = setting.insert_after([("security.protocol", protocol)])
        text = f"{client.name} speaks {client.protocol}, but {endpoint.name} of {broker.name} speaks {protocol}"
        yield finding(
            "client-protocol",
            setting,
            client,
            text,
            edits,
            f"security.protocol={protocol}",
            fault=_protocol_fault(client.protocol, protocol),
        )
        return
    mechanism = client.settings.get("sasl.mechanism")
    enabled = broker.mechanisms(endpoint.name)
    if protocol.startswith("SASL_") and enabled and broker.complete:
        asked = mechanism.text.upper() if mechanism is not None else "GSSAPI"
        if asked not in chain(enabled, ("",)) and "{" not in asked:
            setting = mechanism or setting
            edits = mechanism.replace(enabled[0]) if mechanism is not None and len(enabled) == 1 else None
            text = f"{client.name} logs in with {asked}, but {endpoint.name} of {broker.name} has {', '.join(enabled)}"
            yield finding("client-mechanism", setting, client, text, edits, f"sasl.mechanism={enabled[0]}")


def _protocol_fault(client: str, listener: str) -> Fault:
    if client.endswith("SSL") != listener.endswith("SSL"):
        return Fault.TLS_TO_PLAINTEXT if client.endswith("SSL") else Fault.PLAINTEXT_TO_TLS
    return Fault.LOGIN_NEEDED if listener.startswith("SASL_") else Fault.LOGIN_NOT_OFFERED
