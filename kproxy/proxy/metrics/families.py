"""The one table of kproxy's metrics.

The exposition and the checks of docs/metrics.md and of the Grafana dashboard read it; `process_*` and `python_*` are
prometheus-client's own and not listed here. Names follow Prometheus's rules: prefix, base unit, `_total` for counters.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import kproxy
from kproxy.base import compilation
from kproxy.proxy.metrics.counters import Durations, NodeCounters

if TYPE_CHECKING:
    from kproxy.proxy.metrics.registry import Metrics, SwitchMetrics

MetricSample: TypeAlias = tuple[Sequence[str], float | Durations]
"""The label values, in the order of `Family.labels`, and the number; `Durations` for a histogram."""

SWITCH_PHASES = ("serving", "holding", "held", "flipped", "committed")
"""The values of `kproxy.proxy.switching.participant.Phase`."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric.

    `name` is the name in queries, a counter's with `_total`; the samples of a histogram add `_bucket`, `_sum` and
    `_count`. `unit` is the base unit that ends the `stem`, or empty.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    rows: Callable[[Metrics], Iterable[MetricSample]]
    unit: str = ""

    @property
    def stem(self) -> str:
        """The name without `_total`, as OpenMetrics names the family."""
        return self.name.removesuffix("_total")

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Every name that a query may use."""
        if self.kind == "histogram":
            return tuple(self.name + suffix for suffix in ("_bucket", "_count", "_sum"))
        return (self.name,)


def _per_node(value: Callable[[NodeCounters], int]) -> Callable[[Metrics], Iterable[MetricSample]]:
    return lambda metrics: [((n.cluster, n.node), value(n)) for n in metrics.nodes.values()]


def _bytes(metrics: Metrics) -> Iterable[MetricSample]:
    for n in metrics.nodes.values():
        yield (n.cluster, n.node, "client_to_upstream"), n.bytes_from_client
        yield (n.cluster, n.node, "upstream_to_client"), n.bytes_from_upstream


def _requests(metrics: Metrics) -> Iterable[MetricSample]:
    for n in metrics.nodes.values():
        # Two codes may carry one label, "other" above all, and a series must come once.
        counts: Counter[tuple[str, int]] = Counter()
        for call in n.all_calls():
            counts[call.api, call.version] += call.count
        for (api, version), count in counts.items():
            yield (n.cluster, n.node, api, str(version)), count


def _request_durations(metrics: Metrics) -> Iterable[MetricSample]:
    for n in metrics.nodes.values():
        by_api: dict[str, Durations] = {}
        for call in n.all_calls():
            other_versions = by_api.get(call.api)
            by_api[call.api] = call if other_versions is None else other_versions.plus(call)
        for api, durations in by_api.items():
            yield (n.cluster, n.node, api), durations


def _in_flight(metrics: Metrics) -> Iterable[MetricSample]:
    sums: Counter[tuple[str, str]] = Counter()
    for cluster, node, requests in metrics.in_flight():
        sums[cluster, node] += requests
    return list(sums.items())


def _phases(metrics: Metrics) -> Iterable[MetricSample]:
    for switch in metrics.switches():
        for phase in SWITCH_PHASES:
            yield (switch.cluster, phase), int(switch.phase == phase)


def _active(metrics: Metrics) -> Iterable[MetricSample]:
    for switch in metrics.switches():
        for upstream in switch.upstreams:
            yield (switch.cluster, upstream), int(switch.active == upstream)


def _ready(metrics: Metrics) -> Iterable[MetricSample]:
    for switch in metrics.switches():
        for upstream in switch.upstreams:
            yield (switch.cluster, upstream), int(upstream in switch.ready)


def _per_switch(value: Callable[[SwitchMetrics], float]) -> Callable[[Metrics], Iterable[MetricSample]]:
    return lambda metrics: [((switch.cluster,), value(switch)) for switch in metrics.switches()]


FAMILIES: tuple[MetricFamily, ...] = (
    MetricFamily(
        "kproxy_build_info",
        "gauge",
        ("version", "python", "build"),
        "Versions of kproxy and of the Python that runs it. build: whether its data plane is compiled. The value is"
        " always 1.",
        lambda metrics: [((kproxy.__version__, platform.python_version(), compilation.data_plane_kind()), 1)],
    ),
    MetricFamily(
        "kproxy_listeners",
        "gauge",
        ("cluster",),
        "Local ports bound for clients, including the bootstrap listener.",
        lambda metrics: [((cluster,), count) for cluster, count in metrics.listeners_bound.items()],
    ),
    MetricFamily(
        "kproxy_sessions_open",
        "gauge",
        ("cluster", "node"),
        "Client connections that are open now. Each has one upstream connection.",
        _per_node(lambda n: n.sessions_open),
    ),
    MetricFamily(
        "kproxy_sessions_total",
        "counter",
        ("cluster", "node"),
        "Client connections accepted since start.",
        _per_node(lambda n: n.sessions_total),
    ),
    MetricFamily(
        "kproxy_bytes_total",
        "counter",
        ("cluster", "node", "direction"),
        "Bytes of the Kafka protocol received from clients or from upstream, by direction.",
        _bytes,
        unit="bytes",
    ),
    MetricFamily(
        "kproxy_requests_total",
        "counter",
        ("cluster", "node", "api", "version"),
        "Requests passed to the node, by API and API version.",
        _requests,
    ),
    MetricFamily(
        "kproxy_requests_in_flight",
        "gauge",
        ("cluster", "node"),
        "Requests passed to the node that have no response yet.",
        _in_flight,
    ),
    MetricFamily(
        "kproxy_request_duration_seconds",
        "histogram",
        ("cluster", "node", "api"),
        "Time from the arrival of a request at kproxy to the arrival of its response, all versions together.",
        _request_durations,
        unit="seconds",
    ),
    MetricFamily(
        "kproxy_upstream_dial_seconds",
        "histogram",
        ("cluster", "node", "upstream"),
        "Time to open an upstream connection. Failed attempts are not included.",
        lambda metrics: metrics.dials.items(),
        unit="seconds",
    ),
    MetricFamily(
        "kproxy_upstream_dial_failures_total",
        "counter",
        ("cluster", "node", "reason", "upstream"),
        "Upstream connections that kproxy could not open, by reason.",
        lambda metrics: metrics.dial_failures.items(),
    ),
    MetricFamily(
        "kproxy_endpoints_rewritten_total",
        "counter",
        ("cluster", "api"),
        "Advertised addresses that kproxy replaced by local ones, by API of the response.",
        lambda metrics: metrics.endpoints_rewritten.items(),
    ),
    MetricFamily(
        "kproxy_refused_total",
        "counter",
        ("cluster", "side", "reason"),
        "Connections or frames that kproxy refused, by the side at fault and the reason.",
        lambda metrics: metrics.refusals.items(),
    ),
    MetricFamily(
        "kproxy_config_reloads_total",
        "counter",
        ("outcome",),
        "Reloads of the configuration since start, by outcome: success, or failure if a mistake changed nothing.",
        lambda metrics: [((outcome,), count) for outcome, count in metrics.reloads.items()],
    ),
    MetricFamily(
        "kproxy_config_last_reload_success_timestamp_seconds",
        "gauge",
        (),
        "Unix time at which the configuration was last read without a mistake, at start or by a reload.",
        lambda metrics: [((), int(metrics.reload_succeeded_at))],
        unit="seconds",
    ),
    MetricFamily(
        "kproxy_log_lines_dropped_total",
        "counter",
        (),
        "Lines of the log that kproxy dropped since start, as what reads its stderr had stopped.",
        lambda metrics: [((), metrics.log_lines_dropped())],
    ),
    MetricFamily(
        "kproxy_forward_connections",
        "gauge",
        ("cluster", "listen"),
        "Open connections to a port of --forward.",
        lambda metrics: [((cluster, listen), now) for cluster, listen, now, _ in metrics.forwards()],
    ),
    MetricFamily(
        "kproxy_forward_accepted_total",
        "counter",
        ("cluster", "listen"),
        "Connections that clients have opened to a port of --forward.",
        lambda metrics: [((cluster, listen), count) for cluster, listen, _, count in metrics.forwards()],
    ),
    MetricFamily(
        "kproxy_switch_active",
        "gauge",
        ("cluster", "upstream"),
        "1 for the upstream that clients are routed to, 0 for the other one. Only of clusters with upstreams.",
        _active,
    ),
    MetricFamily(
        "kproxy_switch_upstream_ready",
        "gauge",
        ("cluster", "upstream"),
        "1 if the upstream has answered and is a Kafka cluster of its own, so that clients can be routed to it.",
        _ready,
    ),
    MetricFamily(
        "kproxy_switch_phase",
        "gauge",
        ("cluster", "phase"),
        "1 for the phase of the switch that the cluster is in, 0 for the others. Only of clusters with upstreams.",
        _phases,
    ),
    MetricFamily(
        "kproxy_switch_held_sessions",
        "gauge",
        ("cluster",),
        "Sessions that wait with a write because of a switch.",
        _per_switch(lambda switch: switch.held),
    ),
    MetricFamily(
        "kproxy_switch_unanswered_writes",
        "gauge",
        ("cluster",),
        "Writes without an answer, while a switch holds writes. The cluster cannot flip before there are none.",
        _per_switch(lambda switch: switch.unanswered),
    ),
    MetricFamily(
        "kproxy_switch_doubts",
        "gauge",
        ("cluster",),
        "Clients that lost the answer to a write and may repeat it. The cluster cannot flip before there are none.",
        _per_switch(lambda switch: switch.doubts),
    ),
    MetricFamily(
        "kproxy_switch_waiting_clients",
        "gauge",
        ("cluster",),
        "Consumers that get no records, since they have not asked for their position since the last switch.",
        _per_switch(lambda switch: switch.waiting),
    ),
    MetricFamily(
        "kproxy_switch_hold_seconds",
        "gauge",
        ("cluster",),
        "How long the switch that is under way has held writes; 0 if none is.",
        _per_switch(lambda switch: switch.seconds),
        unit="seconds",
    ),
    MetricFamily(
        "kproxy_switch_last_hold_seconds",
        "gauge",
        ("cluster",),
        "How long the last switch that ended held writes.",
        _per_switch(lambda switch: switch.last_seconds),
        unit="seconds",
    ),
)
