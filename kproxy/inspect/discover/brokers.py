"""Commands for brokers in containers. Pure.

A broker in a container has a listener for each network from which clients connect: one for other containers, one for
this machine ("three listeners"). Two questions matter here: to which of its ports this machine can connect, and whether
the address that the broker advertises there works here too. If it does, clients need no kproxy.
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
class ContainerPort:
    """A container's port that is published on this machine.

    `host`: the address on which it is published, "" for all.
    """

    private: int
    public: int
    host: str = ""


@dataclass(frozen=True, slots=True)
class ContainerBroker:
    """One broker. `listens`, `advertises`: by the name of the listener, without controllers' listeners."""

    name: str
    listens: Mapping[str, int]
    advertised_endpoint: Mapping[str, ListenerEndpoint]
    protocols: Mapping[str, str]
    published: Sequence[ContainerPort]
    address: str = ""
    """The address at which this machine can connect to the container itself, "" if it cannot."""


@dataclass(frozen=True, slots=True)
class _ReachableAddress:
    """One address at which this machine can connect to a broker."""

    address: Address
    protocol: str
    works_directly: bool


def broker_from_properties(
    name: str, settings: Mapping[str, str], published: Sequence[ContainerPort], address: str = ""
) -> ContainerBroker | None:
    """Return a broker from its properties; None if it has no listener for clients."""
    listens, advertises = (
        _endpoints(settings.get("listeners", "")),
        _endpoints(settings.get("advertised.listeners", "")),
    )
    controllers = {item.strip().upper() for item in settings.get("controller.listener.names", "").split(",")}
    all_endpoints = {**listens, **advertises}
    ports = {name: endpoint.port for name, endpoint in all_endpoints.items() if endpoint.port is not None}
    ports |= {name: endpoint.port for name, endpoint in listens.items() if endpoint.port is not None}
    ports = {name: port for name, port in ports.items() if name not in controllers}
    if not ports:
        return None
    pairs = (item.partition(":") for item in settings.get("listener.security.protocol.map", "").split(","))
    protocols = {name.strip().upper(): protocol.strip().upper() for name, sign, protocol in pairs if sign}
    return ContainerBroker(name, ports, advertises, protocols, published, address)


def broker_with_port(name: str, published: Sequence[ContainerPort], address: str, port: int) -> ContainerBroker:
    """Return a broker that is known only by Kafka's port."""
    return ContainerBroker(name, {"": port}, {}, {}, published, address)


def cluster_candidate(description: str, brokers: Sequence[ContainerBroker]) -> ClusterCandidate | None:
    """Return the candidate for a cluster of these brokers; None if this machine can connect to none of them."""
    best = {broker.name: _best(broker) for broker in brokers}
    reached = {name: address for name, address in best.items() if address is not None}
    if not reached:
        return None
    servers = ",".join(str(address.address) for address in reached.values())
    notes = []
    if unreachable := [name for name, address in best.items() if address is None]:
        notes.append(f"no port of {', '.join(unreachable)} can be reached from here")
    if protocols := sorted({address.protocol for address in reached.values() if address.protocol not in ("", _PLAIN)}):
        notes.append(f"the listener is {', '.join(protocols)}: add --tls or --sasl as your clients have it")
    if len(reached) == len(best) and all(address.works_directly for address in reached.values()):
        return ClusterCandidate(
            description, (), (f"clients on this machine need no kproxy: bootstrap.servers={servers}", *notes)
        )
    return ClusterCandidate(description, ("run", "-b", servers), tuple(notes))


def _endpoints(text: str) -> dict[str, ListenerEndpoint]:
    return {endpoint.name: endpoint for endpoint in parse_endpoints(text)[0]}


def _best(broker: ContainerBroker) -> _ReachableAddress | None:
    """Return the address with which clients need no kproxy, else a published port, else the container's own address."""
    addresses = []
    for name, port in broker.listens.items():
        protocol = broker.protocols.get(name, name if name in (_PLAIN, "SSL", "SASL_PLAINTEXT", "SASL_SSL") else "")
        advertised = broker.advertised_endpoint.get(name)
        for published in broker.published:
            if published.private == port:
                works_directly = (
                    advertised is not None
                    and host_kind(advertised.host) is HostKind.LOOPBACK
                    and advertised.port == published.public
                )
                host = (
                    _LOCAL
                    if host_kind(published.host or "0.0.0.0") in (HostKind.WILDCARD, HostKind.LOOPBACK)
                    else published.host
                )
                addresses.append(_ReachableAddress(Address(host, published.public), protocol, works_directly))
    if not addresses and broker.address:
        addresses = [
            _ReachableAddress(Address(broker.address, port), broker.protocols.get(name, ""), works_directly=False)
            for name, port in broker.listens.items()
        ]
    # Of several, one without TLS and login, which every client can use.
    return min(
        addresses, key=lambda address: (not address.works_directly, address.protocol not in ("", _PLAIN)), default=None
    )
