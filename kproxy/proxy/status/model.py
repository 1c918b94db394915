"""The state of a kproxy process, of its clusters and of their nodes, at one moment.

The fields are those of `/status`; docs/admin.md describes them. Addresses are text, as people read them: HOST:PORT.
"""

from __future__ import annotations

from dataclasses import dataclass

# Reasons that speak of something else than the address: TLS, the login, a hop, this machine.
_OF_OTHER_THINGS = ("limit", "proxy-auth", "ssh", "ssh-auth", "ssh-host-key", "kubernetes-auth")
_BEGINNINGS_OF_OTHERS = ("tls", "upstream-speaks-tls", "sasl")


def another_address_may_help(reason: str | None) -> bool:
    """Return True if another address is the first thing to try where a connection failed for this reason."""
    return reason not in _OF_OTHER_THINGS and not (reason or "").startswith(_BEGINNINGS_OF_OTHERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node.

    `node` is its label ("1", "controller-3000"), `kind` "broker" or "controller". `present`: the metadata names it.
    `dial`, `route`, `checked` and `proof`: the address that worked last, why it was dialled ("mapped", "advertised",
    "learned", "untold"), and what shows that the node is there. `problem`: why the last try to reach it failed, and
    `reason` the same in a word, as in the metrics. `lost_since`: the Unix time from which on all tries failed, or the
    metadata did not name it; None if neither is so.
    """

    node: str
    kind: str
    id: int
    advertised: str
    local: str
    bound: bool
    present: bool
    dial: str | None
    route: str | None
    checked: bool
    proof: str | None
    problem: str | None
    lost_since: float | None = None
    sessions: int
    reason: str | None = None  # a kproxy before this one does not say it

    @property
    def may_be_elsewhere(self) -> bool:
        """Whether the node cannot be reached for a reason that another address may mend."""
        return not self.reachable and another_address_may_help(self.reason)

    @property
    def name(self) -> str:
        """In the words of a message: "broker 1", "controller 3000"."""
        return f"{self.kind} {self.id}"

    @property
    def reachable(self) -> bool:
        """Whether the last try to reach it succeeded."""
        return self.problem is None and self.dial is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchStatus:
    """Where a cluster is between its two upstreams: see `kproxy.proxy.switching.participant`.

    `phase`, `switch` (its id), `active`, `to` as there; `configured`: the upstream that the configuration calls active.
    `seconds`: how long writes have been held, `seconds_left`: until the switch undoes itself, None where it does not.
    `unanswered`: writes without an answer, while they are held. `held`: sessions that wait with a write. `doubts`:
    clients that may repeat a write. `waiting`: consumers that get nothing, since they have not asked for their position
    since the switch. `last`: what came of the last switch. `problem`: why no command is obeyed. `stuck`: writes may
    wait until a person does something. `parts`: the same of each of its parts, whose names are in `part`.
    """

    phase: str
    switch: str
    active: str
    configured: str
    to: str
    seconds: float
    seconds_left: float | None
    unanswered: int
    held: int
    doubts: int
    waiting: int
    last: str
    problem: str
    stuck: bool = False
    part: str = ""
    parts: tuple[SwitchStatus, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamStatus:
    """A Kafka cluster that the cluster can lead to; see `ClusterStatus`. `active`: clients are led to it. `refuses`:
    why it cannot become the active one now."""

    name: str
    active: bool
    bootstrap_servers: tuple[str, ...]
    via: tuple[str, ...]
    cluster_id: str | None
    answered: bool
    searched: bool
    problem: str | None
    refuses: str | None
    nodes: tuple[NodeStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardStatus:
    """A local port that leads to something else than a broker. `problem`: why the last connection to there failed, None
    if it did not. `connections`: those that are open. `accepted`: how many there have been."""

    listen: str
    to: str
    problem: str | None
    connections: int
    accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One cluster, its nodes in order: brokers, then controllers.

    `bootstrap`: what clients use as their bootstrap server, None where kproxy's ports are published under other
    numbers and only the user knows. `answered`: a bootstrap server has answered. `searched`: kproxy has looked for a
    route to each node. `problem`: what is wrong with the bootstrap servers, `problem_since`: the Unix time from which
    on something is. `login_refused`: no bootstrap server answered, and one refused kproxy's credentials. `full`: why
    the next connection would be refused. `upstreams`: all that it can lead to, where the configuration names them;
    everything else is then of the active one. `switch`: where it is between them, and in which switch.
    """

    name: str
    bootstrap_servers: tuple[str, ...]
    via: tuple[str, ...]
    listen: str
    bootstrap: str | None
    cluster_id: str | None
    answered: bool
    searched: bool
    problem: str | None
    problem_since: float | None = None
    login_refused: bool
    full: str | None
    sessions: int
    nodes: tuple[NodeStatus, ...]
    forwards: tuple[ForwardStatus, ...] = ()
    upstreams: tuple[UpstreamStatus, ...] = ()
    switch: SwitchStatus | None = None

    @property
    def present(self) -> tuple[NodeStatus, ...]:
        """The nodes that the last metadata named."""
        return tuple(node for node in self.nodes if node.present)

    @property
    def out_of_reach(self) -> tuple[NodeStatus, ...]:
        """Those of them that could not be reached at the last try, or have not been tried yet."""
        return tuple(node for node in self.present if not node.reachable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """One session. `node`: the node's label, "bootstrap" where it is not known. `client`: the client's address and
    port. `client_id` and `software` are the client's own words, "" where it does not say them. `since` is a Unix time,
    `in_flight` how many requests have no response yet. `reads`, `writes`: whether the client has done so in it, where
    the cluster can be switched; elsewhere nobody notes that. `login`: the mechanism with which the client logs in
    itself, "" if it does not. `produces`: how it writes records (`switching.producers`), "" if it has not done so."""

    cluster: str
    node: str
    client: str
    client_id: str
    software: str
    since: float
    in_flight: int
    reads: bool = False
    writes: bool = False
    login: str = ""
    produces: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All of it. `configured_at`: since when this
    configuration runs, in UTC (ISO 8601); `reloads`: how often kproxy has read it again without a mistake."""

    version: str
    draining: bool
    configured_at: str = ""
    reloads: int = 0
    clusters: tuple[ClusterStatus, ...]
