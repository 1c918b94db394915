"""`Metrics`: the counters of this process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from kproxy.proxy.metrics.counters import Durations, NodeCounters

MAX_REASONS = 64
"""Different reasons that become label values. kproxy's source has far fewer; a reason that was put together
from what a peer sent would run into this and count as "other" instead of growing without end."""

BOOTSTRAP = "bootstrap"
"""The node label of the bootstrap servers."""

_REASON = re.compile(r"[a-z][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True)
class SwitchMetrics:
    """The state of a cluster in a switch: see `kproxy.proxy.status.model.SwitchStatus`."""

    cluster: str
    upstreams: Sequence[str]
    ready: Sequence[str]
    """The upstreams to which clients can be routed."""
    active: str
    phase: str
    unanswered: int
    held: int
    doubts: int
    waiting: int
    last_seconds: float
    """For how long the last switch held writes."""
    seconds: float
    """For how long this switch has held writes."""


class Metrics:
    """The counters of every cluster in this process. Use it, and scrape it, from the event loop's thread."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[str, str], NodeCounters] = {}
        """By cluster and node."""
        self.refusals: Counter[tuple[str, str, str]] = Counter()
        """By cluster, side and reason."""
        self.refused_requests: Counter[tuple[str, str]] = Counter()
        """By cluster and API."""
        self.client_logins: Counter[tuple[str, str, str]] = Counter()
        """By cluster, mechanism and outcome."""
        self.dials: dict[tuple[str, ...], Durations] = {}
        """By cluster and node, and upstream if the cluster has some."""
        self.dial_failures: Counter[tuple[str, ...]] = Counter()
        """By cluster, node and reason, and upstream if the cluster has some."""
        self.endpoints_rewritten: Counter[tuple[str, str]] = Counter()
        """By cluster and API."""
        self.listeners_bound: dict[str, int] = {}
        """By cluster."""
        self.reloads: Counter[str] = Counter(success=0, failure=0)
        """Reloads of the configuration, by outcome."""
        self.configured_at: float = 0.0
        """Since when this configuration runs, as a Unix time."""
        self.reload_succeeded_at: float = 0.0
        """When the configuration was last read without a mistake."""
        self.in_flight: Callable[[], Iterable[tuple[str, str, int]]] = tuple
        """Requests without a response yet, as (cluster, node, how many); set by the app, asked at a scrape.
        A node may come several times, once per session say: the numbers are added."""
        self.switches: Callable[[], Iterable[SwitchMetrics]] = tuple
        """The clusters that can be switched; set by the app, called at a scrape."""
        self.forwards: Callable[[], Iterable[tuple[str, str, int, int]]] = tuple
        """The ports of --forward: cluster, local address, connections that are open, and how many there have been;
        set by the app, asked at a scrape."""
        self.log_lines_dropped: Callable[[], int] = int
        """Lines of the log that were never written, as what reads it had stopped; set by the app, asked at a scrape."""
        self._reasons: set[str] = set()

    def node(self, cluster: str, node: str) -> NodeCounters:
        """Return the counters of one node; add them if they are missing. They stay until `keep_only`."""
        counters = self.nodes.get((cluster, node))
        if counters is None:
            counters = self.nodes[cluster, node] = NodeCounters(cluster, node)
        return counters

    def bytes_received(self, cluster: str) -> int:
        """Return how many bytes the sessions of a cluster have received from its brokers."""
        return sum(node.bytes_from_upstream for (name, _), node in self.nodes.items() if name == cluster)

    def keep_only(self, cluster: str, nodes: Collection[str]) -> None:
        """Forget the counters of all other nodes of the cluster: a broker may name new nodes for ever.

        A node to which clients are still connected stays.
        """
        stays = {*nodes, BOOTSTRAP}
        stays |= {name for (of, name), node in self.nodes.items() if of == cluster and node.sessions_open}
        for name in [name for of, name in self.nodes if of == cluster and name not in stays]:
            del self.nodes[cluster, name]
        for numbers in (self.dials, self.dial_failures):
            for key in [key for key in numbers if key[0] == cluster and key[1] not in stays]:
                del numbers[key]

    def count_refusal(self, cluster: str, side: str, reason: str) -> None:
        """Count a connection or a frame that kproxy refused because of `side` ("client" or "upstream")."""
        self.refusals[cluster, side, self._known(reason)] += 1

    def count_refused_request(self, cluster: str, api: str) -> None:
        """Count a request that the access rules forbid; `api` is a name of the table of APIs."""
        self.refused_requests[cluster, api] += 1

    def count_client_login(self, cluster: str, mechanism: str, outcome: str) -> None:
        """Count a login of a client at kproxy. The mechanism and the outcome are words of kproxy's own."""
        self.client_logins[cluster, mechanism, outcome] += 1

    def add_dial(self, cluster: str, node: str, seconds: float, upstream: str = "") -> None:
        """Count an upstream connection that was opened; `seconds` include the route and TLS."""
        key = (cluster, node, upstream) if upstream else (cluster, node)
        dials = self.dials.get(key)
        if dials is None:
            dials = self.dials[key] = Durations()
        dials.add(seconds)

    def count_dial_failure(self, cluster: str, node: str, reason: str, upstream: str = "") -> None:
        """Count an upstream connection that failed; `reason` is that of the `UpstreamError`."""
        reason = self._known(reason)
        self.dial_failures[(cluster, node, reason, upstream) if upstream else (cluster, node, reason)] += 1

    def count_rewritten(self, cluster: str, api: str, endpoints: int) -> None:
        """Count a response of `api` to a client in which this many endpoints were replaced."""
        self.endpoints_rewritten[cluster, api] += endpoints

    def set_listeners(self, cluster: str, count: int) -> None:
        """Set the number of bound listeners of the cluster, bootstrap included."""
        self.listeners_bound[cluster] = count

    def count_reload(self, done: bool, now: float) -> None:
        """Count a reload of the configuration, which was applied (`done`) or refused."""
        self.reloads["success" if done else "failure"] += 1
        if done:
            self.reload_succeeded_at = now

    def _known(self, reason: str) -> str:
        if reason in self._reasons:
            return reason
        if len(self._reasons) >= MAX_REASONS or not _REASON.fullmatch(reason):
            return "other"
        self._reasons.add(reason)
        return reason
