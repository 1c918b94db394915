"""Which nodes a cluster has, the address each advertises, and the local port each has. Pure.

A node is its id and its kind, never its host name. Once it has a port it keeps it as long as kproxy runs, and
the rule by which it gets one gives the same answer on every machine and after every restart:

 1. a broker whose id fits the window of ports has the port `first + id`;
 2. every other node starts at a place in the upper half of the window that a hash of its kind and id names, and
    takes the first free port from there on, downwards, then from the top.

Nodes that become known together take their ports in the order of rule, kind and id.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kproxy.address import Address
from kproxy.rewrite.endpoints import Endpoint, Endpoints, Kind


@dataclass(frozen=True, slots=True)
class NodeKey:
    """What a node is, whatever it is called."""

    kind: Kind
    node_id: int

    def __hash__(self) -> int:
        return self.node_id  # an Enum's hash takes longer than all the rest, and hardly two nodes differ by kind alone

    @property
    def label(self) -> str:
        """The node in logs and metrics: `3`, `controller-3000`."""
        return str(self.node_id) if self.kind is Kind.BROKER else f"{self.kind.value}-{self.node_id}"

    def __str__(self) -> str:
        return f"{self.kind.value} {self.node_id}"


@dataclass(slots=True)
class Node:
    """A node as last heard of. `port` is its local port, 0 while it has none."""

    key: NodeKey
    advertised: Address
    port: int = 0
    absent_since: float | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    """What a response told that was not known: nodes that are new, have moved, are gone, are back."""

    new: tuple[Node, ...] = ()
    moved: tuple[tuple[Node, Address], ...] = ()  # with the address before
    gone: tuple[Node, ...] = ()
    back: tuple[Node, ...] = ()


class Topology:
    """The nodes of one cluster, with local ports from `first` to `last`."""

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last
        self.nodes: dict[NodeKey, Node] = {}
        self._taken: dict[int, NodeKey] = {}

    def learn(self, endpoints: Endpoints, now: float) -> Learned:
        """Take in what a response says at `now` (seconds of a clock that does not go back)."""
        seen = {NodeKey(e.kind, e.node_id): e for e in endpoints.nodes}
        new, moved, back = [], [], []
        for key in self._in_order(seen):
            advertised = seen[key].advertised
            node = self.nodes.get(key)
            if node is None:
                node = self.nodes[key] = Node(key, advertised)
                new.append(node)
                continue
            if node.advertised != advertised:
                moved.append((node, node.advertised))
                node.advertised = advertised
            if node.absent_since is not None:
                node.absent_since = None
                back.append(node)
        gone = self._missing(endpoints.nodes, seen, now) if endpoints.complete else []
        return Learned(tuple(new), tuple(moved), tuple(gone), tuple(back))

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

    def _fits(self, key: NodeKey) -> bool:
        return key.kind is Kind.BROKER and 0 <= key.node_id <= self.last - self.first

    def _in_order(self, keys: Iterable[NodeKey]) -> list[NodeKey]:
        return sorted(keys, key=lambda key: (not self._fits(key), key.kind.value, key.node_id))

    def ports_for(self, key: NodeKey) -> Iterator[int]:
        """The ports that the node may have, best first, without those of other nodes."""
        node = self.nodes.get(key)
        if node is not None and node.port:
            yield node.port  # advertised before: no other node may ever have it
        size = self.last - self.first + 1
        if self._fits(key) and self.first + key.node_id not in self._taken:
            yield self.first + key.node_id
        # Small ids are the usual ones and live at the lower end: keep away from them.
        start = size - 1 - zlib.crc32(f"{key.kind.value}:{key.node_id}".encode()) % ((size + 1) // 2)
        for step in range(size):
            port = self.first + (start - step) % size
            if self._taken.get(port, key) == key:
                yield port

    def assign(self, key: NodeKey, port: int) -> None:
        """The node has this port from now on. One that it had before was advertised, and stays its own."""
        self.nodes[key].port = port
        self._taken[port] = key
