"""What keeps the way back open after a switch, and what leads clients back on it.

Before the hold the source is made ready to be copied to. While writes are held, the copy back gets the place where it
begins, and starts. It runs in the driver's process, until it is ended; `kproxy migrate copy --back --follow` starts it
again anywhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import BrokerError
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.slices import Job
from kproxy.migrate.copier.state import PartitionState, parse_key
from kproxy.migrate.copier.statetopic import CopiedPartition, parse_copied_partitions, read_state_topic
from kproxy.migrate.copy.copyrun import CopyRun, CopySpec
from kproxy.migrate.copy.scope import build_copy_spec
from kproxy.migrate.journal.driver import Records, write_once
from kproxy.migrate.journal.switch_journal import ROLLBACK, read_last_switch
from kproxy.migrate.offsets.groupsync import GroupOffsetSync
from kproxy.migrate.plan.finding import NOTE, STOP, MigrationFinding
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.prepare.preparation import Preparation
from kproxy.migrate.prepare.undo import Undo
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.final_sync import FinalSync, FinalSyncError, list_topics
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
from kproxy.migrate.verify.results import parse_verified_ranges

Say = Callable[[str], None]

_TIMEOUT = 10.0
_RETRY_INTERVAL = 5.0


def read_reverse_migration(migration: Migration, endpoints: ClusterEndpoints) -> Migration:
    """Of all topics of the migration, also those that have no records so far. Raises UpstreamError and WireError."""
    return reverse_migration(
        migration, (topic for topic in list_topics(endpoints.source) if migration.selects_topic(topic))
    )


def _read_state(bootstrap: str, name: str) -> tuple[int, dict[bytes, bytes]]:
    """How many partitions the state topic has, and all that is in it."""
    cluster = ClusterClient(bootstrap)
    try:
        topic = read_state_topic(cluster, name)
        return len(topic.logs), topic.values
    finally:
        cluster.close()


def partition_states(values: Mapping[bytes, bytes]) -> dict[tuple[str, int], PartitionState]:
    """How far each partition was copied."""
    found = {}
    for name, value in values.items():
        match parse_key(name):
            case ["partition", str(topic), int(partition)]:
                found[topic, partition] = PartitionState.from_json(value)
    return found


class ReverseCopy:
    """The way back, for `switch --reversible`."""

    def __init__(self, spark: Any, migration: Migration, endpoints: ClusterEndpoints, say: Say) -> None:
        self._spark, self._migration, self._endpoints, self._log = spark, migration, endpoints, say
        self._ended = threading.Event()
        self._copy: CopyRun | None = None
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None
        self.is_prepared = False

    def prepare(self) -> list[MigrationFinding]:
        """Make the source ready. Raises UpstreamError and WireError."""
        self.reverse = read_reverse_migration(self._migration, self._endpoints)
        self._endpoints_reversed = swap_endpoints(self._endpoints)
        self.is_prepared = True
        with ClusterPair(self.reverse, self._endpoints_reversed) as sides:
            prepared = Preparation(sides, sides.examine(0.0), lambda text: self._log(f"the way back: {text}")).run()
        if prepared.failed:
            return [MigrationFinding(STOP, "the way back", text) for text in prepared.failed]
        self._partitions, self._values = _read_state(self._endpoints_reversed.target, self.reverse.name)
        what = build_copy_spec(
            self.reverse, self._endpoints_reversed.source, self._endpoints_reversed.target, True, None, True, {}
        )
        self._scope = replace(what, grace=0.0)  # writes are held then
        return [MigrationFinding(NOTE, "the way back", "the source is ready to be copied to")]

    def begin_during_hold(self, tail: FinalSync, until: float) -> None:
        """While writes are held, and all is copied. Raises TailError, UpstreamError and WireError."""
        tail.stop_copy(until)
        equal = SyncPoint(read_settled_ends(self._endpoints_reversed.source, tail.source_ends, until), tail.source_ends)
        job = Job(self.reverse.name, self.reverse.state_topic, self._partitions)
        write_once(self._endpoints_reversed.target, job, seed_records(equal, self._values), "seed")
        self.start(self._scope)

    def start(self, what: CopySpec) -> None:
        """Copy back, in a thread, whatever fails meanwhile."""

        def run() -> None:
            while not self._ended.is_set():
                # Whether it may go on when another one copies back, the state topic says, and not this.
                self._copy = CopyRun(
                    self._spark,
                    self._endpoints_reversed.source,
                    self._endpoints_reversed.target,
                    what,
                    allowed=self._check_not_rolled_back,
                )
                try:
                    self._copy.run()
                    return
                except ConfigError as error:  # another one has taken over, or may not go on
                    self.failure = error
                    self._ended.set()
                except KproxyError as error:
                    self._log(f"the way back: {error}; tries again")
                    self._ended.wait(_RETRY_INTERVAL)
                except Exception as error:  # noqa: BLE001  # it is raised where somebody waits
                    self.failure = error
                    self._ended.set()

        self._thread = threading.Thread(target=run, name="kproxy migrate switch: the way back", daemon=True)
        self._thread.start()

    def _check_not_rolled_back(self) -> None:
        """Raises ConfigError when clients have gone back."""
        last = read_last_switch(self._endpoints.target, self._migration.name)
        if last is not None and last.what == ROLLBACK and not last.is_moved:
            raise ConfigError("clients are on the source again: nothing is copied back to it")

    def close(self) -> None:
        """From any thread."""
        self._ended.set()
        if self._copy is not None:
            self._copy.end()

    def wait(self) -> None:
        """Until it is ended. Raises what has ended it, if that was not `close`."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.5)
        if self.failure is not None:
            raise self.failure

    def undo(self) -> None:
        """The switch was undone: what `before` has changed on the source is as it was."""
        self.close()
        with ClusterPair(self.reverse, self._endpoints_reversed) as sides:
            undone = Undo(sides, lambda text: self._log(f"the way back: {text}"), force=False, dry_run=False).run()
        for text in [*undone.remaining, *undone.failed]:
            self._log(f"the way back: stays: {text}")


def read_settled_ends(bootstrap: str, like: Mapping[tuple[str, int], int], until: float) -> dict[tuple[str, int], int]:
    """Where these partitions end. The markers of a transaction are written after its end is acknowledged: what is read
    before would be too early, and would be copied back. Raises TailError, UpstreamError and WireError."""
    cluster = ClusterClient(bootstrap)
    try:
        while True:
            high = cluster.list_offsets(like, requests.LATEST, committed=False)
            stable = cluster.list_offsets(like, requests.LATEST)
            open_ones = [where for where in like if where not in high or high[where] != stable.get(where)]
            if not open_ones:
                return stable
            if time.monotonic() > until:
                topic, partition = open_ones[0]
                raise FinalSyncError(
                    f"partition {partition} of {topic} where clients are to go has a transaction that is not ended, or"
                    " nobody leads it"
                )
            time.sleep(0.05)
            cluster.invalidate()
    finally:
        cluster.close()


class RollbackContinuation:
    """The way back, for `rollback`: `forth` is the first migration, whose roads these are, and `back` the other one."""

    def __init__(self, forth: Migration, back: Migration, endpoints: ClusterEndpoints) -> None:
        self._forward, self._reverse, self._endpoints = forth, back, endpoints

    def compose(self, offsets: GroupOffsetSync) -> None:
        """Positions from before the switch are known by the first migration's map."""
        offsets.known = compose_maps(dict(offsets.known), self._forward_maps())

    def _forward_maps(self) -> dict[tuple[str, int], CopiedPartition]:
        if not hasattr(self, "_known"):  # it does not change: clients write to the target
            self._partitions, values = _read_state(self._endpoints.target, self._forward.name)
            _, back = _read_state(self._endpoints.source, self._reverse.name)
            self._changes = restore_records(values, parse_copied_partitions(back), time.time_ns() // 1_000_000)
            self._values = {name: value for name, value in {**values, **self._changes}.items() if value is not None}
            self._maps = parse_copied_partitions(self._values)
        return self._maps

    def during_hold(self, tail: FinalSync, until: float) -> None:
        """The first migration goes on from here. Raises TailError, UpstreamError and WireError."""
        tail.stop_copy(until)
        self._forward_maps()
        equal = SyncPoint(read_settled_ends(self._endpoints.source, tail.source_ends, until), tail.source_ends)
        _, values = _read_state(self._endpoints.source, self._reverse.name)
        at = time.time_ns() // 1_000_000
        records: dict[bytes, Any] = {
            **self._changes,
            **continuation_records(partition_states(self._values), parse_copied_partitions(values), equal, at),
        }
        kept = merge_verified(parse_verified_ranges(self._values), parse_verified_ranges(values), equal, at)
        records |= {name: one.to_record(at) for name, one in kept.items()}
        told: Records = records
        write_once(
            self._endpoints.target, Job(self._forward.name, self._forward.state_topic, self._partitions), told, "seed"
        )


def check_reverse_copy_allowed(target: str, name: str) -> None:
    """Raises ConfigError unless clients are on the target of this migration, and there is a way back; UpstreamError and
    WireError."""
    last = read_last_switch(target, name)
    if last is None or not last.is_moved:
        raise ConfigError("clients are on the source: nothing is copied back to it")
    if not last.reversible:
        raise ConfigError("the switch was not --reversible: nobody knows from where to copy back")


def topic_exists(bootstrap: str, topic: str) -> bool:
    """Raises UpstreamError and WireError."""
    cluster = ClusterClient(bootstrap)
    try:
        retry(cluster, lambda: cluster.partition_count(topic), _TIMEOUT / 3)
    except BrokerError:
        return False
    finally:
        cluster.close()
    return True
