"""Rules for the resources of Kubernetes operators: Strimzi and Confluent for Kubernetes (CFK)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.endpoint import HostKind, host_kind
from kproxy.advice.lint.findings import LintFinding, Severity
from kproxy.advice.lint.model import Setup
from kproxy.advice.lint.operators import STRIMZI, OperatorCluster, OperatorListener
from kproxy.advice.lint.rules.table import combine, new_finding

_STRIMZI_TYPES = ("internal", "route", "loadbalancer", "nodeport", "ingress", "cluster-ip")
_CFK_TYPES = ("loadBalancer", "nodePort", "route", "staticForPortBasedRouting", "staticForHostBasedRouting")
# Ports that Strimzi uses itself.
_STRIMZI_TAKEN = (9404, 9999)
_CFK_RESERVED = ("internal", "external", "replication", "token", "controller")
# Ports of CFK's own listeners.
_CFK_PORTS = {"internal": 9071, "external": 9092, "replication": 9072, "token": 9073, "controller": 9074}
_FACTORS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "default.replication.factor",
)
_STRIMZIS_OWN = re.compile(
    r"listeners|advertised\..*|listener\..*|inter\.broker\.listener\.name|security\.inter\.broker\.protocol|node\.id"
    r"|broker\.id|process\.roles|controller\.quorum\.voters|controller\.listener\.names|zookeeper\.connect|host\.name|port"
    r"|log\.dirs?|sasl\..*|ssl\.(?!cipher\.suites|protocol|enabled\.protocols).*"
)
# CFK's examples set some of Strimzi's own, such as the JAAS entry of a listener.
_CFKS_OWN = re.compile(
    r"listeners|advertised\.listeners|listener\.security\.protocol\.map|inter\.broker\.listener\.name|node\.id"
    r"|process\.roles|controller\.listener\.names|controller\.quorum\.voters"
)


def check(cluster: OperatorCluster, setup: Setup) -> Iterator[LintFinding]:
    strimzi = cluster.operator == STRIMZI
    yield from uniqueness(cluster)
    for one in cluster.listeners:
        yield from (strimzi_listener(cluster, one) if strimzi else cfk_listener(cluster, one))
        yield from advertised(cluster, one)
    yield from settings(cluster)
    if strimzi and not cluster.listeners:
        line = "listeners: [{name: plain, port: 9092, type: internal, tls: false}]"
        why = "The operator refuses a Kafka without a list of listeners."
        text = "listeners is missing or no list"
        yield new_finding("operator-listener-name", cluster.location, cluster.name, text, None, line, why=why)
    if strimzi and cluster.zookeeper is not None:
        v1 = cluster.api is not None and cluster.api.text.endswith("/v1")
        text = "spec.zookeeper is set"
        severity = Severity.ERROR if v1 else Severity.WARNING
        line = "(without this section, and with a KafkaNodePool)"
        why = "Strimzi has no ZooKeeper since 0.46: brokers and controllers are KafkaNodePools."
        at = cluster.zookeeper
        yield new_finding("operator-version", at, cluster.name, text, None, line, severity=severity, why=why)


def uniqueness(cluster: OperatorCluster) -> Iterator[LintFinding]:
    names: dict[str, OperatorListener] = {}
    ports: dict[str, OperatorListener] = {}
    taken = {one.port.text for one in cluster.listeners if one.port is not None}
    for one in cluster.listeners:
        if one.name in names:
            text = f"two listeners are called {one.name}"
            edits = None
            if one.name_value is not None:
                edits = one.name_value.replace(f"{one.name}2")
            yield new_finding("operator-listener-name", one.name_value or one.location, cluster.name, text, edits)
        names.setdefault(one.name, one)
        if one.port is None:
            continue
        if one.port.text in ports:
            free = next(str(port) for port in range(9092, 65536) if str(port) not in taken)
            taken.add(free)
            text = f"{ports[one.port.text].name} and {one.name} both have port {one.port.text}"
            yield new_finding(
                "duplicate-port",
                one.port,
                cluster.name,
                text,
                one.port.replace(free),
                why="The operator refuses this.",
            )
        ports.setdefault(one.port.text, one)


def strimzi_listener(cluster: OperatorCluster, one: OperatorListener) -> Iterator[LintFinding]:
    if not re.fullmatch(r"[a-z0-9]{1,11}", one.name):
        at = one.name_value or one.location
        likely = re.sub(r"[^a-z0-9]", "", one.name.lower())[:11]
        edits = one.name_value.replace(likely) if one.name_value and likely else None
        long = re.fullmatch(r"[a-z0-9]{12,25}", one.name)
        if not long:  # newer versions of the operator allow 25 characters
            text = f"'{one.name}' is not 1 to 25 lower-case letters and digits"
            yield new_finding("operator-listener-name", at, cluster.name, text, edits, "name: plain")
    port = one.port.text if one.port is not None else ""
    if one.port is None:
        yield new_finding(
            "operator-listener-port", one.location, cluster.name, f"{one.name} has no port", None, "port: 9092"
        )
    elif not port.isdigit() or int(port) < 9092 or int(port) in _STRIMZI_TAKEN:
        taken = {other.port.text for other in cluster.listeners if other.port is not None}
        free = next(str(number) for number in range(9092, 9404) if str(number) not in taken)
        text = f"{one.name} has port {port}; allowed are 9092 and above, without 9404 and 9999"
        yield new_finding("operator-listener-port", one.port, cluster.name, text, one.port.replace(free))
    if one.kind not in _STRIMZI_TYPES:
        likely = one.kind.lower().replace("_", "-").replace("clusterip", "cluster-ip")
        edits = one.type.replace(likely) if one.type is not None and likely in _STRIMZI_TYPES else None
        text = f"{one.name} has the type '{one.kind}'; allowed: {', '.join(_STRIMZI_TYPES)}"
        yield new_finding(
            "operator-listener-type", one.type or one.location, cluster.name, text, edits, "type: internal"
        )
    if one.tls is None:
        why = "The operator refuses a listener without tls: true or tls: false."
        text = f"{one.name} does not say tls"
        yield new_finding("operator-listener-tls", one.location, cluster.name, text, None, "tls: false", why=why)
    elif one.kind in ("route", "ingress") and not one.has_tls:
        text = f"{one.name} is of type {one.kind} and has no TLS"
        yield new_finding("operator-listener-tls", one.tls, cluster.name, text, one.tls.replace("true"))
    if one.authentication is not None and one.authentication.text == "tls" and one.tls is not None and not one.has_tls:
        text = f"{one.name} has authentication of type tls, but no TLS"
        yield new_finding("operator-authentication", one.tls, cluster.name, text, one.tls.replace("true"))
    if one.kind == "ingress":
        if one.bootstrap_host is None:
            text = f"{one.name} is of type ingress, and configuration.bootstrap.host is missing"
            yield new_finding(
                "operator-host-missing", one.location, cluster.name, text, None, "bootstrap: {host: <name>}"
            )
        if cluster.replicas is not None and len(one.hosts) < cluster.replicas:
            text = f"{one.name} has hosts for {len(one.hosts)} of {cluster.replicas} brokers"
            lines = [f"- {{broker: {n}, host: <name>}}" for n in range(len(one.hosts), cluster.replicas)]
            yield new_finding("operator-host-missing", one.location, cluster.name, text, None, lines)


def cfk_listener(cluster: OperatorCluster, one: OperatorListener) -> Iterator[LintFinding]:
    own = one.name_value is None
    if not own and (one.name.lower() in _CFK_RESERVED or not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", one.name)):
        at = one.name_value or one.location
        text = f"'{one.name}' is not a name for a custom listener"
        yield new_finding("operator-listener-name", at, cluster.name, text, None, "name: customer")
    if not own:
        port = one.port.text if one.port is not None else ""
        if not port.isdigit() or int(port) < 9093:
            text = f"{one.name} has port {port or 'none'}; allowed are 9093 and above"
            edits = one.port.replace("9094") if one.port is not None else None
            yield new_finding(
                "operator-listener-port", one.port or one.location, cluster.name, text, edits, "port: 9094"
            )
    if one.type is None:
        return
    if one.kind not in _CFK_TYPES:
        likely = next((kind for kind in _CFK_TYPES if kind.lower() == one.kind.lower()), None)
        text = f"{one.name} has externalAccess of type '{one.kind}'; allowed: {', '.join(_CFK_TYPES)}"
        edits = one.type.replace(likely) if likely else None
        yield new_finding("operator-listener-type", one.type, cluster.name, text, edits, "type: loadBalancer")
    elif one.kind == "nodePort":
        if one.bootstrap_host is None:
            text = f"{one.name} is of type nodePort, and nodePort.host is missing"
            yield new_finding("operator-host-missing", one.type, cluster.name, text, None, "nodePort: {host: <name>}")
    elif one.domain is None and (one.kind != "staticForPortBasedRouting" or one.bootstrap_host is None):
        word = "host" if one.kind == "staticForPortBasedRouting" else "domain"
        text = f"{one.name} is of type {one.kind}, and {one.kind}.{word} is missing"
        yield new_finding(
            "operator-host-missing", one.type, cluster.name, text, None, f"{one.kind}: {{{word}: <name>}}"
        )
    if one.kind in ("route", "staticForHostBasedRouting") and not one.has_tls:
        text = f"{one.name} is of type {one.kind} and has no TLS"
        edits = one.tls.replace("true") if one.tls is not None else None
        yield new_finding(
            "operator-listener-tls", one.tls or one.type, cluster.name, text, edits, "tls: {enabled: true}"
        )


def advertised(cluster: OperatorCluster, one: OperatorListener) -> Iterator[LintFinding]:
    for host in (*one.advertised, *one.hosts, *((one.bootstrap_host,) if one.bootstrap_host else ())):
        if host_kind(host.text) in (HostKind.LOOPBACK, HostKind.WILDCARD):
            text = f"{one.name} advertises {host.text}"
            yield new_finding(
                "operator-advertised", host, cluster.name, text, None, f"{host.key}: <name that clients reach>"
            )


def settings(cluster: OperatorCluster) -> Iterator[LintFinding]:
    strimzi = cluster.operator == STRIMZI
    for key, value in cluster.config.items():
        if (_STRIMZIS_OWN if strimzi else _CFKS_OWN).fullmatch(key):
            text = f"{key} is a setting that {cluster.operator} makes"
            why = "" if strimzi else "This overrides what the operator makes: its listeners and services no longer fit."
            yield new_finding("operator-setting-ignored", value, cluster.name, text, value.remove(), why=why)
        elif key in _FACTORS and value.text.isdigit() and int(value.text) > (cluster.replicas or int(value.text)):
            said = "is 1 broker" if cluster.replicas == 1 else f"are {cluster.replicas} brokers"
            text = f"{key} is {value.text}, but there {said}"
            edits = combine(value.replace(str(cluster.replicas)))
            yield new_finding("replication-factor", value, cluster.name, text, edits)
