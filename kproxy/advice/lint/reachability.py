"""Who can connect where: for each listener, which clients it serves, as far as the files say (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kproxy.advice.lint.endpoint import Endpoint, Host
from kproxy.advice.lint.model import Broker, Setup
from kproxy.advice.lint.operators import STRIMZI, Cluster, OperatorListener

YES, NO, IF_RESOLVES, UNKNOWN = "yes", "no", "if it resolves", "not known"


@dataclass(frozen=True, slots=True)
class Row:
    """One listener of one broker. `near`: the same container network, or inside Kubernetes. `host`: the machine that
    the broker or its container runs on. `far`: another machine."""

    broker: str
    listener: str
    protocol: str
    advertised: str
    near: str
    host: str
    far: str


def rows(setup: Setup) -> Iterator[Row]:
    """One row for each listener for clients."""
    for broker in setup.brokers:
        for one in broker.for_clients:
            listener = broker.listener(one.name)
            near, host, far = _of(broker, one, listener) if listener is not None else (NO, NO, NO)
            address = one.text.partition("://")[2]
            if one.kind is Host.EMPTY:
                address = f"<canonical name>{address}"
            yield Row(broker.name, one.name, broker.protocol(one.name) or "?", address, near, host, far)
    for cluster in setup.clusters:
        assert isinstance(cluster, Cluster)
        for kubernetes in cluster.listeners:
            yield _kubernetes(cluster, kubernetes)


def _of(broker: Broker, one: Endpoint, listener: Endpoint) -> tuple[str, str, str]:
    kind, service = one.kind, broker.service
    if kind is Host.UNKNOWN or one.port is None or listener.port is None:
        return (UNKNOWN if service else "-", UNKNOWN, UNKNOWN)
    if kind is Host.WILDCARD:
        return (NO if service else "-", NO, NO)
    if service is None or service.on_host:
        return _on_a_machine(one, listener)
    ports = [p for p in service.published if p.container_port == listener.port and p.host_port == one.port]
    loopback = listener.kind is Host.LOOPBACK
    if one.host in service.names:
        return (YES if one.port == listener.port and not loopback else NO, NO, NO)
    if kind is Host.EMPTY:
        return (IF_RESOLVES, NO, NO)
    if not ports or loopback:
        outside = IF_RESOLVES if kind in (Host.NAME, Host.IP) and not loopback else NO
        return (outside, outside, outside)
    if kind is Host.LOOPBACK:
        return (NO, YES, NO)
    far = NO if all(port.only_local for port in ports) else YES if kind is Host.IP else IF_RESOLVES
    same = YES if kind is Host.IP else IF_RESOLVES
    return (same, same, far)


def _on_a_machine(one: Endpoint, listener: Endpoint) -> tuple[str, str, str]:
    if listener.kind is Host.LOOPBACK:
        return ("-", YES if one.kind is Host.LOOPBACK else NO, NO)
    if one.kind is Host.LOOPBACK:
        return ("-", YES, NO)
    if one.kind is Host.IP:
        return ("-", YES, YES)
    return ("-", YES if one.kind is Host.EMPTY else IF_RESOLVES, IF_RESOLVES)


def _kubernetes(cluster: Cluster, one: OperatorListener) -> Row:
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
    return Row(cluster.name, one.name, protocol, address, YES, "-", far)
