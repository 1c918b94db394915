"""The nodes of an upstream, the address that each advertises, and the local port of each. Pure.

A node is its id and its kind, never its host name. The rule by which it gets a port gives the same answer on every
machine and after every restart:

 1. a broker whose id fits the window of ports has the port `first + id`;
 2. every other node starts at a place in the upper half of the window that a hash of its kind and id names, and
    takes the first free port from there on, downwards, then from the top.

Nodes that become known together take their ports in the order of rule, kind and id.

A port that a node has had stays that node's, also when the node was forgotten to make room for others. Only
`reusable_ports` gives it away, when the window has no other port, and only if the node was gone before a given time.

A node is the same one whatever it belongs to: node 1 of one upstream and node 1 of another have the same port.

Where several kproxies share their ports, each node has one port that it may have, `only_port`: what a port means then
depends on the window and the node alone, and not on what is free, or was known first.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kproxy.base.address import Address
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind

# A broker may name many nodes. In repeated log lines, they share so many subjects.
_LOG_SUBJECTS = 64


@dataclass(frozen=True, slots=True)
class NodeKey:
    """The key of a node: its kind and id, whatever its host name is."""

    kind: NodeKind
    node_id: int

    def __hash__(self) -> int:
        return self.node_id  # an Enum's hash takes longer than all the rest, and hardly two nodes differ by kind alone

    @property
    def label(self) -> str:
        """The node in logs and metrics: `3`, `controller-3000`."""
        return str(self.node_id) if self.kind is NodeKind.BROKER else f"{self.kind.value}-{self.node_id}"

    @property
    def log_subject(self) -> int:
        """The number that stands for the node in the subject of a repeated log line (`about`)."""
        return self.node_id % _LOG_SUBJECTS

    @classmethod
    def of(cls, label: str) -> NodeKey:
        """Return the node with this label."""
        kind, _, number = label.rpartition("-")
        return cls(NodeKind(kind) if kind else NodeKind.BROKER, int(number))

    def __str__(self) -> str:
        return f"{self.kind.value} {self.node_id}"


class LocalPorts:
    """The local ports from `first` to `last`, which several topologies share.

    `fixed`: a node has its `only_port`, or none.
    """

    def __init__(self, first: int, last: int, *, fixed: bool = False) -> None:
        self.fixed = fixed
        self.first = first
        self.last = last
        self._topologies: Counter[NodeKey] = Counter()  # how many topologies have each node
        self._port_of: dict[NodeKey, int] = {}
        self._node_at: dict[int, NodeKey] = {}
        self._ports_in_use = 0  # ports of the window in `_node_at`, from which none of these goes
        self._forgotten: dict[NodeKey, tuple[int, float]] = {}  # the port of each, and since when it is absent

    def add_topology_node(self, key: NodeKey) -> int:
        """Note that one more topology has this node; return the port of the node, 0 if it has none."""
        self._topologies[key] += 1
        return self._port_of.get(key, 0)

    def fits(self, key: NodeKey) -> bool:
        """Check whether the first rule gives the node its port."""
        return key.kind is NodeKind.BROKER and 0 <= key.node_id <= self.last - self.first

    @property
    def broker_capacity(self) -> int:
        """The number of broker ids that have an `only_port`: the last quarter of the window is for controllers."""
        size = self.last - self.first + 1
        return size - size // 4

    def only_port(self, key: NodeKey) -> int:
        """Return the port that the node may have, 0 if none."""
        if key.kind is NodeKind.BROKER:
            return self.first + key.node_id if 0 <= key.node_id < self.broker_capacity else 0
        controller_ports = self.last - self.first + 1 - self.broker_capacity
        return self.last - key.node_id % controller_ports if controller_ports else 0  # few, and with ids in a row

    def ports_for(self, key: NodeKey) -> Iterator[int]:
        """Yield the ports that the node may have, best first, without those of other nodes."""
        if self.fixed:
            only = self.only_port(key)
            if only and self._node_at.get(only, key) == key:
                yield only
            return
        if key in self._port_of:
            yield self._port_of[key]
        elif key in self._forgotten:
            yield self._forgotten[key][0]
        elif self._ports_in_use > self.last - self.first:
            return
        size = self.last - self.first + 1
        if self.fits(key) and self._node_at.get(self.first + key.node_id, key) == key:
            yield self.first + key.node_id
        # Small ids are the usual ones and live at the lower end: keep away from them.
        start = size - 1 - zlib.crc32(f"{key.kind.value}:{key.node_id}".encode()) % ((size + 1) // 2)
        for step in range(size):
            port = self.first + (start - step) % size
            if self._node_at.get(port, key) == key:
                yield port

    def reusable_ports(self, before: float) -> list[int]:
        """Return the ports of the window whose nodes are forgotten and were gone before this time, in that order."""
        reusable = []
        for port in range(self.first, self.last + 1):
            key = self._node_at.get(port)
            if key is not None and key not in self._topologies:
                _, since = self._forgotten.get(key, (port, float("-inf")))
                if since <= before:
                    reusable.append((since, port))
        return [port for _, port in sorted(reusable)]

    def is_reusable(self, port: int) -> bool:
        """Check whether the port's node is forgotten."""
        return port in self._node_at and self._node_at[port] not in self._topologies

    def assign(self, key: NodeKey, port: int) -> None:
        """Give the node this port. A port that it had before was advertised, and stays its own."""
        self._port_of[key] = port
        for node_key in (key, self._node_at.get(port)):
            if node_key is not None and (node_key == key or not self._topologies[node_key]):
                self._forgotten.pop(node_key, None)
        if self.first <= port <= self.last and port not in self._node_at:
            self._ports_in_use += 1
        self._node_at[port] = key

    def forget(self, key: NodeKey, since: float) -> None:
        """Note that one topology less has this node, which has been gone `since` then.

        If it was the last topology, the node's port in the window stays its own, see `reusable_ports`.
        """
        self._topologies[key] -= 1
        if self._topologies[key]:
            return
        del self._topologies[key]
        port = self._port_of.pop(key, 0)
        if self.first <= port <= self.last:
            self._forgotten[key] = port, since
        else:
            self._node_at.pop(port, None)


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
    """The nodes of one upstream, with local ports that several upstreams may share.

    `revision` grows with each change of a node, and with each node that comes or is forgotten.
    """

    def __init__(self, ports: LocalPorts) -> None:
        self.ports = ports
        self.nodes: dict[NodeKey, Node] = {}
        self.revision = 0

    @property
    def has_brokers(self) -> bool:
        """True if a broker is known; False before the first answer, and if only controllers are served (KIP-919)."""
        return any(key.kind is NodeKind.BROKER for key in self.nodes)

    def learn(self, endpoints: Endpoints, now: float) -> TopologyChange:
        """Take in a response at `now`, in seconds of a monotonic clock; return what has changed."""
        endpoints_by_key = {NodeKey(e.kind, e.node_id): e for e in endpoints.nodes}
        new, moved, back = [], [], []
        for key in self.in_order(endpoints_by_key):
            advertised = endpoints_by_key[key].advertised
            node = self.nodes.get(key)
            if node is None:
                node = self.nodes[key] = Node(key, advertised, self.ports.add_topology_node(key))
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
        return sorted(keys, key=lambda key: (not self.ports.fits(key), key.kind.value, key.node_id))

    def assign(self, key: NodeKey, port: int) -> None:
        """Give the node this port. A port that it had before was advertised, and stays its own."""
        self.nodes[key].port = port
        self.revision += 1
        self.ports.assign(key, port)

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
        self.ports.forget(key, now if node.absent_since is None else node.absent_since)
