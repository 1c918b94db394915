"""The copy's numbers for Prometheus: by topic, never by partition, since there may be ten thousand."""

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
        stuck = GaugeMetricFamily("kproxy_migrate_stuck_partitions", "Partitions that do not go on.", labels=labels)
        overtaken = GaugeMetricFamily(
            "kproxy_migrate_overtaken_seconds",
            "Seconds until the source deletes records that are not copied yet, of the partition where that is soonest.",
            labels=labels,
        )
        paused = GaugeMetricFamily("kproxy_migrate_paused", "1 while somebody has paused it.", labels=["migration"])
        if progress is not None:
            paused.add_metric([progress.name], float(progress.paused))
            held: dict[str, int] = {}
            for topic, _ in progress.stuck:
                held[topic] = held.get(topic, 0) + 1
            for line in progress.topics():
                values = [progress.name, line.topic]
                records.add_metric(values, line.records)
                copied.add_metric(values, line.size)
                lag.add_metric(values, line.lag)
                stuck.add_metric(values, held.get(line.topic, 0))
            soonest: dict[str, float] = {}
            for (topic, _), seconds in progress.deletion_forecast().items():
                soonest[topic] = min(seconds, soonest.get(topic, seconds))
            for topic, seconds in soonest.items():
                overtaken.add_metric([progress.name, topic], max(0.0, seconds))
        yield from (records, copied, lag, stuck, overtaken, paused)


@contextmanager
def serve_metrics(address: str | None, progress: Callable[[], CopyProgress | None]) -> Iterator[None]:
    """Serve `/metrics` at HOST:PORT, if there is one, for as long as the context is open. Raises ConfigError."""
    if address is None:
        yield
        return
    from prometheus_client import start_http_server

    where = Address.parse(address)
    registry = CollectorRegistry()
    registry.register(_ProgressCollector(progress))
    try:
        server, thread = start_http_server(where.port, where.host, registry)
    except OSError as error:
        raise ConfigError(f"--metrics {address}: {error.strerror or error}; allowed: a free port") from None
    try:
        yield
    finally:
        _stop(server, thread)


def _stop(server: object, thread: threading.Thread) -> None:
    server.shutdown()  # type: ignore[attr-defined]  # prometheus_client gives any WSGI server
    server.server_close()  # type: ignore[attr-defined]
    thread.join()
