"""What kproxy knows of reaching one cluster: which one it is, which address leads to whom, how each node is reached.

One value. What is found out is said as a *fact*, and `Known.note` takes it in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from kproxy.base.address import Address
from kproxy.net.dial.routes import Route
from kproxy.proxy.cluster.topology import NodeKey

# Addresses whose node is remembered. More than any cluster has; a bound for one that names new addresses for ever.
_ADDRESSES = 10_000


class Proof(Enum):
    """How it is known which node an address leads to."""

    OWN_WORD = "the broker says so"
    CERTIFICATE = "its certificate has that node's name only"
    LEADER = "it leads partitions of that node"
    COORDINATOR = "it coordinates groups of that node"
    ONLY_BROKER = "the cluster has just one broker"
    ASSUMED = "assumed"  # the cluster is the right one, and nothing tells which node it is
    UNCHECKED = "not checked yet"  # it answers; whom it is will be asked within a client's session, after its login

    @property
    def checked(self) -> bool:
        """Whether a broker's answer or certificate has shown it."""
        return self not in (Proof.ASSUMED, Proof.UNCHECKED)


@dataclass(frozen=True, slots=True)
class NodeReachability:
    """What came of the last try to reach a node: the route that worked last and how it is known to lead there; or,
    where `problem` is set, why none did. `since`: the Unix time from which on none did, with another `problem` or this
    one. `lasting`: that stays so before a person changes something."""

    route: Route | None = None
    proof: Proof | None = None
    problem: str | None = None
    reason: str | None = None
    since: float | None = field(default=None, compare=False)  # the same news with another time is none
    lasting: bool = False

    def shows(self, dial: Address) -> bool:
        """Whether it says more of this address than that it answers."""
        return self.problem is None and self.route is not None and self.route.dial == dial


@dataclass(frozen=True, slots=True)
class DialOutcome:
    """A fact: this came of trying to reach a node."""

    key: NodeKey
    reached: NodeReachability


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """A fact: an address leads to this node."""

    address: Address
    key: NodeKey
    proof: Proof


@dataclass(frozen=True, slots=True)
class BootstrapAnswer:
    """A fact: this one of the bootstrap servers answered last."""

    at: int


@dataclass(frozen=True, slots=True)
class ExplorationState:
    """A fact: so far has the exploration come. `settled`: the bootstrap servers have been asked once; `answered`: one
    has answered; `searched`: a way to each node of then has been looked for. `problem`: what is wrong with the
    bootstrap servers; `since`: the Unix time from which on something is. `conflict`: they are of different clusters,
    so nobody can be served. `login_refused`: none answered, as one refused kproxy's credentials. `reasons`: those of
    the errors, if none answered. `lasting`: all these errors stay before a person changes something."""

    settled: bool = False
    answered: bool = False
    searched: bool = False
    problem: str | None = "no bootstrap server has been asked yet"
    conflict: str | None = None
    login_refused: bool = False
    reasons: frozenset[str] = frozenset()
    since: float | None = field(default=None, compare=False)
    lasting: bool = False


Fact = DialOutcome | NodeAddress | BootstrapAnswer | ExplorationState


@dataclass(slots=True)
class ReachabilityState:
    """All of it. `cluster_id`: the cluster that kproxy serves, as `said_by` told first, or, if that is None, as the
    user says; None while nobody has, or where brokers do not know."""

    cluster_id: str | None = None
    said_by: Address | None = None
    agreed: bool = False
    nodes: dict[NodeKey, NodeReachability] = field(default_factory=dict)
    leads_to: dict[Address, NodeAddress] = field(default_factory=dict)
    bootstrap_at: int = 0
    explored: ExplorationState = ExplorationState()

    def note(self, fact: Fact) -> bool:
        """Take in a fact; whether it is news."""
        match fact:
            case DialOutcome(key, reached):
                before = self.nodes.get(key, NodeReachability())
                if reached.problem is not None and before.problem is not None:
                    reached = replace(reached, since=before.since)
                if reached.route is None:  # the route that worked last is the first to be tried again
                    reached = replace(reached, route=before.route, proof=before.proof)
                elif reached.proof is Proof.UNCHECKED and before.shows(reached.route.dial):
                    # One more connection to there. A session that was asked within knows more than who opened it.
                    reached = before
                news = before != reached
                self.nodes[key] = reached
            case NodeAddress(address, _, _):
                news = self.leads_to.get(address) != fact
                if news and address not in self.leads_to and len(self.leads_to) >= _ADDRESSES:
                    del self.leads_to[next(iter(self.leads_to))]
                self.leads_to[address] = fact
            case BootstrapAnswer(at):
                news = self.bootstrap_at != at
                self.bootstrap_at = at
            case ExplorationState():
                news = self.explored != fact
                self.explored = fact
        return news

    def claim(self, cluster_id: str, said_by: Address) -> str:
        """A broker says that this is its cluster: the first one settles which cluster is served. Return that one."""
        if self.cluster_id is None:
            self.cluster_id, self.said_by = cluster_id, said_by
        return self.cluster_id

    def another(self, address: Address, cluster_id: str) -> str:
        """What to say of an address that is of another cluster."""
        if self.agreed:
            why = "as do the kproxies that share its ports (--reuse-port)"
        elif self.said_by is None:
            why = "as --cluster-id says"
        else:
            why = f"according to {self.said_by}. If the cluster was created again, restart kproxy"
        return (
            f"{address} answers, but it is another cluster (id {cluster_id}): kproxy serves the cluster with the"
            f" id {self.cluster_id}, {why}"
        )

    def reached(self, key: NodeKey) -> NodeReachability:
        """What came of the last try to reach a node."""
        return self.nodes.get(key, NodeReachability())

    def forget(self, keys: Collection[NodeKey]) -> None:
        """No client asks for these nodes any more."""
        gone = frozenset(keys)
        for key in gone:
            self.nodes.pop(key, None)
        self.leads_to = {address: one for address, one in self.leads_to.items() if one.key not in gone}

    def addresses_of(self, key: NodeKey) -> list[NodeAddress]:
        """Addresses that lead to a node."""
        return [known for known in self.leads_to.values() if known.key == key]

    @property
    def problems(self) -> Mapping[NodeKey, str]:
        """Nodes that could not be reached at the last try, and why."""
        return {key: reached.problem for key, reached in self.nodes.items() if reached.problem is not None}
