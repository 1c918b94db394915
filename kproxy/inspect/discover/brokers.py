"""From brokers in containers to the command that leads to them. Pure.

A broker in a container has a listener for each network from which it is reached: one for other containers, one for
this machine ("three listeners"). What matters here is which of its ports this machine can connect to, and whether the
address that the broker advertises there is one that works here too. If so, clients need no kproxy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind, parse_endpoints
from kproxy.base.address import Address
from kproxy.inspect.discover.results import ClusterCandidate

_LOCAL = "localhost"
_PLAIN = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class PublishedPort:
    """A port of a container that this machine has. `host`: the address on which it is published, "" for all."""

    private: int
    public: int
    host: str = ""


@dataclass(frozen=True, slots=True)
class ContainerBroker:
    """One broker. `listens`, `advertises`: by the name of the listener, without controllers'. `address`: at which this
    machine reaches the container itself, "" if it cannot."""

    name: str
    listens: Mapping[str, int]
    advertised_endpoint: Mapping[str, ListenerEndpoint]
    protocols: Mapping[str, str]
    published: Sequence[PublishedPort]
    address: str = ""


@dataclass(frozen=True, slots=True)
class _ReachableAddress:
    """One way from this machine to a broker."""

    address: Address
    protocol: str
    works_directly: bool


def broker_from_properties(
    name: str, settings: Mapping[str, str], published: Sequence[PublishedPort], address: str = ""
) -> ContainerBroker | None:
    """A broker from its properties; None if it has no listener for clients."""
    listens, advertises = (
        _endpoints(settings.get("listeners", "")),
        _endpoints(settings.get("advertised.listeners", "")),
    )
    controllers = {one.strip().upper() for one in settings.get("controller.listener.names", "").split(",")}
    known = {**listens, **advertises}
    ports = {one: endpoint.port for one, endpoint in known.items() if endpoint.port is not None}
    ports |= {one: endpoint.port for one, endpoint in listens.items() if endpoint.port is not None}
    ports = {one: port for one, port in ports.items() if one not in controllers}
    if not ports:
        return None
    pairs = (one.partition(":") for one in settings.get("listener.security.protocol.map", "").split(","))
    protocols = {one.strip().upper(): protocol.strip().upper() for one, sign, protocol in pairs if sign}
    return ContainerBroker(name, ports, advertises, protocols, published, address)


def broker_with_port(name: str, published: Sequence[PublishedPort], address: str, port: int) -> ContainerBroker:
    """A broker of which no more is known than that Kafka's port is this one."""
    return ContainerBroker(name, {"": port}, {}, {}, published, address)


def cluster_candidate(what: str, brokers: Sequence[ContainerBroker]) -> ClusterCandidate | None:
    """What leads to a cluster of these brokers; None if this machine reaches none of them."""
    ways = {broker.name: _best(broker) for broker in brokers}
    reached = {name: way for name, way in ways.items() if way is not None}
    if not reached:
        return None
    servers = ",".join(str(way.address) for way in reached.values())
    notes = []
    if lost := [name for name, way in ways.items() if way is None]:
        notes.append(f"no port of {', '.join(lost)} can be reached from here")
    if protocols := sorted({way.protocol for way in reached.values() if way.protocol not in ("", _PLAIN)}):
        notes.append(f"the listener is {', '.join(protocols)}: add --tls or --sasl as your clients have it")
    if len(reached) == len(ways) and all(way.works_directly for way in reached.values()):
        return ClusterCandidate(
            what, (), (f"clients on this machine need no kproxy: bootstrap.servers={servers}", *notes)
        )
    return ClusterCandidate(what, ("run", "-b", servers), tuple(notes))


def _endpoints(text: str) -> dict[str, ListenerEndpoint]:
    return {one.name: one for one in parse_endpoints(text)[0]}


def _best(broker: ContainerBroker) -> _ReachableAddress | None:
    """The way with which clients need no kproxy, else one through a published port, else to the container itself."""
    ways = []
    for name, port in broker.listens.items():
        protocol = broker.protocols.get(name, name if name in (_PLAIN, "SSL", "SASL_PLAINTEXT", "SASL_SSL") else "")
        advertised = broker.advertised_endpoint.get(name)
        for published in broker.published:
            if published.private == port:
                directly = (
                    advertised is not None
                    and host_kind(advertised.host) is HostKind.LOOPBACK
                    and advertised.port == published.public
                )
                host = (
                    _LOCAL
                    if host_kind(published.host or "0.0.0.0") in (HostKind.WILDCARD, HostKind.LOOPBACK)
                    else published.host
                )
                ways.append(_ReachableAddress(Address(host, published.public), protocol, directly))
    if not ways and broker.address:
        ways = [
            _ReachableAddress(Address(broker.address, port), broker.protocols.get(name, ""), works_directly=False)
            for name, port in broker.listens.items()
        ]
    # Of several, one without TLS and login, which anybody can use.
    return min(ways, key=lambda way: (not way.works_directly, way.protocol not in ("", _PLAIN)), default=None)
