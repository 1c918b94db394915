"""The progress of a copy: a live table on a terminal, lines elsewhere, and metrics for Prometheus.

The metrics are by topic, never by partition, since there may be ten thousand partitions.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from prometheus_client import start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError
from kproxy.base.format import format_count, format_duration, format_size
from kproxy.base.printable import one_line
from kproxy.migrate.copy.progress import CopyProgress, TopicProgress

if TYPE_CHECKING:
    from rich.console import Group

# How often a line is printed if the output is no terminal, in seconds.
_PRINT_INTERVAL = 15.0
# Maximum number of topics in the table, and of messages below it.
_MAX_ROWS, _MAX_MESSAGES = 20, 6
_MAX_MESSAGE_LENGTH = 400
_WIDTH = 80
_HEADINGS = ("topic", "done", "records", "copied", "lag (offsets)", "per s", "left")


def summary_line(progress: CopyProgress) -> str:
    """Return one line with the progress of all topics."""
    total = progress.total()
    line = (
        f"{progress.name}: {total.done_share:.1%} of {format_count(total.partitions, 'partition')}, {total.records:,}"
        f" records, {format_size(total.size)}, {total.lag:,} offsets left, {format_size(total.rate)}/s"
    )
    if total.seconds_left:
        line += f", {format_duration(total.seconds_left)} left"
    if progress.paused:
        line += ", paused"
    return line


def batches_line(progress: CopyProgress) -> str:
    """Return one line with the number of batches that this run has written, by method."""
    return "batches written: " + ", ".join(f"{count:,} {way}" for way, count in sorted(progress.batch_counts.items()))


def message_lines(progress: CopyProgress) -> Iterator[str]:
    """Yield problems and warnings: partitions that are stuck, with reasons, and records that will be deleted soon."""
    if progress.problem:
        yield f"retrying: {progress.problem}"
    reasons = Counter(progress.stuck.values())
    for reason, count in list(reasons.items())[:_MAX_MESSAGES]:
        yield f"stuck: {reason}" + (f" (and {count - 1} more partitions)" if count > 1 else "")
    if len(reasons) > _MAX_MESSAGES:
        yield f"stuck: {len(reasons) - _MAX_MESSAGES} more reasons; kproxy migrate status shows all of them"
    yield from progress.warnings()[:_MAX_MESSAGES]


def _table(progress: CopyProgress, width: int) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(pad_edge=False, box=None)
    topics = progress.topics()
    # Topics that are not done come first.
    shown = sorted(topics, key=lambda topic: (not topic.stuck, topic.lag == 0, -topic.lag))[:_MAX_ROWS]
    rows = [_cells(topic) for topic in [*shown, *([progress.total()] if len(topics) != 1 else [])]]
    widths = [max(len(heading), *(len(row[column]) for row in rows)) for column, heading in enumerate(_HEADINGS)]
    # Names of topics are cut, numbers are not.
    widths[0] = max(len(_HEADINGS[0]), min(widths[0], width - sum(widths[1:]) - 2 * len(widths)))
    for column, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if column else "left", no_wrap=True, width=widths[column])
    for row in rows:
        table.add_row(*row)
    more_topics = [Text(f"{len(topics) - len(shown)} more topics", "dim")] if len(topics) > len(shown) else []
    messages = [Text(one_line(topic, _MAX_MESSAGE_LENGTH), "yellow") for topic in message_lines(progress)]
    heading_text = "paused; to continue, run kproxy migrate resume" if progress.paused else f"round {progress.round}"
    return Group(Text(f"{progress.name}: {heading_text}", "bold"), table, *more_topics, *messages)


def _cells(topic: TopicProgress) -> tuple[str, ...]:
    return (
        one_line(topic.topic, _WIDTH),
        f"{100 * topic.done_share:.1f}%",
        f"{topic.records:,}",
        format_size(topic.size),
        f"{topic.lag:,}",
        format_size(topic.rate),
        "stuck" if topic.stuck else format_duration(topic.seconds_left),
    )


class ProgressDisplay:
    """Receives the progress from any thread, and shows it at intervals."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._next = 0.0
        self._printed: set[str] = set()
        self.update: object = None
        self.width = _WIDTH

    def __call__(self, progress: CopyProgress) -> None:
        with self._lock:
            if callable(self.update):
                self.update(_table(progress, self.width))
                return
            for line in message_lines(progress):
                if line not in self._printed:
                    self._printed.add(line)
                    print(one_line(line, _MAX_MESSAGE_LENGTH), file=self._file, flush=True)
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + _PRINT_INTERVAL
                print(summary_line(progress), file=self._file, flush=True)


@contextmanager
def display_progress(file: TextIO = sys.stderr) -> Iterator[ProgressDisplay]:
    """Show the progress while the context is open."""
    display = ProgressDisplay(file)
    if not file.isatty():
        yield display
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=file)
    with Live(console=console, refresh_per_second=2, transient=False) as live:
        display.update, display.width = live.update, console.width
        yield display


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
            stuck_counts = Counter(topic for topic, _ in progress.stuck)
            for topic_progress in progress.topics():
                values = [progress.name, topic_progress.topic]
                records.add_metric(values, topic_progress.records)
                copied.add_metric(values, topic_progress.size)
                lag.add_metric(values, topic_progress.lag)
                stuck.add_metric(values, stuck_counts[topic_progress.topic])
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
        server.shutdown()
        server.server_close()
        thread.join()
