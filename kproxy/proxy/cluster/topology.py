"""Which nodes a cluster has, the address each advertises, and the local port each has. Pure.

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
    """A node as last heard of. `port` is its local port, 0 while it has none."""

    key: NodeKey
    advertised: Address
    port: int = 0
    absent_since: float | None = None


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """What a response told that was not known: nodes that are new, have moved, are gone, are back."""

    new: tuple[Node, ...] = ()
    moved: tuple[tuple[Node, Address], ...] = ()  # with the address before
    gone: tuple[Node, ...] = ()
    back: tuple[Node, ...] = ()


class Topology:
    """The nodes of one upstream, with local ports from `first` to `last`, which several may share. `edition` is another
    number after each change of a node, and after each one that comes or is forgotten."""

    def __init__(self, first: int, last: int, ports: LocalPorts | None = None) -> None:
        self._ports = LocalPorts(first, last) if ports is None else ports
        self.first = first
        self.last = last
        self.nodes: dict[NodeKey, Node] = {}
        self.edition = 0

    def learn(self, endpoints: Endpoints, now: float) -> TopologyChange:
        """Take in what a response says at `now` (seconds of a clock that does not go back)."""
        seen = {NodeKey(e.kind, e.node_id): e for e in endpoints.nodes}
        new, moved, back = [], [], []
        for key in self.in_order(seen):
            advertised = seen[key].advertised
            node = self.nodes.get(key)
            if node is None:
                node = self.nodes[key] = Node(key, advertised, self._ports.know(key))
                new.append(node)
                continue
            if node.advertised != advertised:
                moved.append((node, node.advertised))
                node.advertised = advertised
            if node.absent_since is not None:
                node.absent_since = None
                back.append(node)
        gone = self._missing(endpoints.nodes, seen, now) if endpoints.complete else []
        if new or moved or back or gone:
            self.edition += 1
        return TopologyChange(tuple(new), tuple(moved), tuple(gone), tuple(back))

    def knows(self, endpoints: Endpoints) -> bool:
        """Whether a response says nothing new: `learn` would change nothing."""
        seen = {NodeKey(e.kind, e.node_id): e.advertised for e in endpoints.nodes}
        present = {key: node.advertised for key, node in self.nodes.items() if node.absent_since is None}
        if endpoints.complete:
            kinds = {key.kind for key in seen}
            return seen == {key: advertised for key, advertised in present.items() if key.kind in kinds}
        return seen.items() <= present.items()

    def _missing(self, nodes: Iterable[Endpoint], seen: Iterable[NodeKey], now: float) -> list[Node]:
        kinds = {endpoint.kind for endpoint in nodes}
        present = set(seen)
        gone = []
        for key, node in self.nodes.items():
            if key.kind in kinds and key not in present and node.absent_since is None:
                node.absent_since = now
                gone.append(node)
        return gone

    def in_order(self, keys: Iterable[NodeKey]) -> list[NodeKey]:
        """These nodes in the order in which they take their ports."""
        return sorted(keys, key=lambda key: (not self._ports.fits(key), key.kind.value, key.node_id))

    def ports_for(self, key: NodeKey) -> Iterator[int]:
        """The ports that the node may have, best first, without those of other nodes."""
        return self._ports.ports_for(key)

    def ports_left(self, before: float) -> list[int]:
        """The ports of forgotten nodes that were gone before this time, those that are gone for longest first."""
        return self._ports.left(before)

    def assign(self, key: NodeKey, port: int) -> None:
        """The node has this port from now on. One that it had before was advertised, and stays its own."""
        self.nodes[key].port = port
        self.edition += 1
        self._ports.assign(key, port)

    # Room for others

    def dispensable(self, endpoints: Endpoints) -> list[NodeKey]:
        """The nodes that are absent once this response is learned: those that are gone for longest first."""
        named = {NodeKey(e.kind, e.node_id) for e in endpoints.nodes}
        kinds = {key.kind for key in named} if endpoints.complete else set()
        gone = [node for node in self.nodes.values() if node.key not in named]
        absent = [node for node in gone if node.absent_since is not None]
        absent.sort(key=lambda node: node.absent_since or 0.0)
        return [node.key for node in (*absent, *(n for n in gone if n.absent_since is None and n.key.kind in kinds))]

    def forget(self, key: NodeKey, now: float) -> None:
        """Know a node no longer. Its port in the window stays its own, see `ports_left`."""
        node = self.nodes.pop(key)
        self.edition += 1
        self._ports.forget(key, now if node.absent_since is None else node.absent_since)
