"""Counters, and what prometheus-client's own parser makes of their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector

from kproxy.proxy.metrics import LATENCY_BOUNDS, Durations, Metrics
from kproxy.proxy.metrics.exposition import exposition
from kproxy.proxy.metrics.families import FAMILIES, MetricFamily, MetricSample
from kproxy.proxy.metrics.registry import SwitchMetrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(families: Iterable[Metric], prefix: str = "kproxy_") -> Samples:
    """Every sample of the families; a series that comes twice is an error."""
    found: Samples = {}
    for family in families:
        for sample in family.samples:
            if sample.name.startswith(prefix):
                key = sample.name, frozenset(sample.labels.items())
                assert key not in found, f"{key} comes twice"
                found[key] = sample.value
    return found


def scrape(metrics: Metrics) -> Samples:
    pieces, _ = exposition(metrics)
    return samples(parse_text("".join(pieces)))


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return scrape(metrics)[name, frozenset(labels.items())]


def sample_names(family: MetricFamily) -> list[str]:
    """Every name that a query may use."""
    suffixes = ("_bucket", "_count", "_sum") if family.kind == "histogram" else ("",)
    return [family.name + suffix for suffix in suffixes]


def busy(cluster: str = "default") -> Metrics:
    """Something of every family."""
    metrics = Metrics()
    for number, name in enumerate(("bootstrap", "1", "controller-3000"), start=1):
        node = metrics.node(cluster, name)
        node.sessions_open, node.sessions_total = number, number * 10
        node.bytes_from_client, node.bytes_from_upstream = number * 1000, number * 10**16
        for api_key, api, version in ((1, "Fetch", 12), (1, "Fetch", 17), (3, "Metadata", 13)):
            call = node.call(api_key << 16 | version, api, version)
            call.count += number
            for seconds in (0.0004, 0.0005, 0.51, 31.0):
                call.add(seconds * number)
        metrics.add_dial(cluster, name, 0.02)
        metrics.count_dial_failure(cluster, name, "refused")
    metrics.add_dial(cluster, "1", 0.03, "green")
    metrics.count_dial_failure(cluster, "1", "refused", "green")
    metrics.count_dial_failure(cluster, "1", "refused", "green")
    metrics.count_refusal(cluster, "client", "tls")
    metrics.count_refused_request(cluster, "Produce")
    metrics.count_client_login(cluster, "PLAIN", "success")
    metrics.count_rewritten(cluster, "Metadata", 3)
    metrics.set_listeners(cluster, 4)
    metrics.in_flight = lambda: [(cluster, "1", 2), (cluster, "bootstrap", 1), (cluster, "1", 3)]
    metrics.switches = lambda: [
        SwitchMetrics(cluster, ("blue", "green"), ("green",), "green", "held", 1, 2, 3, 4, 4.5, 0.5)
    ]
    metrics.forwards = lambda: [(cluster, "127.0.0.1:8081", 2, 3)]
    return metrics


class FamilyCollector(Collector):
    """The same metrics in prometheus-client's classes, whose text writer is slow."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            yield _metric(family, family.rows(self._metrics))


def _metric(family: MetricFamily, rows: Iterable[MetricSample]) -> Metric:
    name, text, labels = family.stem, family.help, family.labels
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, text, labels=labels, unit=family.unit)
        for values, number in rows:
            if isinstance(number, Durations):
                buckets = list(zip([*map(repr, LATENCY_BOUNDS), "+Inf"], accumulate(number.buckets), strict=True))
                histogram.add_metric(values, buckets, number.seconds)
        return histogram
    plain: dict[str, type[CounterMetricFamily] | type[GaugeMetricFamily]] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
    }
    metric = plain[family.kind](name, text, labels=labels, unit=family.unit)
    for values, number in rows:
        if not isinstance(number, Durations):
            metric.add_metric(values, number)
    return metric
