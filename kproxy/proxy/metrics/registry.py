"""`Metrics`: what this process has counted, and the registry that shows it to Prometheus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from kproxy.proxy.metrics.counters import Durations, NodeCounters
from kproxy.proxy.metrics.exposition import FamilyCollector

MAX_REASONS = 64
"""Different reasons that become label values. kproxy's source has far fewer; a reason that was put together
from what a peer sent would run into this and count as "other" instead of growing without end."""

BOOTSTRAP = "bootstrap"
"""The label of the bootstrap servers in the place of a node's."""

_REASON = re.compile(r"[a-z][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True)
class SwitchMetrics:
    """Where a cluster is in a switch: see `kproxy.proxy.status.model.SwitchStatus`. `ready`: the upstreams that clients
    can be led to. `last_seconds`: for how long the last switch held writes; `seconds`: for how long this one does."""

    cluster: str
    upstreams: Sequence[str]
    ready: Sequence[str]
    active: str
    phase: str
    unanswered: int
    held: int
    doubts: int
    waiting: int
    last_seconds: float
    seconds: float


class Metrics:
    """The counters of every cluster in this process. Use it, and scrape it, from the event loop's thread.

    `registry` has kproxy's own metrics and those of the process; `runtime` has only the latter
    (`process_*`, `python_*`), which prometheus-client reads by itself.
    """

    def __init__(self) -> None:
        self.nodes: dict[tuple[str, str], NodeCounters] = {}
        """By cluster and node."""
        self.refusals: Counter[tuple[str, str, str]] = Counter()
        """By cluster, side and reason."""
        self.dials: dict[tuple[str, ...], Durations] = {}
        """By cluster and node, and upstream if the cluster has some."""
        self.dial_failures: Counter[tuple[str, ...]] = Counter()
        """By cluster, node and reason, and upstream if the cluster has some."""
        self.endpoints_rewritten: Counter[tuple[str, str]] = Counter()
        """By cluster and API."""
        self.listeners_bound: dict[str, int] = {}
        """By cluster."""
        self.reloads: Counter[str] = Counter(success=0, failure=0)
        """Of the configuration, by outcome."""
        self.configured_at: float = 0.0
        """Since when this configuration runs, as a Unix time."""
        self.reload_succeeded_at: float = 0.0
        """When the configuration was last read without a mistake."""
        self.in_flight: Callable[[], Iterable[tuple[str, str, int]]] = tuple
        """Requests without a response yet, as (cluster, node, how many); set by the app, asked at a scrape.
        A node may come several times, once per session say: the numbers are added."""
        self.switches: Callable[[], Iterable[SwitchMetrics]] = tuple
        """Of clusters that can be switched; set by the app, asked at a scrape."""
        self.forwards: Callable[[], Iterable[tuple[str, str, int, int]]] = tuple
        """Of each port of --forward: cluster, local address, connections that are open, and how many there have been;
        set by the app, asked at a scrape."""
        self.log_lines_dropped: Callable[[], int] = int
        """Lines of the log that were never written, as what reads it had stopped; set by the app, asked at a scrape."""
        self._reasons: set[str] = set()

        self.runtime = CollectorRegistry()
        self.registry = CollectorRegistry()
        self.registry.register(FamilyCollector(self))
        for registry in (self.runtime, self.registry):
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
            GCCollector(registry=registry)

    def node(self, cluster: str, node: str) -> NodeCounters:
        """The counters of one node, made when missing. They stay until `keep_only`."""
        found = self.nodes.get((cluster, node))
        if found is None:
            found = self.nodes[cluster, node] = NodeCounters(cluster, node)
        return found

    def keep_only(self, cluster: str, nodes: Collection[str]) -> None:
        """Forget what was counted of nodes that the cluster has no more: a broker may name others for ever. One to
        which clients are still connected stays."""
        stays = {*nodes, BOOTSTRAP}
        stays |= {name for (of, name), node in self.nodes.items() if of == cluster and node.sessions_open}
        for name in [name for of, name in self.nodes if of == cluster and name not in stays]:
            del self.nodes[cluster, name]
        for numbers in (self.dials, self.dial_failures):
            for key in [key for key in numbers if key[0] == cluster and key[1] not in stays]:
                del numbers[key]

    def refused(self, cluster: str, side: str, reason: str) -> None:
        """A connection or a frame was refused because of what `side` ("client" or "upstream") did or sent."""
        self.refusals[cluster, side, self._known(reason)] += 1

    def dialled(self, cluster: str, node: str, seconds: float, upstream: str = "") -> None:
        """An upstream connection was opened; `seconds` include the route and TLS."""
        key = (cluster, node, upstream) if upstream else (cluster, node)
        dials = self.dials.get(key)
        if dials is None:
            dials = self.dials[key] = Durations()
        dials.add(seconds)

    def dial_failed(self, cluster: str, node: str, reason: str, upstream: str = "") -> None:
        """An upstream connection could not be opened; `reason` is that of the `UpstreamError`."""
        reason = self._known(reason)
        self.dial_failures[(cluster, node, reason, upstream) if upstream else (cluster, node, reason)] += 1

    def rewritten(self, cluster: str, api: str, endpoints: int) -> None:
        """A response of `api` went to a client with so many endpoints replaced."""
        self.endpoints_rewritten[cluster, api] += endpoints

    def listeners(self, cluster: str, count: int) -> None:
        """So many listeners of the cluster are bound now, bootstrap included."""
        self.listeners_bound[cluster] = count

    def reloaded(self, done: bool, now: float) -> None:
        """The configuration was read again, and taken over or refused."""
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
