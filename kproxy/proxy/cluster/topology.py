"""The nodes of an upstream, the address that each advertises, and the local port of each. Pure.

A node is its id and its kind, never its host name. `localports` has the rule by which it gets a port. Nodes that become
known together take their ports in the order of rule, kind and id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kproxy.base.address import Address
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints
from kproxy.proxy.cluster.localports import LocalPorts
from kproxy.proxy.cluster.localports import NodeKey as NodeKey


@dataclass(slots=True)
class Node:
    """A node as the last metadata described it."""

    key: NodeKey
    advertised: Address
    port: int = 0
    """Its local port, 0 while it has none."""
    absent_since: float | None = None
    """Since when metadata has not named it, in the seconds of `Topology.learn`; None: it is present."""


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """The differences that a response has brought: nodes that are new, have moved, are gone, are back."""

    new: tuple[Node, ...] = ()
    moved: tuple[tuple[Node, Address], ...] = ()
    """Each with its former address."""
    gone: tuple[Node, ...] = ()
    back: tuple[Node, ...] = ()


class Topology:
    """The nodes of one upstream, with local ports from `first` to `last`, which several upstreams may share.

    `revision` grows with each change of a node, and with each node that comes or is forgotten.
    """

    def __init__(self, first: int, last: int, ports: LocalPorts | None = None) -> None:
        self._ports = LocalPorts(first, last) if ports is None else ports
        self.first = first
        self.last = last
        self.nodes: dict[NodeKey, Node] = {}
        self.revision = 0

    def learn(self, endpoints: Endpoints, now: float) -> TopologyChange:
        """Take in a response at `now`, in seconds of a monotonic clock; return what has changed."""
        endpoints_by_key = {NodeKey(e.kind, e.node_id): e for e in endpoints.nodes}
        new, moved, back = [], [], []
        for key in self.in_order(endpoints_by_key):
            advertised = endpoints_by_key[key].advertised
            node = self.nodes.get(key)
            if node is None:
                node = self.nodes[key] = Node(key, advertised, self._ports.add_topology_node(key))
                new.append(node)
                continue
            if node.advertised != advertised:
                moved.append((node, node.advertised))
                node.advertised = advertised
            if node.absent_since is not None:
                node.absent_since = None
                back.append(node)
        absent = self._missing(endpoints.nodes, endpoints_by_key, now) if endpoints.complete else []
        if new or moved or back or absent:
            self.revision += 1
        return TopologyChange(tuple(new), tuple(moved), tuple(absent), tuple(back))

    def contains(self, endpoints: Endpoints) -> bool:
        """Check whether a response says nothing new: `learn` would change nothing."""
        addresses = {NodeKey(e.kind, e.node_id): e.advertised for e in endpoints.nodes}
        present = {key: node.advertised for key, node in self.nodes.items() if node.absent_since is None}
        if endpoints.complete:
            kinds = {key.kind for key in addresses}
            return addresses == {key: advertised for key, advertised in present.items() if key.kind in kinds}
        return addresses.items() <= present.items()

    def _missing(self, nodes: Iterable[Endpoint], present_keys: Iterable[NodeKey], now: float) -> list[Node]:
        kinds = {endpoint.kind for endpoint in nodes}
        present = set(present_keys)
        absent = []
        for key, node in self.nodes.items():
            if key.kind in kinds and key not in present and node.absent_since is None:
                node.absent_since = now
                absent.append(node)
        return absent

    def in_order(self, keys: Iterable[NodeKey]) -> list[NodeKey]:
        """Return these nodes in the order in which they take their ports."""
        return sorted(keys, key=lambda key: (not self._ports.fits(key), key.kind.value, key.node_id))

    def ports_for(self, key: NodeKey) -> Iterator[int]:
        """Yield the ports that the node may have, best first, without those of other nodes."""
        return self._ports.ports_for(key)

    def reusable_ports(self, before: float) -> list[int]:
        """Return the ports of forgotten nodes that were gone before this time, longest gone first."""
        return self._ports.reusable_ports(before)

    def assign(self, key: NodeKey, port: int) -> None:
        """Give the node this port. A port that it had before was advertised, and stays its own."""
        self.nodes[key].port = port
        self.revision += 1
        self._ports.assign(key, port)

    # Room for others

    def removable_nodes(self, endpoints: Endpoints) -> list[NodeKey]:
        """Return the nodes that will be absent once this response is learned, longest absent first."""
        named = {NodeKey(e.kind, e.node_id) for e in endpoints.nodes}
        kinds = {key.kind for key in named} if endpoints.complete else set()
        unnamed = [node for node in self.nodes.values() if node.key not in named]
        absent = [node for node in unnamed if node.absent_since is not None]
        absent.sort(key=lambda node: node.absent_since or 0.0)
        return [node.key for node in (*absent, *(n for n in unnamed if n.absent_since is None and n.key.kind in kinds))]

    def forget(self, key: NodeKey, now: float) -> None:
        """Forget a node. Its port in the window stays its own, see `reusable_ports`."""
        node = self.nodes.pop(key)
        self.revision += 1
        self._ports.forget(key, now if node.absent_since is None else node.absent_since)
