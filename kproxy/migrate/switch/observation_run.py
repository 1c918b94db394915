"""An observation from its beginning to its end: at all kproxies of the file, and at the source."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.base.format import format_duration
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import open_endpoints
from kproxy.migrate.format import LogWriter
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.fleet import open_fleet
from kproxy.migrate.switch.opening import require_switch_section
from kproxy.migrate.usage.collector import Collector
from kproxy.migrate.usage.observed import ObservedUsage, merge_records, write_usage
from kproxy.migrate.usage.sourcestate import SourceState, compare, read_source

# For one reply of a kproxy, and between two rounds of them, in seconds.
_REPLY, _LONGEST_PAUSE = 20.0, 15.0
# Before the ends of logs are read first: what was in flight at a kproxy when it began to observe is in the log by then.
_SETTLE = 2.0
Pause = Callable[[float], None]
"""Waits for some seconds. Raises KeyboardInterrupt to end the observation now."""


def run_observation(
    migration: Migration, seconds: float, path: Path, log: LogWriter, pause: Pause = time.sleep
) -> ObservedUsage:
    """Observe for so many seconds, or until Ctrl-C, and return what clients used; write it to the file again and again.

    Raises ConfigError if the file has no kproxies, none of them can be observed, or the result cannot be written;
    UpstreamError if the source does not reply at the beginning.
    """
    section = require_switch_section(migration)
    observer = f"{migration.name} {platform.node()[:40]} {uuid4().hex[:12]}"
    with (
        open_fleet(section, _REPLY) as fleet,
        open_endpoints(migration) as endpoints,
        Collector([(kproxy.name, kproxy.client) for kproxy in fleet.kproxies], section.cluster, observer) as collector,
    ):
        run = _ObservationRun(migration, section.target_upstream, path, log, pause, collector, endpoints.source)
        return run.run(seconds)


class _ObservationRun:
    def __init__(
        self,
        migration: Migration,
        target: str,
        path: Path,
        log: LogWriter,
        pause: Pause,
        collector: Collector,
        source: str,
    ) -> None:
        self._migration, self._target, self._path = migration, target, path
        self._log, self._pause = log, pause
        self._collector, self._source = collector, source
        self._problems: dict[str, str] = {}

    def run(self, seconds: float) -> ObservedUsage:
        self._collector.poll(seconds)
        self._log_problems()
        if not self._collector.reached:
            raise ConfigError(f"no kproxy can be observed: {next(iter(self._collector.problems.values()), 'none')}")
        began = time.time()
        before: SourceState | None = None
        try:
            self._pause(_SETTLE)
            before = self._read_source()
            count = self._collector.reached
            self._log(
                f"observing at {count} {'kproxy' if count == 1 else 'kproxies'} for {format_duration(seconds)};"
                " Ctrl-C ends it, and keeps what there is"
            )
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                self._pause(min(_LONGEST_PAUSE, left))
                self._collector.poll(max(0.0, until - time.monotonic()))
                self._log_problems()
                write_usage(self._usage(began, before), self._path)
        except KeyboardInterrupt:
            self._log("ending the observation")
        after, why = self._read_source_again()
        self._collector.finish()  # after the source: what its logs have has passed by then
        self._log_problems()
        usage = self._usage(began, after or before)
        if before is not None and after is not None:
            passed = {place: partition.offsets for place, partition in usage.written().items()}
            usage = replace(usage, source=compare(before, after, passed, self._source))
        if why:
            self._log(f"the source could not be read at the end: {why}")
        write_usage(usage, self._path)
        return usage

    def _read_source(self) -> SourceState:
        with Admin(self._source) as admin:  # a connection of an hour ago may be closed
            return read_source(admin, self._migration)

    def _read_source_again(self) -> tuple[SourceState | None, str]:
        try:
            return self._read_source(), ""
        except KproxyError as error:
            return None, str(error)

    def _usage(self, began: float, state: SourceState | None) -> ObservedUsage:
        merged = merge_records(self._collector.records(), self._target, {} if state is None else state.ids)
        return replace(merged, began=began, ended=time.time(), kproxies=self._collector.coverage())

    def _log_problems(self) -> None:
        """Log each problem of a kproxy once, and when it has gone."""
        problems = self._collector.problems
        for name, problem in problems.items():
            if self._problems.get(name) != problem:
                self._log(f"{name}: {problem}")
        for name in self._problems.keys() - problems.keys():
            self._log(f"{name}: is observed again")
        self._problems = problems
