"""Which nodes a cluster has, the address each advertises, and the local port each has. Pure.

A node is its id and its kind, never its host name. The rule by which it gets a port gives the same answer on every
machine and after every restart:

 1. a broker whose id fits the window of ports has the port `first + id`;
 2. every other node starts at a place in the upper half of the window that a hash of its kind and id names, and
    takes the first free port from there on, downwards, then from the top.

Nodes that become known together take their ports in the order of rule, kind and id.

A port that was given stays its node's, also when the node was forgotten to make room for others. Only `ports_left`
gives it away, for when the window has no other, and only that of a node which was gone before a given time.
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
        self._forgotten: dict[NodeKey, tuple[int, float]] = {}  # the port each had, and since when it is gone

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
            yield node.port
        elif key in self._forgotten:
            yield self._forgotten[key][0]
        size = self.last - self.first + 1
        if self._fits(key) and self._taken.get(self.first + key.node_id, key) == key:
            yield self.first + key.node_id
        # Small ids are the usual ones and live at the lower end: keep away from them.
        start = size - 1 - zlib.crc32(f"{key.kind.value}:{key.node_id}".encode()) % ((size + 1) // 2)
        for step in range(size):
            port = self.first + (start - step) % size
            if self._taken.get(port, key) == key:
                yield port

    def ports_left(self, before: float) -> list[int]:
        """The ports of forgotten nodes that were gone before this time, those that are gone for longest first."""
        left = []
        for port, key in self._taken.items():
            if key not in self.nodes:
                _, since = self._forgotten.get(key, (port, float("-inf")))
                if since <= before:
                    left.append((since, port))
        return [port for _, port in sorted(left)]

    def assign(self, key: NodeKey, port: int) -> None:
        """The node has this port from now on. One that it had before was advertised, and stays its own."""
        self.nodes[key].port = port
        for one in (key, self._taken.get(port)):
            if one is not None and (one == key or one not in self.nodes):
                self._forgotten.pop(one, None)
        self._taken[port] = key

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
        if self.first <= node.port <= self.last:
            self._forgotten[key] = node.port, now if node.absent_since is None else node.absent_since
        else:
            self._taken.pop(node.port, None)
