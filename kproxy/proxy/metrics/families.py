"""The one table of kproxy's metrics.

The exposition and the checks of docs/metrics.md and of the Grafana dashboard read it; `process_*` and `python_*` are
prometheus-client's own and not listed here. Names follow Prometheus's rules: prefix, base unit, `_total` for counters.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

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
    `_count`.
    """

    name: str
    kind: str
    """counter, gauge or histogram."""
    labels: tuple[str, ...]
    help: str
    rows: Callable[[Metrics], Iterable[MetricSample]]

    @property
    def stem(self) -> str:
        """The name without `_total`, as OpenMetrics names the family."""
        return self.name.removesuffix("_total")

    @property
    def unit(self) -> str:
        """The base unit that ends the stem, or ""."""
        last = self.stem.rpartition("_")[2]
        return last if last in ("bytes", "seconds") else ""


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


# Kind, name, labels and help of each; a line that is indented continues the one before.
_DECLARATIONS = """\
gauge kproxy_build_info{version,python,build}: Versions of kproxy and of the Python that runs it. build: whether its
  data plane is compiled. The value is always 1.
gauge kproxy_listeners{cluster}: Local ports bound for clients, including the bootstrap listener.
gauge kproxy_sessions_open{cluster,node}: Client connections that are open now. Each has one upstream connection.
counter kproxy_sessions_total{cluster,node}: Client connections accepted since start.
counter kproxy_bytes_total{cluster,node,direction}: Bytes of the Kafka protocol received from clients or from
  upstream, by direction.
counter kproxy_requests_total{cluster,node,api,version}: Requests passed to the node, by API and API version.
gauge kproxy_requests_in_flight{cluster,node}: Requests passed to the node that have no response yet.
histogram kproxy_request_duration_seconds{cluster,node,api}: Time from the arrival of a request at kproxy to the
  arrival of its response, all versions together.
histogram kproxy_upstream_dial_seconds{cluster,node,upstream}: Time to open an upstream connection. Failed attempts
  are not included.
counter kproxy_upstream_dial_failures_total{cluster,node,reason,upstream}: Upstream connections that kproxy could not
  open, by reason.
counter kproxy_endpoints_rewritten_total{cluster,api}: Advertised addresses that kproxy replaced by local ones, by API
  of the response.
counter kproxy_refused_total{cluster,side,reason}: Connections or frames that kproxy refused, by the side at fault and
  the reason.
counter kproxy_requests_refused_total{cluster,api}: Requests that kproxy refused in whole or in part because of
  --read-only or rules, by API.
counter kproxy_client_logins_total{cluster,mechanism,outcome}: Logins of clients at kproxy, by mechanism, or
  certificate, and outcome: success, refused (wrong password or unknown user), or another reason.
counter kproxy_config_reloads_total{outcome}: Reloads of the configuration since start, by outcome: success, or
  failure if a mistake changed nothing.
gauge kproxy_config_last_reload_success_timestamp_seconds{}: Unix time at which the configuration was last read
  without a mistake, at start or by a reload.
counter kproxy_log_lines_dropped_total{}: Lines of the log that kproxy dropped since start, as what reads its stderr
  had stopped.
gauge kproxy_forward_connections{cluster,listen}: Open connections to a port of --forward.
counter kproxy_forward_accepted_total{cluster,listen}: Connections that clients have opened to a port of --forward.
gauge kproxy_switch_active{cluster,upstream}: 1 for the upstream that clients are routed to, 0 for the other one. Only
  of clusters with upstreams.
gauge kproxy_switch_upstream_ready{cluster,upstream}: 1 if the upstream has answered and is a Kafka cluster of its
  own, so that clients can be routed to it.
gauge kproxy_switch_phase{cluster,phase}: 1 for the phase of the switch that the cluster is in, 0 for the others. Only
  of clusters with upstreams.
gauge kproxy_switch_held_sessions{cluster}: Sessions that wait with a write because of a switch.
gauge kproxy_switch_unanswered_writes{cluster}: Writes without an answer, while a switch holds writes. The cluster
  cannot flip before there are none.
gauge kproxy_switch_doubts{cluster}: Clients that lost the answer to a write and may repeat it. The cluster cannot
  flip before there are none.
gauge kproxy_switch_waiting_clients{cluster}: Consumers that get no records, since they have not asked for their
  position since the last switch.
gauge kproxy_switch_hold_seconds{cluster}: How long the switch that is under way has held writes; 0 if none is.
gauge kproxy_switch_last_hold_seconds{cluster}: How long the last switch that ended held writes.
"""

_ROWS: dict[str, Callable[[Metrics], Iterable[MetricSample]]] = {
    "kproxy_build_info": lambda m: [
        ((kproxy.__version__, platform.python_version(), compilation.data_plane_kind()), 1)
    ],
    "kproxy_listeners": lambda m: [((cluster,), count) for cluster, count in m.listeners_bound.items()],
    "kproxy_sessions_open": _per_node(lambda n: n.sessions_open),
    "kproxy_sessions_total": _per_node(lambda n: n.sessions_total),
    "kproxy_bytes_total": _bytes,
    "kproxy_requests_total": _requests,
    "kproxy_requests_in_flight": _in_flight,
    "kproxy_request_duration_seconds": _request_durations,
    "kproxy_upstream_dial_seconds": lambda m: m.dials.items(),
    "kproxy_upstream_dial_failures_total": lambda m: m.dial_failures.items(),
    "kproxy_endpoints_rewritten_total": lambda m: m.endpoints_rewritten.items(),
    "kproxy_refused_total": lambda m: m.refusals.items(),
    "kproxy_requests_refused_total": lambda m: m.refused_requests.items(),
    "kproxy_client_logins_total": lambda m: m.client_logins.items(),
    "kproxy_config_reloads_total": lambda m: [((outcome,), count) for outcome, count in m.reloads.items()],
    "kproxy_config_last_reload_success_timestamp_seconds": lambda m: [((), int(m.reload_succeeded_at))],
    "kproxy_log_lines_dropped_total": lambda m: [((), m.log_lines_dropped())],
    "kproxy_forward_connections": lambda m: [((cluster, listen), now) for cluster, listen, now, _ in m.forwards()],
    "kproxy_forward_accepted_total": lambda m: [
        ((cluster, listen), count) for cluster, listen, _, count in m.forwards()
    ],
    "kproxy_switch_active": _active,
    "kproxy_switch_upstream_ready": _ready,
    "kproxy_switch_phase": _phases,
    "kproxy_switch_held_sessions": _per_switch(lambda switch: switch.held),
    "kproxy_switch_unanswered_writes": _per_switch(lambda switch: switch.unanswered),
    "kproxy_switch_doubts": _per_switch(lambda switch: switch.doubts),
    "kproxy_switch_waiting_clients": _per_switch(lambda switch: switch.waiting),
    "kproxy_switch_hold_seconds": _per_switch(lambda switch: switch.seconds),
    "kproxy_switch_last_hold_seconds": _per_switch(lambda switch: switch.last_seconds),
}

FAMILIES: tuple[MetricFamily, ...] = tuple(
    MetricFamily(name, kind, tuple(labels.split(",")) if labels else (), text, _ROWS[name])
    for kind, name, labels, text in re.findall(r"(\w+) (\w+){(.*?)}: (.+)", _DECLARATIONS.replace("\n  ", " "))
)
