"""Which local port each node has. Pure.

The rule by which a node gets a port gives the same answer on every machine and after every restart:

 1. a broker whose id fits the window of ports has the port `first + id`;
 2. every other node starts at a place in the upper half of the window that a hash of its kind and id names, and
    takes the first free port from there on, downwards, then from the top.

A port that was given stays its node's, also when the node was forgotten to make room for others. Only `left` gives it
away, for when the window has no other, and only that of a node which was gone before a given time.

A node is the same one whatever it belongs to: node 1 of one upstream and node 1 of another have the same port.

Where several kproxies share their ports, each node has one port that it may have, `only_port`: what a port means then
depends on the window and the node alone, and not on what is free, or was known first.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kproxy.protocol.rewrite.endpoints import NodeKind


@dataclass(frozen=True, slots=True)
class NodeKey:
    """What a node is, whatever it is called."""

    kind: NodeKind
    node_id: int

    def __hash__(self) -> int:
        return self.node_id  # an Enum's hash takes longer than all the rest, and hardly two nodes differ by kind alone

    @property
    def label(self) -> str:
        """The node in logs and metrics: `3`, `controller-3000`."""
        return str(self.node_id) if self.kind is NodeKind.BROKER else f"{self.kind.value}-{self.node_id}"

    @classmethod
    def of(cls, label: str) -> NodeKey:
        """The node with this label."""
        kind, _, number = label.rpartition("-")
        return cls(NodeKind(kind) if kind else NodeKind.BROKER, int(number))

    def __str__(self) -> str:
        return f"{self.kind.value} {self.node_id}"


class LocalPorts:
    """Those from `first` to `last`. Each topology that shares them says which nodes it knows. `fixed`: a node has its
    `only_port`, or none."""

    def __init__(self, first: int, last: int, *, fixed: bool = False) -> None:
        self.fixed = fixed
        self.first = first
        self.last = last
        self._known: Counter[NodeKey] = Counter()  # by how many topologies
        self._has: dict[NodeKey, int] = {}
        self._taken: dict[int, NodeKey] = {}
        self._used = 0  # ports of the window in `_taken`, from which none of these goes
        self._forgotten: dict[NodeKey, tuple[int, float]] = {}  # the port each had, and since when it is gone

    def know(self, key: NodeKey) -> int:
        """One more topology has this node; return the port that it has, 0 if none."""
        self._known[key] += 1
        return self._has.get(key, 0)

    def fits(self, key: NodeKey) -> bool:
        """Whether the first rule gives the node its port."""
        return key.kind is NodeKind.BROKER and 0 <= key.node_id <= self.last - self.first

    @property
    def brokers_fit(self) -> int:
        """How many ids of brokers have an `only_port`: the last quarter of the window is for controllers."""
        size = self.last - self.first + 1
        return size - size // 4

    def only_port(self, key: NodeKey) -> int:
        """The port that the node may have, 0 if none."""
        if key.kind is NodeKind.BROKER:
            return self.first + key.node_id if 0 <= key.node_id < self.brokers_fit else 0
        others = self.last - self.first + 1 - self.brokers_fit
        return self.last - key.node_id % others if others else 0  # few, and with ids in a row

    def ports_for(self, key: NodeKey) -> Iterator[int]:
        """The ports that the node may have, best first, without those of other nodes."""
        if self.fixed:
            only = self.only_port(key)
            if only and self._taken.get(only, key) == key:
                yield only
            return
        if key in self._has:
            yield self._has[key]
        elif key in self._forgotten:
            yield self._forgotten[key][0]
        elif self._used > self.last - self.first:
            return
        size = self.last - self.first + 1
        if self.fits(key) and self._taken.get(self.first + key.node_id, key) == key:
            yield self.first + key.node_id
        # Small ids are the usual ones and live at the lower end: keep away from them.
        start = size - 1 - zlib.crc32(f"{key.kind.value}:{key.node_id}".encode()) % ((size + 1) // 2)
        for step in range(size):
            port = self.first + (start - step) % size
            if self._taken.get(port, key) == key:
                yield port

    def left(self, before: float) -> list[int]:
        """The ports of the window whose nodes are forgotten and were gone before this time, those that are gone for
        longest first."""
        left = []
        for port in range(self.first, self.last + 1):
            key = self._taken.get(port)
            if key is not None and key not in self._known:
                _, since = self._forgotten.get(key, (port, float("-inf")))
                if since <= before:
                    left.append((since, port))
        return [port for _, port in sorted(left)]

    def is_left(self, port: int) -> bool:
        """Whether the port's node is forgotten."""
        return port in self._taken and self._taken[port] not in self._known

    def assign(self, key: NodeKey, port: int) -> None:
        """The node has this port from now on. One that it had before was advertised, and stays its own."""
        self._has[key] = port
        for one in (key, self._taken.get(port)):
            if one is not None and (one == key or not self._known[one]):
                self._forgotten.pop(one, None)
        if self.first <= port <= self.last and port not in self._taken:
            self._used += 1
        self._taken[port] = key

    def forget(self, key: NodeKey, since: float) -> None:
        """One topology less has this node, which is gone since then. If it was the last one, the node's port in the
        window stays its own, see `left`."""
        self._known[key] -= 1
        if self._known[key]:
            return
        del self._known[key]
        port = self._has.pop(key, 0)
        if self.first <= port <= self.last:
            self._forgotten[key] = port, since
        else:
            self._taken.pop(port, None)
