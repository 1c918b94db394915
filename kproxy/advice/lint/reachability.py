"""The clients that can connect to each listener, as far as the files show it (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint
from kproxy.advice.lint.model import BrokerConfig, Setup
from kproxy.advice.lint.operators import STRIMZI, OperatorCluster, OperatorListener

YES, NO, IF_RESOLVES, UNKNOWN = "yes", "no", "if it resolves", "not known"


@dataclass(frozen=True, slots=True)
class ListenerReachability:
    """The reachability of one listener of one broker."""

    broker: str
    listener: str
    protocol: str
    advertised: str
    same_network: str
    """From the same container network, or inside Kubernetes."""
    host: str
    """From the machine that runs the broker or its container."""
    other_hosts: str
    """From another machine."""


def listener_reachability(setup: Setup) -> Iterator[ListenerReachability]:
    """Return one row for each listener for clients."""
    for broker in setup.brokers:
        for advertised in broker.client_endpoints:
            listener = broker.listener(advertised.name)
            near, host, far = (
                _broker_reachability(broker, advertised, listener) if listener is not None else (NO, NO, NO)
            )
            address = advertised.text.partition("://")[2]
            if advertised.kind is HostKind.EMPTY:
                address = f"<canonical name>{address}"
            yield ListenerReachability(
                broker.name, advertised.name, broker.protocol(advertised.name) or "?", address, near, host, far
            )
    for cluster in setup.clusters:
        assert isinstance(cluster, OperatorCluster)
        for kubernetes in cluster.listeners:
            yield _operator_reachability(cluster, kubernetes)


def _broker_reachability(
    broker: BrokerConfig, advertised: ListenerEndpoint, listener: ListenerEndpoint
) -> tuple[str, str, str]:
    kind, container = advertised.kind, broker.container
    if kind is HostKind.UNKNOWN or advertised.port is None or listener.port is None:
        return (UNKNOWN if container else "-", UNKNOWN, UNKNOWN)
    if kind is HostKind.WILDCARD:
        return (NO if container else "-", NO, NO)
    if container is None and broker.environment:  # a container, whose network and ports another file has
        near = IF_RESOLVES if kind in (HostKind.NAME, HostKind.IP) else NO
        return (near, UNKNOWN, UNKNOWN)
    if container is None or container.uses_host_network:
        return _machine_reachability(advertised, listener)
    ports = [
        port
        for port in container.published_ports
        if port.container_port == listener.port and port.host_port == advertised.port
    ]
    loopback = listener.kind is HostKind.LOOPBACK
    if advertised.host in container.names:
        return (YES if advertised.port == listener.port and not loopback else NO, NO, NO)
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


def _machine_reachability(advertised: ListenerEndpoint, listener: ListenerEndpoint) -> tuple[str, str, str]:
    if listener.kind is HostKind.LOOPBACK:
        return ("-", YES if advertised.kind is HostKind.LOOPBACK else NO, NO)
    if advertised.kind is HostKind.LOOPBACK:
        return ("-", YES, NO)
    if advertised.kind is HostKind.IP:
        return ("-", YES, YES)
    return ("-", YES if advertised.kind is HostKind.EMPTY else IF_RESOLVES, IF_RESOLVES)


def _operator_reachability(cluster: OperatorCluster, listener: OperatorListener) -> ListenerReachability:
    strimzi = cluster.operator == STRIMZI
    protocol = ("SASL_" if listener.authentication and listener.authentication.text not in ("tls", "mtls") else "") + (
        "SSL" if listener.has_tls else "PLAINTEXT"
    )
    outside = listener.kind not in ("internal", "cluster-ip", "")
    advertised = next((host.text for host in (*listener.advertised, *listener.hosts)), "")
    port = listener.port.text if listener.port is not None else ""
    inner = f"{cluster.name}-kafka-bootstrap:{port}" if strimzi else f"{cluster.name}:{port or '(its own port)'}"
    address = (advertised or f"by {listener.kind}") if outside else inner
    far = (IF_RESOLVES if advertised else YES) if outside else NO
    return ListenerReachability(cluster.name, listener.name, protocol, address, YES, "-", far)
