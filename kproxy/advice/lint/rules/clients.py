"""Rules for clients, compared with the brokers in the same files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from kproxy.advice.lint.client import BootstrapServer, ClientConfig, ClientLibrary
from kproxy.advice.lint.container import Container, Platform
from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import PROTOCOLS, BrokerConfig, Setup
from kproxy.advice.lint.rules import hosts
from kproxy.advice.lint.rules.jaas import change_module
from kproxy.advice.lint.rules.table import combine, finding
from kproxy.advice.lint.source import Edit
from kproxy.advice.remedies.ports import OTHER_SERVERS
from kproxy.base.diagnostic import Severity
from kproxy.base.faults import Fault

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM")
_ZOOKEEPER_PORTS = (2181, 2182)
# A broker may have one of these ports, but no broker has it by default.
_OTHER_PORTS = (8081, 8082, 8083, 8088, 9644, 33145)
# Confluent's Schema Registry wants the protocol before the address, and its other programs are used so.
_ALLOWING_SCHEME = re.compile(r"(?i).*kafkastore[._]bootstrap[._]servers|(control_center|ksql|kafka_rest|connect)_.*")
_PROTOCOL_KEYS = ("security.protocol", "sasl.jaas.config", "override.security.protocol")
# Images of programs without a broker in them.
_PROGRAM_IMAGES = re.compile(
    r"(?:^|/)(?:kafka-ui|akhq|kafkahq|kafdrop|kowl|cp-(?:schema-registry|kafka-rest|(?:kafka|server)-connect)[\w-]*"
    r"|(?:cp-)?ksqldb-server|kafka-exporter|cmak|debezium/connect|redpandadata/console)(?::|@|$)"
)
_GO_IMAGES = re.compile(r"(?:^|/)(?:kowl|kafka-exporter|burrow|redpandadata/console|vectorized/console)(?::|@|$)")
_ON_HOST = ("host.docker.internal", "gateway.docker.internal", "host.containers.internal")


def check(client: ClientConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    yield from check_settings(client)
    yield from check_servers(client)
    yield from hosts.check_client(client)
    yield from check_worker(client)
    servers = client.settings.get("bootstrap.servers")
    if servers is not None and not servers.is_known and not client.servers:
        setup.add_unchecked(f"{client.name}: {servers.key}: a placeholder or a variable without a value here")
    reached: list[tuple[BrokerConfig, ListenerEndpoint]] = []
    for server in client.servers:
        if server.port in _ZOOKEEPER_PORTS:
            continue
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
    protocol = client.settings.get("security.protocol")
    if protocol is not None and protocol.is_known and client.protocol not in PROTOCOLS:
        word = client.protocol
        likely = ("SASL_" if "SASL" in word else "") + ("SSL" if "SSL" in word or "TLS" in word else "PLAINTEXT")
        text = f"security.protocol is '{protocol.text}'"
        yield finding("client-protocol-unknown", protocol, client, text, protocol.replace(likely))
    yield from check_mechanism(client)
    servers = client.settings.get("bootstrap.servers") or client.settings.get("metadata.broker.list")
    if servers is not None and servers.is_known:
        valid_indexes = {server.index for server in client.servers}
        for index, entry in enumerate(servers.entries):
            if index not in valid_indexes:
                plain = ":" not in entry and "/" not in entry
                edits = servers.replace_entry(index, f"{entry}:9092") if plain else None
                text, line = f"'{entry}' is not HOST:PORT", f"{servers.key}=HOST:9092"
                yield finding("bootstrap-syntax", servers, client, text, edits, line)
    mechanism = client.settings.get("sasl.mechanism") or client.settings.get("sasl.jaas.config")
    of_variables = client.container is not None and client.container.location.source is client.location.source
    is_sure = not of_variables and (protocol is not None or client.complete)
    given = f"security.protocol is {client.protocol}"
    if protocol is None:
        given = "security.protocol is missing, which means PLAINTEXT"
    store = client.settings.get("ssl.truststore.location") or client.settings.get("ssl.ca.location")
    if mechanism is None and store is not None and is_sure and client.protocol == "PLAINTEXT":
        text, why = f"{store.key} is set, but {given}, which has no TLS", "The client uses no TLS."
        edits = protocol.replace("SSL") if protocol is not None else None
        warning, fault = Severity.WARNING, Fault.PLAINTEXT_TO_TLS
        line = "security.protocol=SSL"
        yield finding("client-protocol", store, client, text, edits, line, severity=warning, fault=fault, why=why)
    if mechanism is not None and client.protocol in ("PLAINTEXT", "SSL") and is_sure:
        text = f"{mechanism.key} is set, but {given}, which has no login"
        edits = protocol.replace(f"SASL_{client.protocol}") if protocol is not None else None
        line, why, warning = "security.protocol=SASL_SSL", "The client does not log in.", Severity.WARNING
        fault = Fault.LOGIN_NEEDED
        yield finding("client-protocol", mechanism, client, text, edits, line, severity=warning, fault=fault, why=why)


def check_mechanism(client: ClientConfig) -> Iterator[LintDiagnostic]:
    """Check the spelling of the mechanism. Others than Kafka's own exist, so only a name that is like one is wrong."""
    mechanism = client.settings.get("sasl.mechanism") or client.settings.get("sasl.mechanisms")
    if mechanism is None or not mechanism.is_known or mechanism.text in _MECHANISMS:
        return
    # librdkafka ignores the case.
    word = mechanism.text.strip().upper()
    if word in _MECHANISMS and client.library is ClientLibrary.LIBRDKAFKA:
        return
    likely = get_close_matches(word.replace("_", "-"), _MECHANISMS, n=1, cutoff=0.8)
    if likely:
        text = f"{mechanism.key} is '{mechanism.text}'"
        yield finding("client-mechanism-unknown", mechanism, client, text, mechanism.replace(likely[0]))


def check_servers(client: ClientConfig) -> Iterator[LintDiagnostic]:
    """Check the name of the setting, and the form and the port of each bootstrap server."""
    if client.servers_misspelt:
        value = client.settings["bootstrap.servers"]
        text = f"the program does not know {value.key}; it knows {value.key}s"
        yield finding(
            "client-setting-spelling", value, client, text, value.rename_key(f"{value.key}s"), f"{value.key}s"
        )
    for server in client.servers:
        scheme, sign, address = server.text.partition("://")
        # The REST Proxy's own example has schemes.
        is_rest = client.get("listeners").startswith("http") and scheme.upper() == client.protocol
        if sign and not is_rest and not re.match(_ALLOWING_SCHEME, server.value.key):
            text, edits = f"'{server.text}' has a scheme", server.value.replace_entry(server.index, address)
            # Which library the program in a container has is not known: most are Java's, and then it works.
            is_java = client.container is not None and scheme.upper() in PROTOCOLS and not _runs_go(client.container)
            severity = Severity.NOTE if is_java else None
            if scheme.upper() in PROTOCOLS and client.complete and scheme.upper() != client.protocol:
                text = f"{text} that is not security.protocol, which is {client.protocol}"
            line = f"{server.value.key}={address}"
            yield finding("bootstrap-scheme", server.value, client, text, edits, line, severity=severity)
        if server.port in _ZOOKEEPER_PORTS or server.port in _OTHER_PORTS:
            text = f"{server.text} has the port of {OTHER_SERVERS[server.port]}"
            severity = None if server.port in _ZOOKEEPER_PORTS else Severity.WARNING
            line = f"{server.host}:9092"
            yield finding("bootstrap-not-kafka", server.value, client, text, None, line, severity=severity)


def _runs_go(container: Container) -> bool:
    """Check for the image of a program in Go, whose clients take a scheme for a part of the name."""
    return container.image is not None and bool(_GO_IMAGES.search(container.image.text))


def check_worker(client: ClientConfig) -> Iterator[LintDiagnostic]:
    """Check that the connectors of a worker of Kafka Connect get the login and TLS that the worker has."""
    protocol = client.settings.get("security.protocol")
    if not client.is_worker or protocol is None or client.protocol not in PROTOCOLS or client.protocol == "PLAINTEXT":
        return
    if any(f"{part}.{key}" in client.settings for part in ("producer", "consumer") for key in _PROTOCOL_KEYS):
        return
    parts = [f"{part}.security.protocol" for part in ("producer", "consumer")]
    name = protocol.key if protocol.key.isupper() else ""
    keys = [name.replace("SECURITY", f"{part}_SECURITY", 1) for part in ("PRODUCER", "CONSUMER")] if name else parts
    text = f"the worker speaks {client.protocol}, but the producers and consumers of its connectors speak PLAINTEXT"
    lines = [f"{key}={client.protocol}" for key in keys]
    yield finding("connector-clients", protocol, client, text, None, [*lines, "(and so for all of sasl.* and ssl.*)"])


_LookupResult = tuple[tuple[BrokerConfig, ListenerEndpoint] | None, LintDiagnostic | None]


class _BootstrapLookup:
    """Looks up the broker that one bootstrap server of a client leads to."""

    def __init__(self, client: ClientConfig, server: BootstrapServer, setup: Setup) -> None:
        self.client = client
        self.server = server
        self.setup = setup
        self.uses_host_network = client.container is not None and client.container.uses_host_network
        self.in_container = client.container is not None and not client.container.uses_host_network

    def find_listener(self) -> _LookupResult:
        server, setup, brokers = self.server, self.setup, self.setup.brokers
        host = server.host.lower()
        named = [
            broker for broker in brokers if broker.container is not None and setup.leads_to(host, broker.container)
        ]
        if named and not self.uses_host_network:
            return self.find_in_network(named[0])
        if host_kind(host) is HostKind.LOOPBACK or host in _ON_HOST:
            return self.find_on_host(host)
        endpoints = [(broker, endpoint) for broker in brokers for endpoint in broker.client_endpoints]
        at_host = [(broker, endpoint) for broker, endpoint in endpoints if endpoint.host.lower() == host]
        for broker, endpoint in at_host:
            if endpoint.port == server.port:
                return (broker, endpoint), None
        if at_host and not any(broker.container for broker, _ in at_host):
            first = at_host[0][0]
            return self.no_listener(first, [endpoint for broker, endpoint in at_host if broker is first])
        if brokers:
            setup.add_unchecked(f"{self.client.name}: {server.text}: whether this name leads to one of the brokers")
        return None, None

    def find_in_network(self, broker: BrokerConfig) -> _LookupResult:
        container, client_container = broker.container, self.client.container
        assert container is not None
        if client_container is not None and not client_container.shares_network_with(container):
            if client_container.location.source is not container.location.source:
                return None, None
            other = f"service {container.name} in {_describe_networks(container)}"
            networks = f"{_describe_networks(client_container)}, and {other}"
            line = f"networks: [{', '.join(sorted(container.networks))}]"
            return self.problem("bootstrap-network", f"{self.client.name} is in {networks}", None, line)
        listener = next((endpoint for endpoint in broker.listeners if endpoint.port == self.server.port), None)
        if listener is not None and listener.name not in broker.controller_names:
            return (broker, listener), None
        if listener is None and any(endpoint.port is None for endpoint in broker.listeners):
            return None, None
        return self.no_listener(
            broker, broker.listeners, "bootstrap-port" if listener is None else "bootstrap-controller"
        )

    def find_on_host(self, host: str) -> _LookupResult:
        """Find the listener at `localhost`, or at a name that means the host of the containers."""
        brokers, own = self.setup.brokers, self.client.container
        if self.in_container and own is not None and host_kind(host) is HostKind.LOOPBACK:
            near = [broker for broker in brokers if broker.container and broker.container.shares_network_with(own)]
            image = own.image.text if own.image is not None else ""
            if not near and not (own.platform is Platform.COMPOSE and own.networks and _PROGRAM_IMAGES.search(image)):
                return None, None
            if not near:
                line = f"{self.server.value.key}: host.docker.internal:{self.server.port}"
                text = f"{self.client.name} looks for a broker at {self.server.text}"
                return self.problem("bootstrap-loopback", text, None, line)
            best, edits = _container_listener(near[0]), None
            if best is not None and near[0].container is not None:
                old, new = f"{self.server.host}:{self.server.port}", f"{near[0].container.name}:{best.port}"
                edits = self.server.value.change_entry(self.server.index, old, new)
            text = f"{self.client.name} looks for a broker at {self.server.text}"
            return self.problem("bootstrap-loopback", text, edits)
        for broker in brokers:
            for endpoint in broker.listeners:
                if self._is_at_host_port(broker, endpoint):
                    return (broker, endpoint), None
        containers = [broker.container for broker in brokers if broker.container is not None]
        if containers and len(containers) == len(brokers):
            ports = [port for container in containers for port in container.published_ports]
            if any(port.host_port is None for port in ports) or any(
                container.uses_host_network for container in containers
            ):
                return None, None
            endpoints = [endpoint for endpoint in brokers[0].client_endpoints if endpoint.kind is HostKind.LOOPBACK]
            return self.no_listener(brokers[0], endpoints)
        if not containers:
            kinds = [{endpoint.kind for endpoint in broker.client_endpoints} for broker in brokers]
            local = [broker for broker, of in zip(brokers, kinds, strict=True) if HostKind.LOOPBACK in of]
            if local and all(endpoint.port is not None for broker in local for endpoint in broker.listeners):
                return self.no_listener(local[0], local[0].client_endpoints)
        return None, None

    def _is_at_host_port(self, broker: BrokerConfig, endpoint: ListenerEndpoint) -> bool:
        """Check whether the listener is at this port of the host."""
        if endpoint.name in broker.controller_names:
            return False
        if broker.container is None or broker.container.uses_host_network:
            return endpoint.port == self.server.port
        ports = broker.container.published_ports
        return any(port.host_port == self.server.port and port.container_port == endpoint.port for port in ports)

    def no_listener(
        self, broker: BrokerConfig, endpoints: list[ListenerEndpoint], rule: str = "bootstrap-port"
    ) -> _LookupResult:
        usable = [endpoint for endpoint in broker.for_clients(endpoints) if endpoint.port]
        best = _container_listener(broker) if self.in_container else None
        if best is None or best not in endpoints:
            best = usable[0] if usable else None
        port = None if best is None else f":{best.port}"
        edits = self.server.value.change_entry(self.server.index, f":{self.server.port}", port) if port else None
        choices = ", ".join(f"{endpoint.name} {endpoint.port}" for endpoint in usable) or "none for clients there"
        text = f"{self.client.name} looks for a broker at {self.server.text}, but {broker.name} has {choices}"
        return self.problem(rule, text, edits)

    def problem(self, rule: str, text: str, edits: list[Edit] | None, line: str = "") -> _LookupResult:
        return None, finding(rule, self.server.value, self.client, text, edits, line)


def _describe_networks(container: Container) -> str:
    return "network " + " and ".join(sorted(container.networks)) if container.networks else "no network of the file"


def _container_listener(broker: BrokerConfig) -> ListenerEndpoint | None:
    """Return the listener for containers of the same network."""
    advertised = (endpoint for endpoint in broker.client_endpoints if endpoint.host in broker.container_names)
    return next((broker.listener(endpoint.name) for endpoint in advertised), None)


def check_protocol(client: ClientConfig, broker: BrokerConfig, endpoint: ListenerEndpoint) -> Iterator[LintDiagnostic]:
    """Check that client and listener have the same protocol and SASL mechanism."""
    protocol, own, setting = broker.protocol(endpoint.name), client.protocol, client.settings.get("security.protocol")
    if not protocol or own not in PROTOCOLS or (setting is None and client.container is not None):
        return
    location = setting or client.servers[0].value
    if own != protocol:
        edits = setting.replace(protocol) if setting is not None else None
        if setting is None and location.key == "bootstrap.servers":
            edits = location.insert_after([("security.protocol", protocol)])
        text = f"{client.name} speaks {own}, but {endpoint.name} of {broker.name} speaks {protocol}"
        line, fault = f"security.protocol={protocol}", _protocol_fault(own, protocol)
        yield finding("client-protocol", location, client, text, edits, line, fault=fault)
        return
    mechanism, enabled = client.settings.get("sasl.mechanism"), broker.mechanisms(endpoint.name)
    if protocol.startswith("SASL_") and enabled and broker.complete:
        asked = mechanism.text.upper() if mechanism is not None else "GSSAPI"
        if asked and asked not in enabled and "{" not in asked:
            edits = mechanism.replace(enabled[0]) if mechanism is not None and len(enabled) == 1 else None
            if "sasl.jaas.config" in client.settings:
                edits = combine(edits, change_module(client.settings["sasl.jaas.config"], enabled[0]))
            text = f"{client.name} logs in with {asked}, but {endpoint.name} of {broker.name} has {', '.join(enabled)}"
            line = f"sasl.mechanism={enabled[0]}"
            yield finding("client-mechanism", mechanism or location, client, text, edits, line)


def _protocol_fault(client: str, listener: str) -> Fault:
    if client.endswith("SSL") != listener.endswith("SSL"):
        return Fault.TLS_TO_PLAINTEXT if client.endswith("SSL") else Fault.PLAINTEXT_TO_TLS
    return Fault.LOGIN_NEEDED if listener.startswith("SASL_") else Fault.LOGIN_NOT_OFFERED
