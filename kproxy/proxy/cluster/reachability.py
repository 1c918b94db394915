"""The facts about reaching one upstream: the cluster's id, the node at each address, the route to each node.

All of them are one value. Each discovery is a *fact*, which `ReachabilityState.note` takes in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from kproxy.base.address import Address
from kproxy.base.messages.start import ANOTHER_CLUSTER, CLUSTER_REPLACED
from kproxy.net.dial.routes import Route
from kproxy.proxy.cluster.topology import NodeKey

# The most addresses whose node is remembered: a bound for a cluster that always names new addresses.
_ADDRESSES = 10_000


class Proof(Enum):
    """The evidence that an address leads to a node."""

    CONFIRMED = "the broker confirms its cluster and node"
    OWN_WORD = "the broker says so"
    CERTIFICATE = "its certificate has that node's name only"
    LEADER = "it leads partitions of that node"
    COORDINATOR = "it coordinates groups of that node"
    ONLY_BROKER = "the cluster has just one broker"
    ASSUMED = "assumed"  # the cluster is the right one, and no answer shows which node it is
    UNCHECKED = "not checked yet"  # it answers; kproxy asks within a client's session which node it is, after the login

    @property
    def checked(self) -> bool:
        """True if a broker's answer or certificate has shown it."""
        return self not in (Proof.ASSUMED, Proof.UNCHECKED)


@dataclass(frozen=True, slots=True)
class NodeReachability:
    """The result of the last attempt to reach a node."""

    route: Route | None = None
    """The route that worked last."""
    proof: Proof | None = None
    """The evidence that the route leads to this node."""
    problem: str | None = None
    """Why no route works; None if one does."""
    reason: str | None = None
    """The reason code of the problem."""
    since: float | None = field(default=None, compare=False)
    """The Unix time from which on no route has worked, with this problem or another one."""
    lasting: bool = False
    """True if the problem lasts until a person changes something."""

    def is_verified_at(self, dial: Address) -> bool:
        """Check whether it says more about this address than that it answers."""
        return self.problem is None and self.route is not None and self.route.dial == dial


@dataclass(frozen=True, slots=True)
class DialOutcome:
    """A fact: the result of trying to reach a node."""

    key: NodeKey
    of_node: NodeReachability


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """A fact: this address leads to this node."""

    address: Address
    key: NodeKey
    proof: Proof


@dataclass(frozen=True, slots=True)
class BootstrapAnswer:
    """A fact: the bootstrap server at this index answered last."""

    index: int


@dataclass(frozen=True, slots=True)
class OtherCluster:
    """A fact: a broker of another Kafka cluster than the served one has answered at this address."""

    address: Address
    cluster_id: str


@dataclass(frozen=True, slots=True)
class ExplorationState:
    """A fact: the progress of the exploration."""

    bootstrap_asked: bool = False
    """True once all bootstrap servers have been asked."""
    answered: bool = False
    """True once a bootstrap server has answered."""
    searched: bool = False
    """True once kproxy has tried to reach each node that it knew then."""
    problem: str | None = "no bootstrap server has been asked yet"
    """The problem of the bootstrap servers; None if there is none."""
    conflict: str | None = None
    """The bootstrap servers belong to different clusters, so that no client can be served; None if they do not."""
    replaced_by: str | None = None
    """The id of the Kafka cluster to which all bootstrap servers that answer belong, if it is not the served one."""
    login_refused: bool = False
    """True if no bootstrap server answered because one refused kproxy's credentials."""
    reasons: frozenset[str] = frozenset()
    """The reason codes of the errors, if no bootstrap server answered."""
    since: float | None = field(default=None, compare=False)
    """The Unix time from which on there has been a problem."""
    lasting: bool = False
    """True if all errors last until a person changes something."""


Fact = DialOutcome | NodeAddress | BootstrapAnswer | OtherCluster | ExplorationState


@dataclass(slots=True)
class ReachabilityState:
    """All facts about one upstream."""

    name: str = "default"
    """The name of the cluster in the configuration."""
    cluster_id: str | None = None
    """The id of the cluster that kproxy serves; None while it is unknown, or if brokers do not send one."""
    reported_by: Address | None = None
    """The address that reported the id first; None if the configuration says it."""
    by_agreement: bool = False
    """True if the id is that of the kproxies which share the ports."""
    nodes: dict[NodeKey, NodeReachability] = field(default_factory=dict)
    node_addresses: dict[Address, NodeAddress] = field(default_factory=dict)
    bootstrap_index: int = 0
    """The index of the bootstrap server that answered last."""
    exploration: ExplorationState = ExplorationState()

    def note(self, fact: Fact) -> bool:
        """Take in a fact; return whether it is new."""
        match fact:
            case DialOutcome(key, reached):
                before = self.nodes.get(key, NodeReachability())
                if reached.problem is not None and before.problem is not None:
                    reached = replace(reached, since=before.since)
                if reached.route is None:  # kproxy tries the route that worked last first
                    reached = replace(reached, route=before.route, proof=before.proof)
                elif reached.proof is Proof.UNCHECKED and before.is_verified_at(reached.route.dial):
                    # One more connection to that address. A verified session has shown more than a new connection.
                    reached = before
                news = before != reached
                self.nodes[key] = reached
            case NodeAddress(address, _, _):
                news = self.node_addresses.get(address) != fact
                if news and address not in self.node_addresses and len(self.node_addresses) >= _ADDRESSES:
                    del self.node_addresses[next(iter(self.node_addresses))]
                self.node_addresses[address] = fact
            case BootstrapAnswer(index):
                news = self.bootstrap_index != index
                self.bootstrap_index = index
            case OtherCluster():
                news = True
            case ExplorationState():
                news = self.exploration != fact
                self.exploration = fact
        return news

    def claim_cluster_id(self, cluster_id: str, reported_by: Address) -> str:
        """Take in the cluster id that a broker reports; return the id of the cluster that is served, the first one."""
        if self.cluster_id is None:
            self.cluster_id, self.reported_by = cluster_id, reported_by
        return self.cluster_id

    def other_cluster_text(self, address: Address, cluster_id: str) -> str:
        """Return the error text for an address that belongs to another cluster."""
        return ANOTHER_CLUSTER(address=address, cluster_id=cluster_id, served_id=self.cluster_id, source=self._source)

    def replaced_text(self, cluster_id: str) -> str:
        """Return the error text for bootstrap servers that all belong to another cluster."""
        return CLUSTER_REPLACED(cluster_id=cluster_id, served_id=self.cluster_id, source=self._source)

    @property
    def _source(self) -> str:
        """How kproxy knows which cluster it serves, and how it can serve another one."""
        if self.by_agreement:
            return "as do the kproxies that share its ports (--reuse-port). If it was created again, restart them"
        if self.reported_by is None:
            return "as --cluster-id says"
        command = "kproxy reload --accept-cluster" + (f" {self.name}" if self.name != "default" else "")
        return f"according to {self.reported_by}. If it was created again: {command}, or restart kproxy"

    def of_node(self, key: NodeKey) -> NodeReachability:
        """Return the result of the last attempt to reach a node."""
        return self.nodes.get(key, NodeReachability())

    def forget(self, keys: Collection[NodeKey]) -> None:
        """Forget nodes that no client asks for any more."""
        forgotten = frozenset(keys)
        for key in forgotten:
            self.nodes.pop(key, None)
        self.node_addresses = {
            address: node_address
            for address, node_address in self.node_addresses.items()
            if node_address.key not in forgotten
        }

    def addresses_of(self, key: NodeKey) -> list[NodeAddress]:
        """Return the addresses that lead to a node."""
        return [node_address for node_address in self.node_addresses.values() if node_address.key == key]

    @property
    def problems(self) -> Mapping[NodeKey, str]:
        """The nodes that could not be reached at the last attempt, and why."""
        return {key: reached.problem for key, reached in self.nodes.items() if reached.problem is not None}
