"""The metrics of a copy: by topic, never by partition, since there may be ten thousand partitions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.migrate.copy.progress import CopyProgress


class _ProgressCollector(Collector):
    def __init__(self, progress: Callable[[], CopyProgress | None]) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        progress = self._progress()
        labels = ["migration", "topic"]
        records = CounterMetricFamily("kproxy_migrate_records", "Records copied.", labels=labels)
        copied = CounterMetricFamily("kproxy_migrate_bytes", "Bytes copied, as on the source's wire.", labels=labels)
        lag = GaugeMetricFamily("kproxy_migrate_lag_offsets", "Offsets not copied yet.", labels=labels)
        stuck = GaugeMetricFamily("kproxy_migrate_stuck_partitions", "Partitions whose copy is stuck.", labels=labels)
        deletion = GaugeMetricFamily(
            "kproxy_migrate_overtaken_seconds",
            "Seconds until the source deletes records that are not copied yet, of the partition where that is soonest.",
            labels=labels,
        )
        paused = GaugeMetricFamily("kproxy_migrate_paused", "1 while the copy is paused.", labels=["migration"])
        if progress is not None:
            paused.add_metric([progress.name], float(progress.paused))
            stuck_counts: dict[str, int] = {}
            for topic, _ in progress.stuck:
                stuck_counts[topic] = stuck_counts.get(topic, 0) + 1
            for topic_progress in progress.topics():
                values = [progress.name, topic_progress.topic]
                records.add_metric(values, topic_progress.records)
                copied.add_metric(values, topic_progress.size)
                lag.add_metric(values, topic_progress.lag)
                stuck.add_metric(values, stuck_counts.get(topic_progress.topic, 0))
            soonest: dict[str, float] = {}
            for (topic, _), seconds in progress.deletion_forecast().items():
                soonest[topic] = min(seconds, soonest.get(topic, seconds))
            for topic, seconds in soonest.items():
                deletion.add_metric([progress.name, topic], max(0.0, seconds))
        yield from (records, copied, lag, stuck, deletion, paused)


@contextmanager
def serve_metrics(address: str | None, progress: Callable[[], CopyProgress | None]) -> Iterator[None]:
    """Serve `/metrics` at HOST:PORT while the context is open; serve nothing if `address` is None.

    Raises ConfigError if the port cannot be bound.
    """
    if address is None:
        yield
        return
    from prometheus_client import start_http_server

    parsed = Address.parse(address)
    registry = CollectorRegistry()
    registry.register(_ProgressCollector(progress))
    try:
        server, thread = start_http_server(parsed.port, parsed.host, registry)
    except OSError as error:
        raise ConfigError(f"--metrics {address}: {error.strerror or error}; allowed: a free port") from None
    try:
        yield
    finally:
        _stop(server, thread)


def _stop(server: object, thread: threading.Thread) -> None:
    server.shutdown()  # type: ignore[attr-defined]  # prometheus_client returns any WSGI server
    server.server_close()  # type: ignore[attr-defined]
    thread.join()
