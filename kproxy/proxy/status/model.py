"""The state of a kproxy process, of its clusters and of their nodes, at one moment.

The fields are those of `/status`; docs/admin.md describes them. Addresses are text, as people read them: HOST:PORT.
"""

from __future__ import annotations

from dataclasses import dataclass

# Reasons that concern something else than the address: TLS, the login, a hop, this machine.
_OF_OTHER_THINGS = ("limit", "proxy-auth", "ssh", "ssh-auth", "ssh-host-key", "kubernetes-auth")
_BEGINNINGS_OF_OTHERS = ("tls", "upstream-speaks-tls", "sasl")


def another_address_may_help(reason: str | None) -> bool:
    """Return True if another address is the first thing to try where a connection failed for this reason."""
    return reason not in _OF_OTHER_THINGS and not (reason or "").startswith(_BEGINNINGS_OF_OTHERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node."""

    node: str
    """Its label: "1", "controller-3000"."""
    kind: str
    """Either "broker" or "controller"."""
    id: int
    advertised: str
    local: str
    bound: bool
    present: bool
    """The last metadata names it."""
    dial: str | None
    """The address that worked last."""
    route: str | None
    """Why kproxy dialled this address: "mapped", "forwarded", "advertised", "learned", "untold"."""
    checked: bool
    proof: str | None
    """The proof that the node answers at this address."""
    problem: str | None
    """Why the last try to connect to it failed."""
    lost_since: float | None = None
    """The Unix time since when all tries failed, or the metadata did not name it; None if neither is so."""
    dial_belongs_to: str | None = None
    """The label of the node that answers at `dial` now, if it is another one."""
    sessions: int
    reason: str | None = None
    """`problem` in a word, as in the metrics. Older kproxies do not have it."""

    @property
    def may_be_elsewhere(self) -> bool:
        """True if the node cannot be reached for a reason that another address may fix."""
        return not self.reachable and another_address_may_help(self.reason)

    @property
    def name(self) -> str:
        """The name of the node in messages: "broker 1", "controller 3000"."""
        return f"{self.kind} {self.id}"

    @property
    def reachable(self) -> bool:
        """True if the last try to connect to it succeeded."""
        return self.problem is None and self.dial is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchStatus:
    """The state of a cluster with two upstreams: see `kproxy.proxy.switching.participant`."""

    phase: str
    switch: str
    """The id of the switch."""
    active: str
    configured: str
    """The upstream that the configuration calls active."""
    to: str
    seconds: float
    """The seconds for which writes have been held."""
    seconds_left: float | None
    """The seconds until the switch undoes itself; None if it does not."""
    unanswered: int
    """Writes without a response, while writes are held."""
    held: int
    """Sessions that wait with a write."""
    doubts: int
    """Clients that may repeat a write."""
    waiting: int
    """Consumers that get no records, because they have not asked for their position since the switch."""
    last: str
    """The outcome of the last switch."""
    problem: str
    """Why kproxy executes no command."""
    stuck: bool = False
    """Writes may wait until a person acts."""
    part: str = ""
    parts: tuple[SwitchStatus, ...] = ()
    """The status of each part of the cluster, whose name is in its `part`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamStatus:
    """A Kafka cluster to which clients of the cluster can be routed; see `ClusterStatus`."""

    name: str
    active: bool
    """Clients are routed to it."""
    bootstrap_servers: tuple[str, ...]
    via: tuple[str, ...]
    cluster_id: str | None
    answered: bool
    searched: bool
    problem: str | None
    refuses: str | None
    """Why it cannot become the active upstream now."""
    nodes: tuple[NodeStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardStatus:
    """A local port that leads to another server than a broker."""

    listen: str
    to: str
    problem: str | None
    """Why the last connection to that server failed; None if it did not."""
    connections: int
    """Connections that are open."""
    accepted: int
    """Connections since the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardCommandStatus:
    """A command of `--forward-command` that kproxy has started, or could not start."""

    node: str
    """The label of the node that it forwards to; "bootstrap": a bootstrap server."""
    server: str | None
    """The bootstrap server; None for a node."""
    command: str
    """The command line of its last start."""
    port: int
    """The local port."""
    state: str
    """Either "starting", "listening" or "ended"."""
    since: float
    """The Unix time since when it is in this state."""
    starts: int
    """How often it was started."""
    problem: str | None
    """How it ended the last time; None once it listens."""
    last_line: str | None
    """The last line that it has printed."""
    upstream: str = ""
    """The upstream of the node; "" for clusters that have only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalStatus:
    """Requests that the access rules have refused: those of one client with the same API and name."""

    api: str
    family: str
    name: str
    """The topic, group or transactional id; "" if the family has none."""
    client: str
    """The client's address, without a port."""
    client_id: str
    """The client's own words; "" if it sends none."""
    reason: str
    """The option that forbids them."""
    error: int
    """Kafka's error code, which the client received."""
    times: int
    last: float
    """The Unix time of the last one."""
    user: str = ""
    """The user who has logged in at kproxy; "" if clients do not log in there."""


@dataclass(frozen=True, slots=True)
class AccessStatus:
    """What clients may not change, and what was refused to them."""

    rules: tuple[str, ...]
    """In words, in the order in which they are evaluated."""
    refused: int
    """Requests since the start."""
    latest: tuple[RefusalStatus, ...]
    """The latest refusals, the latest of all last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One cluster. Its nodes are in order: brokers, then controllers."""

    name: str
    bootstrap_servers: tuple[str, ...]
    via: tuple[str, ...]
    listen: str
    bootstrap: str | None
    """The bootstrap server for clients; None if kproxy's ports are published under other numbers that only the user
    knows."""
    cluster_id: str | None
    answered: bool
    """A bootstrap server has answered."""
    searched: bool
    """kproxy has searched a route to each node."""
    problem: str | None
    """The problem of the bootstrap servers."""
    replaced_by: str | None = None
    """The id of the Kafka cluster to which all bootstrap servers that answer belong, if it is not the served one."""
    problem_since: float | None = None
    """The Unix time since when they have one."""
    login_refused: bool
    """No bootstrap server answered, and one refused kproxy's credentials."""
    full: str | None
    """Why the next connection would be refused."""
    sessions: int
    nodes: tuple[NodeStatus, ...]
    forwards: tuple[ForwardStatus, ...] = ()
    forward_commands: tuple[ForwardCommandStatus, ...] = ()
    upstreams: tuple[UpstreamStatus, ...] = ()
    """All upstreams, if the configuration names them; all other fields are then those of the active one."""
    switch: SwitchStatus | None = None
    access: AccessStatus | None = None
    """None if clients may change everything."""

    @property
    def present(self) -> tuple[NodeStatus, ...]:
        """The nodes in the last metadata."""
        return tuple(node for node in self.nodes if node.present)

    @property
    def out_of_reach(self) -> tuple[NodeStatus, ...]:
        """The present nodes that the last try did not reach, or that have not been tried yet."""
        return tuple(node for node in self.present if not node.reachable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """One session."""

    cluster: str
    node: str
    """The node's label; "bootstrap" if the node is unknown."""
    client: str
    """The client's address and port."""
    client_id: str
    """The client's own words; "" if it sends none."""
    software: str
    """The client's own words; "" if it sends none."""
    since: float
    """A Unix time."""
    in_flight: int
    """Requests without a response yet."""
    reads: bool = False
    """The client has read in this session; False for clusters that cannot be switched."""
    writes: bool = False
    """The client has written in this session; False for clusters that cannot be switched."""
    login: str = ""
    """The mechanism with which the client logs in itself at the broker; "" if it does not."""
    user: str = ""
    """The user who has logged in at kproxy, escaped and cut; "" if clients do not log in there."""
    broker_user: str = ""
    """The user name in the client's login at the broker, which verifies it, escaped and cut; "" if it is unknown."""
    produces: str = ""
    """The kind of producer (`switching.producers`); "" if the client has not written records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of a kproxy process."""

    version: str
    draining: bool
    configured_at: str = ""
    """Since when this configuration is in use, in UTC (ISO 8601)."""
    reloads: int = 0
    """The number of reloads of the configuration without a mistake."""
    clusters: tuple[ClusterStatus, ...]
