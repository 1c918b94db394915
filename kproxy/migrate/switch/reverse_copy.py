"""The copy from the target to the source after a switch, and the rollback that uses it.

Before the hold, the source is made ready to be copied to. While writes are held, the reverse copy gets the place where
it begins, and starts. It runs in the driver's process until it is ended; `kproxy migrate copy --reverse --follow`
starts it again on any host.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from kproxy.base.diagnostic import ERROR, NOTE, Diagnostic
from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.errorcodes import BrokerError
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import CopiedPartition, parse_copied_partitions, parse_states, read_state
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.scope import CopySpec, build_copy_spec
from kproxy.migrate.format import LogWriter
from kproxy.migrate.journal.driver import write_once
from kproxy.migrate.journal.switch_journal import ROLLBACK, read_last_switch
from kproxy.migrate.offsets.groupsync import GroupOffsetSync
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.prepare.preparation import Preparation
from kproxy.migrate.prepare.takenids import record_taken_ids
from kproxy.migrate.prepare.undo import Undo
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.final_sync import FinalSync, list_topics, read_settled_ends
from kproxy.migrate.switch.inverse_offset_map import (
    SyncPoint,
    compose_maps,
    continuation_records,
    merge_verified,
    restore_records,
    reverse_migration,
    seed_records,
    swap_endpoints,
)
from kproxy.migrate.switch.wave_sides import require_moved_wave
from kproxy.migrate.verify.results import parse_verified_ranges

PREPARED_IN_VAIN = (
    "what was prepared on the source stays: {error}. kproxy migrate switch FILE --abort tries to undo it again"
)
_TIMEOUT = 10.0
_RETRY_INTERVAL = 5.0


def read_reverse_migration(migration: Migration, endpoints: ClusterEndpoints) -> Migration:
    """Return the reverse migration, with all topics of the migration, also those without records."""
    return reverse_migration(
        migration, (topic for topic in list_topics(endpoints.source) if migration.selects_topic(topic))
    )


class ReverseCopy:
    """The reverse copy of `switch --reversible`."""

    def __init__(self, spark: Any, migration: Migration, endpoints: ClusterEndpoints, log: LogWriter) -> None:
        self._spark, self._migration, self._endpoints, self._log = spark, migration, endpoints, log
        self._endpoints_reversed = swap_endpoints(endpoints)
        self._ended = threading.Event()
        self._copy: CopyRun | None = None
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None
        self.is_prepared = False

    @cached_property
    def reverse(self) -> Migration:
        """The migration from the target to the source."""
        return read_reverse_migration(self._migration, self._endpoints)

    def prepare(self) -> list[Diagnostic]:
        """Make the source ready."""
        self.is_prepared = True
        with ClusterPair(self.reverse, self._endpoints_reversed) as sides:
            prepared = Preparation(sides, sides.examine(0.0), lambda text: self._log(f"reverse copy: {text}")).run()
        # Also after an error: `undo` deletes the state of the reverse copy, and the ids stay used up.
        record_taken_ids(self._endpoints.target, self._migration.name, prepared.taken_ids)
        if prepared.failed:
            return [Diagnostic(ERROR, "reverse copy", text) for text in prepared.failed]
        self._values = read_state(self._endpoints_reversed.target, self.reverse.name)
        scope = build_copy_spec(self.reverse, self._endpoints_reversed, follow=True, take_over=True)
        self._scope = replace(scope, grace=0.0)  # writes are held then
        return [Diagnostic(NOTE, "reverse copy", "the source is ready to be copied to")]

    def begin_during_hold(self, sync: FinalSync, until: float) -> None:
        """Start the reverse copy while writes are held and everything is copied. Raises FinalSyncError."""
        sync.stop_copy(until)
        equal = _read_sync_point(self._endpoints_reversed.source, sync.source_ends, until)
        write_once(self._endpoints_reversed.target, self.reverse.name, seed_records(equal, self._values), "seed")
        self.start(self._scope)

    def resume(self) -> None:
        """Copy back again after a switch whose driver has ended. Raises KproxyError if it cannot begin."""
        self.start(build_copy_spec(self.reverse, self._endpoints_reversed, follow=True, take_over=True))

    def start(self, scope: CopySpec) -> None:
        """Copy back in a thread, and retry after failures."""

        def run() -> None:
            while not self._ended.is_set():
                # If another driver copies back, the state topic decides whether this one may continue.
                self._copy = CopyRun(
                    self._spark,
                    self._endpoints_reversed.source,
                    self._endpoints_reversed.target,
                    scope,
                    check_allowed=self._check_not_rolled_back,
                )
                try:
                    self._copy.run()
                    return
                except ConfigError as error:  # another driver has taken over, or this one may not continue
                    self.failure = error
                    self._ended.set()
                except KproxyError as error:
                    self._log(f"reverse copy: {error}; retrying")
                    self._ended.wait(_RETRY_INTERVAL)
                except Exception as error:  # noqa: BLE001  # `wait` raises it
                    self.failure = error
                    self._ended.set()

        self._thread = threading.Thread(target=run, name="kproxy migrate switch: reverse copy", daemon=True)
        self._thread.start()

    def _check_not_rolled_back(self) -> None:
        """Raise ConfigError when clients have gone back."""
        last = read_last_switch(self._endpoints.target, self._migration.name)
        wave = self._migration.wave
        if wave and last is not None and wave not in last.waves_on_target and (last.ended or last.wave != wave):
            raise ConfigError(f"wave {wave} is not on the target by itself any more: there is nothing to copy back")
        if not wave and last is not None and last.what == ROLLBACK and not last.is_moved:
            raise ConfigError("clients are on the source again: there is nothing to copy back")

    def close(self) -> None:
        """End the reverse copy, from any thread."""
        self._ended.set()
        if self._copy is not None:
            self._copy.finish_round()

    def wait(self) -> None:
        """Wait until it has ended. Raises the error that has ended it, if it was not `close`."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.5)
        if self.failure is not None:
            raise self.failure

    def undo(self) -> None:
        """Undo what `prepare` has changed on the source, after the switch was undone, as far as that is possible now.

        It may be another driver that has prepared it. What stays is used by the next switch. An error must not take the
        place of what came of this one.
        """
        self.close()
        try:
            with ClusterPair(self.reverse, self._endpoints_reversed) as sides:
                undone = Undo(sides, lambda text: self._log(f"reverse copy: {text}"), force=False, dry_run=False).run()
        except KproxyError as error:
            self._log(f"reverse copy: {PREPARED_IN_VAIN.format(error=error)}")
            return
        for text in [*undone.remaining, *undone.failed]:
            self._log(f"reverse copy: stays: {text}")


def _read_sync_point(bootstrap: str, source_ends: Mapping[TopicPartition, int], until: float) -> SyncPoint:
    """Return the place where both sides are equal. Raises FinalSyncError."""
    with ClusterClient(bootstrap) as cluster:
        ends = read_settled_ends(cluster, source_ends, until, "on the side to which clients are moved")
    return SyncPoint(ends, source_ends)


class RollbackContinuation:
    """The continuation of the first migration (`forward`) after a rollback with the reverse copy.

    The endpoints are those of the first migration.
    """

    def __init__(self, forward: Migration, reverse: Migration, endpoints: ClusterEndpoints) -> None:
        self._forward, self._reverse, self._endpoints = forward, reverse, endpoints

    def compose(self, offsets: GroupOffsetSync) -> None:
        """Add the first migration's map, which has positions from before the switch."""
        offsets.copied = compose_maps(dict(offsets.copied), self._forward_maps())

    def _forward_maps(self) -> dict[TopicPartition, CopiedPartition]:
        if not hasattr(self, "_maps"):  # it does not change: clients write to the target
            values = read_state(self._endpoints.target, self._forward.name)
            reverse_values = read_state(self._endpoints.source, self._reverse.name)
            self._changes = restore_records(
                values, parse_copied_partitions(reverse_values), time.time_ns() // 1_000_000
            )
            self._values = {name: value for name, value in {**values, **self._changes}.items() if value is not None}
            self._maps = parse_copied_partitions(self._values)
        return self._maps

    def during_hold(self, sync: FinalSync, until: float) -> None:
        """Write the state with which the first migration continues. Raises FinalSyncError."""
        sync.stop_copy(until)
        self._forward_maps()
        equal = _read_sync_point(self._endpoints.source, sync.source_ends, until)
        values = read_state(self._endpoints.source, self._reverse.name)
        timestamp = time.time_ns() // 1_000_000
        records: dict[bytes, dict[str, Any] | bytes | None] = {
            **self._changes,
            **continuation_records(parse_states(self._values), parse_copied_partitions(values), equal, timestamp),
        }
        verified = merge_verified(parse_verified_ranges(self._values), parse_verified_ranges(values), equal, timestamp)
        records |= {name: partition.to_record(timestamp) for name, partition in verified.items()}
        write_once(self._endpoints.target, self._forward.name, records, "seed")


def check_reverse_copy_allowed(target: str, migration: Migration) -> None:
    """Raise ConfigError unless these clients are on the target after a reversible switch."""
    last = read_last_switch(target, migration.name)
    if migration.wave:
        is_reversible = require_moved_wave(last, migration.wave).reversible
    elif last is None or not last.is_moved:
        waves = "" if last is None else ", ".join(last.waves_on_target)
        hint = f"; of waves on the target, with --wave: {waves}" if waves else ""
        raise ConfigError(f"clients are on the source: there is nothing to copy back{hint}")
    else:
        is_reversible = last.reversible
    if not is_reversible:
        raise ConfigError("the switch was not --reversible: the place from which to copy back was not recorded")


def topic_exists(bootstrap: str, topic: str) -> bool:
    """Return True if the topic exists."""
    cluster = ClusterClient(bootstrap)
    try:
        retry(cluster, lambda: cluster.partition_count(topic), _TIMEOUT / 3)
    except BrokerError:
        return False
    finally:
        cluster.close()
    return True
