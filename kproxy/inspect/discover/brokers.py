"""Commands for brokers in containers. Pure.

A broker in a container has a listener for each network from which clients connect: one for other containers, one for
this machine ("three listeners"). Two questions matter here: to which of its ports this machine can connect, and whether
the address that the broker advertises there works here too. If it does, clients need no kproxy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kproxy.advice.lint.endpoint import HostKind, ListenerEndpoint, host_kind
from kproxy.advice.lint.model import BrokerConfig, ImageFamily
from kproxy.advice.lint.source import SourceFile, SourceLocation
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
    settings = {"listeners": settings.get("advertised.listeners", ""), **settings}
    if not settings["listeners"]:
        return None
    location = SourceLocation(SourceFile(name, ""), 0)
    return broker_from_config(BrokerConfig(name, ImageFamily.PROPERTIES, location, {}, settings), published, address)


def broker_from_config(
    config: BrokerConfig, published: Sequence[ContainerPort], address: str = ""
) -> ContainerBroker | None:
    """Return a broker from its configuration; None if it has no listener for clients."""
    advertised = {endpoint.name: endpoint for endpoint in config.client_endpoints}
    ports = {endpoint.name: endpoint.port for endpoint in config.for_clients(config.listeners)}
    ports |= {name: endpoint.port for name, endpoint in advertised.items() if name not in ports}
    listens = {name: port for name, port in ports.items() if port is not None}
    protocols = {name: config.protocol(name) for name in listens}
    return ContainerBroker(config.name, listens, advertised, protocols, published, address) if listens else None


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


def _best(broker: ContainerBroker) -> _ReachableAddress | None:
    """Return the address with which clients need no kproxy, else a published port, else the container's own address."""
    addresses = []
    for name, port in broker.listens.items():
        protocol, advertised = broker.protocols.get(name, ""), broker.advertised_endpoint.get(name)
        for published in broker.published:
            if published.private == port:
                is_loopback = advertised is not None and advertised.kind is HostKind.LOOPBACK
                works_directly = is_loopback and advertised is not None and advertised.port == published.public
                is_local = host_kind(published.host or "0.0.0.0") in (HostKind.WILDCARD, HostKind.LOOPBACK)
                public = Address(_LOCAL if is_local else published.host, published.public)
                addresses.append(_ReachableAddress(public, protocol, works_directly))
    if not addresses and broker.address:
        addresses = [
            _ReachableAddress(Address(broker.address, port), broker.protocols.get(name, ""), works_directly=False)
            for name, port in broker.listens.items()
        ]
    # Of several, one without TLS and login, which every client can use.
    return min(
        addresses, key=lambda address: (not address.works_directly, address.protocol not in ("", _PLAIN)), default=None
    )
