"""Who can connect where: for each listener, which clients it serves, as far as the files say (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint
from kproxy.advice.lint.model import BrokerConfig, Setup
from kproxy.advice.lint.operators import STRIMZI, OperatorCluster, OperatorListener

YES, NO, IF_RESOLVES, UNKNOWN = "yes", "no", "if it resolves", "not known"


@dataclass(frozen=True, slots=True)
class ListenerReachability:
    """One listener of one broker. `near`: the same container network, or inside Kubernetes. `host`: the machine that
    the broker or its container runs on. `far`: another machine."""

    broker: str
    listener: str
    protocol: str
    advertised: str
    same_network: str
    host: str
    other_hosts: str


def listener_reachability(setup: Setup) -> Iterator[ListenerReachability]:
    """One row for each listener for clients."""
    for broker in setup.brokers:
        for one in broker.client_endpoints:
            listener = broker.listener(one.name)
            near, host, far = _of(broker, one, listener) if listener is not None else (NO, NO, NO)
            address = one.text.partition("://")[2]
            if one.kind is HostKind.EMPTY:
                address = f"<canonical name>{address}"
            yield ListenerReachability(
                broker.name, one.name, broker.protocol(one.name) or "?", address, near, host, far
            )
    for cluster in setup.clusters:
        assert isinstance(cluster, OperatorCluster)
        for kubernetes in cluster.listeners:
            yield _kubernetes(cluster, kubernetes)


def _of(broker: BrokerConfig, one: ListenerEndpoint, listener: ListenerEndpoint) -> tuple[str, str, str]:
    kind, service = one.kind, broker.service
    if kind is HostKind.UNKNOWN or one.port is None or listener.port is None:
        return (UNKNOWN if service else "-", UNKNOWN, UNKNOWN)
    if kind is HostKind.WILDCARD:
        return (NO if service else "-", NO, NO)
    if service is None or service.uses_host_network:
        return _on_a_machine(one, listener)
    ports = [p for p in service.published_ports if p.container_port == listener.port and p.host_port == one.port]
    loopback = listener.kind is HostKind.LOOPBACK
    if one.host in service.names:
        return (YES if one.port == listener.port and not loopback else NO, NO, NO)
    if kind is HostKind.EMPTY:
        return (IF_RESOLVES, NO, NO)
    if not ports or loopback:
        outside = IF_RESOLVES if kind in (HostKind.NAME, HostKind.IP) and not loopback else NO
        return (outside, outside, outside)
    if kind is HostKind.LOOPBACK:
        return (NO, YES, NO)
    far = NO if all(port.is_loopback_only for port in ports) else YES if kind is HostKind.IP else IF_RESOLVES
    same = YES if kind is HostKind.IP else IF_RESOLVES
    return (same, same, far)


def _on_a_machine(one: ListenerEndpoint, listener: ListenerEndpoint) -> tuple[str, str, str]:
    if listener.kind is HostKind.LOOPBACK:
        return ("-", YES if one.kind is HostKind.LOOPBACK else NO, NO)
    if one.kind is HostKind.LOOPBACK:
        return ("-", YES, NO)
    if one.kind is HostKind.IP:
        return ("-", YES, YES)
    return ("-", YES if one.kind is HostKind.EMPTY else IF_RESOLVES, IF_RESOLVES)


def _kubernetes(cluster: OperatorCluster, one: OperatorListener) -> ListenerReachability:
    strimzi = cluster.operator == STRIMZI
    protocol = ("SASL_" if one.authentication and one.authentication.text not in ("tls", "mtls") else "") + (
        "SSL" if one.has_tls else "PLAINTEXT"
    )
    outside = one.kind not in ("internal", "cluster-ip", "")
    told = next((host.text for host in (*one.advertised, *one.hosts)), "")
    port = one.port.text if one.port is not None else ""
    inner = f"{cluster.name}-kafka-bootstrap:{port}" if strimzi else f"{cluster.name}:{port or '(its own port)'}"
    address = (told or f"by {one.kind}") if outside else inner
    far = (IF_RESOLVES if told else YES) if outside else NO
    return ListenerReachability(cluster.name, one.name, protocol, address, YES, "-", far)
