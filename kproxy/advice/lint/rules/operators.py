"""Rules for the resources of Kubernetes operators: Strimzi and Confluent for Kubernetes (CFK)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.endpoint import HostKind, host_kind
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.helmvalues import ExternalAccess
from kproxy.advice.lint.operators import STRIMZI, OperatorCluster, OperatorListener
from kproxy.advice.lint.rules.table import finding
from kproxy.base.diagnostic import Severity

_STRIMZI_TYPES = ("internal", "route", "loadbalancer", "nodeport", "ingress", "cluster-ip")
_CFK_TYPES = ("loadBalancer", "nodePort", "route", "staticForPortBasedRouting", "staticForHostBasedRouting")
_OLD_API = re.compile(r"kafka\.strimzi\.io/v1(alpha1|beta1)")
# Ports that Strimzi uses itself.
_STRIMZI_PORTS = (9404, 9999)
_CFK_RESERVED = ("internal", "external", "replication", "token", "controller")
_FACTORS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "default.replication.factor",
)
_STRIMZI_SETTINGS = re.compile(
    r"listeners|advertised\..*|listener\..*|inter\.broker\.listener\.name|security\.inter\.broker\.protocol|node\.id"
    r"|broker\.id|process\.roles|controller\.quorum\.voters|controller\.listener\.names|zookeeper\.connect|host\.name|port"
    r"|log\.dirs?|sasl\..*|ssl\.(?!cipher\.suites|protocol|enabled\.protocols).*"
)
# CFK's examples set some of Strimzi's own, such as the JAAS entry of a listener.
_CFK_SETTINGS = re.compile(
    r"listeners|advertised\.listeners|listener\.security\.protocol\.map|inter\.broker\.listener\.name|node\.id"
    r"|process\.roles|controller\.listener\.names|controller\.quorum\.voters"
)


def check(cluster: OperatorCluster) -> Iterator[LintDiagnostic]:
    strimzi = cluster.operator == STRIMZI
    yield from check_uniqueness(cluster)
    for listener in cluster.listeners:
        yield from (check_strimzi_listener(cluster, listener) if strimzi else check_cfk_listener(cluster, listener))
        yield from check_advertised(cluster, listener)
    yield from check_settings(cluster)
    if strimzi and not cluster.listeners:
        line = "listeners: [{name: plain, port: 9092, type: internal, tls: false}]"
        why = "The operator refuses a Kafka without a list of listeners."
        text = "listeners is missing or no list"
        yield finding("operator-listener-name", cluster.location, cluster, text, None, line, why=why)
    if strimzi and cluster.api is not None and _OLD_API.fullmatch(cluster.api.text):
        text, why = f"the version of the resource is {cluster.api.text}", "Strimzi has no such version since 0.23."
        edits = cluster.api.replace("kafka.strimzi.io/v1beta2")
        yield finding("operator-version", cluster.api, cluster, text, edits, severity=Severity.ERROR, why=why)
    if strimzi and cluster.zookeeper is not None:
        v1 = cluster.api is not None and cluster.api.text.endswith("/v1")
        text = "spec.zookeeper is set"
        severity = Severity.ERROR if v1 else Severity.WARNING
        line = "(without this section, and with a KafkaNodePool)"
        why = "Strimzi has no ZooKeeper since 0.46: brokers and controllers are KafkaNodePools."
        location = cluster.zookeeper
        yield finding("operator-version", location, cluster, text, None, line, severity=severity, why=why)


def check_uniqueness(cluster: OperatorCluster) -> Iterator[LintDiagnostic]:
    names: dict[str, OperatorListener] = {}
    ports: dict[str, OperatorListener] = {}
    taken = {listener.port.text for listener in cluster.listeners if listener.port is not None}
    for listener in cluster.listeners:
        if names.setdefault(listener.name, listener) is not listener:
            value = listener.name_value
            edits = value.replace(f"{listener.name}2") if value is not None else None
            text = f"two listeners are called {listener.name}"
            yield finding("operator-listener-name", value or listener.location, cluster, text, edits)
        if listener.port is None:
            continue
        port = listener.port.text
        if (first := ports.setdefault(port, listener)) is not listener:
            free = next(str(number) for number in range(9092, 65536) if str(number) not in taken)
            taken.add(free)
            text, why = f"{first.name} and {listener.name} both have port {port}", "The operator refuses this."
            yield finding("duplicate-port", listener.port, cluster, text, listener.port.replace(free), why=why)


def check_strimzi_listener(cluster: OperatorCluster, listener: OperatorListener) -> Iterator[LintDiagnostic]:
    name, kind = listener.name, listener.kind
    if not re.fullmatch(r"[a-z0-9]{1,25}", name):  # older versions of the operator allow 11 characters
        likely = re.sub(r"[^a-z0-9]", "", name.lower())[:11]
        edits = listener.name_value.replace(likely) if listener.name_value and likely else None
        text = f"'{name}' is not 1 to 25 lower-case letters and digits"
        location = listener.name_value or listener.location
        yield finding("operator-listener-name", location, cluster, text, edits, "name: plain")
    if listener.port is None:
        text = f"{name} has no port"
        yield finding("operator-listener-port", listener.location, cluster, text, None, "port: 9092")
    elif (
        not listener.port.text.isdigit() or int(listener.port.text) < 9092 or int(listener.port.text) in _STRIMZI_PORTS
    ):
        taken = {other.port.text for other in cluster.listeners if other.port is not None}
        free = next(str(number) for number in range(9092, 9404) if str(number) not in taken)
        text = f"{name} has port {listener.port.text}; allowed are 9092 and above, without 9404 and 9999"
        yield finding("operator-listener-port", listener.port, cluster, text, listener.port.replace(free))
    if kind not in _STRIMZI_TYPES:
        likely = kind.lower().replace("_", "-").replace("clusterip", "cluster-ip")
        edits = listener.type.replace(likely) if listener.type is not None and likely in _STRIMZI_TYPES else None
        text = f"{name} has the type '{kind}'; allowed: {', '.join(_STRIMZI_TYPES)}"
        location = listener.type or listener.location
        yield finding("operator-listener-type", location, cluster, text, edits, "type: internal")
    if listener.tls is None:
        why = "The operator refuses a listener without tls: true or tls: false."
        text = f"{name} does not say tls"
        yield finding("operator-listener-tls", listener.location, cluster, text, None, "tls: false", why=why)
    elif not listener.has_tls:
        if kind in ("route", "ingress"):
            text = f"{name} is of type {kind} and has no TLS"
            yield finding("operator-listener-tls", listener.tls, cluster, text, listener.tls.replace("true"))
        if listener.authentication is not None and listener.authentication.text == "tls":
            text = f"{name} has authentication of type tls, but no TLS"
            yield finding("operator-authentication", listener.tls, cluster, text, listener.tls.replace("true"))
    yield from check_strimzi_hosts(cluster, listener)


def check_strimzi_hosts(cluster: OperatorCluster, listener: OperatorListener) -> Iterator[LintDiagnostic]:
    """Check the hosts of a listener, which only routes and ingresses have."""
    name, kind = listener.name, listener.kind
    if kind in _STRIMZI_TYPES and kind not in ("route", "ingress"):
        bootstrap = (listener.bootstrap_host,) if listener.bootstrap_host is not None else ()
        for host in (*bootstrap, *listener.hosts):
            text = f"{name} is of type {kind}, and configuration has a host"
            why = "Strimzi refuses host in a listener that is no route and no ingress. Clients get advertisedHost."
            yield finding("operator-listener-type", host, cluster, text, None, "advertisedHost: <name>", why=why)
    if kind == "ingress":
        if listener.bootstrap_host is None:
            text = f"{name} is of type ingress, and configuration.bootstrap.host is missing"
            yield finding("operator-host-missing", listener.location, cluster, text, None, "bootstrap: {host: <name>}")
        count = len(listener.hosts)
        if cluster.replicas is not None and count < cluster.replicas:
            text = f"{name} has hosts for {count} of {cluster.replicas} brokers"
            lines = [f"- {{broker: {number}, host: <name>}}" for number in range(count, cluster.replicas)]
            yield finding("operator-host-missing", listener.location, cluster, text, None, lines)


def check_cfk_listener(cluster: OperatorCluster, listener: OperatorListener) -> Iterator[LintDiagnostic]:
    name, kind = listener.name, listener.kind
    if listener.name_value is not None:
        if name.lower() in _CFK_RESERVED or not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name):
            text = f"'{name}' is not a name for a custom listener"
            yield finding("operator-listener-name", listener.name_value, cluster, text, None, "name: customer")
        port = listener.port.text if listener.port is not None else ""
        if not port.isdigit() or int(port) < 9093:
            text = f"{name} has port {port or 'none'}; allowed are 9093 and above"
            edits = listener.port.replace("9094") if listener.port is not None else None
            location = listener.port or listener.location
            yield finding("operator-listener-port", location, cluster, text, edits, "port: 9094")
    if listener.type is None:
        return
    if kind not in _CFK_TYPES:
        likely = next((type_ for type_ in _CFK_TYPES if type_.lower() == kind.lower()), None)
        text = f"{name} has externalAccess of type '{kind}'; allowed: {', '.join(_CFK_TYPES)}"
        edits = listener.type.replace(likely) if likely else None
        yield finding("operator-listener-type", listener.type, cluster, text, edits, "type: loadBalancer")
    else:
        word = "host" if kind in ("nodePort", "staticForPortBasedRouting") else "domain"
        if listener.bootstrap_host is None if word == "host" else listener.domain is None:
            text, line = f"{name} is of type {kind}, and {kind}.{word} is missing", f"{kind}: {{{word}: <name>}}"
            yield finding("operator-host-missing", listener.type, cluster, text, None, line)
    if kind in ("route", "staticForHostBasedRouting") and not listener.has_tls:
        text = f"{name} is of type {kind} and has no TLS"
        edits = listener.tls.replace("true") if listener.tls is not None else None
        yield finding(
            "operator-listener-tls", listener.tls or listener.type, cluster, text, edits, "tls: {enabled: true}"
        )


def check_advertised(cluster: OperatorCluster, listener: OperatorListener) -> Iterator[LintDiagnostic]:
    bootstrap = (listener.bootstrap_host,) if listener.bootstrap_host else ()
    for host in (*listener.advertised, *listener.hosts, *bootstrap):
        if host_kind(host.text) in (HostKind.LOOPBACK, HostKind.WILDCARD):
            text = f"{listener.name} advertises {host.text}"
            yield finding("operator-advertised", host, cluster, text, None, f"{host.key}: <name that clients reach>")


def check_settings(cluster: OperatorCluster) -> Iterator[LintDiagnostic]:
    strimzi = cluster.operator == STRIMZI
    for key, value in cluster.config.items():
        if (_STRIMZI_SETTINGS if strimzi else _CFK_SETTINGS).fullmatch(key):
            text = f"{key} is a setting that {cluster.operator} makes"
            why = "" if strimzi else "This overrides what the operator makes: its listeners and services no longer fit."
            yield finding("operator-setting-ignored", value, cluster, text, value.remove(), why=why)
        elif key in _FACTORS and value.text.isdigit() and int(value.text) > (cluster.replicas or int(value.text)):
            phrase = "is 1 broker" if cluster.replicas == 1 else f"are {cluster.replicas} brokers"
            text = f"{key} is {value.text}, but there {phrase}"
            yield finding("replication-factor", value, cluster, text, value.replace(str(cluster.replicas)))


def check_external_access(access: ExternalAccess) -> Iterator[LintDiagnostic]:
    """Check what Bitnami's chart checks itself (`kafka.validateValues` in its templates)."""
    for value in access.outside:
        text = f"{value.key} stands beside externalAccess, where it has nothing to do with it"
        why = "The chart reads these settings from externalAccess itself. Here they have another meaning, or none."
        line = f"externalAccess: {{enabled: true, {value.key}: ...}}"
        yield finding("chart-external-access", value, access, text, None, line, why=why)
    kind = access.type.text if access.type is not None else ""
    location = access.type or access.location
    wanted = {"NodePort": ("nodePorts", "externalIPs"), "LoadBalancer": ("loadBalancerIPs", "loadBalancerNames")}
    if kind == "ClusterIP" and (access.domain is None or not access.domain.text):
        text = "externalAccess is of type ClusterIP, and domain is missing"
        yield finding("chart-external-access", location, access, text, None, "domain: kafka.example.com")
    if access.has_discovery and not access.has_rights:
        text = "autoDiscovery is enabled, and rbac.create is not: it may not ask Kubernetes for the addresses"
        yield finding("chart-external-access", location, access, text, None, "rbac: {create: true}")
    if kind not in wanted or access.has_discovery:
        return
    lists = [(name, entries) for name, entries in access.addresses if name in wanted[kind]]
    choice = " or ".join(wanted[kind])
    if not lists and access.replicas != 0:
        text = f"externalAccess is of type {kind}, and {choice} and autoDiscovery are missing"
        yield finding(
            "chart-external-access", location, access, text, None, f"{wanted[kind][0]}: [<one for each broker>]"
        )
    for name, entries in lists:
        line = f"{name}: [<one for each broker>]"
        if access.replicas is not None and len(entries) != access.replicas:
            text = f"{name} has {len(entries)} entries for {access.replicas} brokers"
            yield finding("chart-external-access", location, access, text, None, line)
        twice = next((entry for number, entry in enumerate(entries) if entry in entries[:number]), None)
        if name == "nodePorts" and twice is not None:
            text = f"nodePorts has {twice} twice: a port of the nodes leads to one broker"
            yield finding("chart-external-access", location, access, text, None, line)
