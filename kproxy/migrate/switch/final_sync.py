"""The final sync of a migration: copies and compares the last records, and translates the last positions.

The copy follows the source before the hold begins, with all connections open and a warm Spark session. So only the last
round, its verification, and the positions that have changed remain for the hold. The driver copies and compares so few
records itself (`DriverRounds`, `DriverHashing`): a Spark job would take longer than all else. Spark does what is more
than their bounds, and what the driver could not read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.base.diagnostic import Diagnostic
from kproxy.base.errors import KproxyError
from kproxy.base.messages.migrations import (
    COPY_NOT_IN_TIME,
    COPY_PAUSED,
    COPY_STUCK,
    PARTITION_NOT_VERIFIED,
    POSITIONS_NOT_TRANSLATED,
    SOURCE_STILL_GROWS,
    TRANSACTION_NOT_ENDED,
    WRITE_WITHOUT_KPROXY,
)
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.copier.statetopic import CopiedPartition
from kproxy.migrate.copy.copyrun import CopyRun
from kproxy.migrate.copy.scope import build_copy_spec
from kproxy.migrate.copy.statereader import StateReader
from kproxy.migrate.journal.driver import CopyAlreadyRunning
from kproxy.migrate.offsets.duplicates import DuplicateRecords, find_duplicates
from kproxy.migrate.offsets.groupsync import GroupOffsetSync, GroupResult, unwritten_positions
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.client_selection import ClientSelection, describe_open_transactions
from kproxy.migrate.switch.sync_timings import SyncTimings, timed_step
from kproxy.migrate.switch.transactions import OpenTransaction, end_transactions, open_transactions
from kproxy.migrate.verify.driverhashing import DriverHashing
from kproxy.migrate.verify.runner import run_verification

EndOffsets = Mapping[TopicPartition, int]

_RETRY_INTERVAL = 0.1
# How often is checked whether the last records are copied.
_COPY_INTERVAL = 0.02
# How long an end that does not move may be behind the last record: followers that have not got it, transactions that
# have just been ended.
_SETTLE_TIMEOUT, _SETTLE_INTERVAL = 5.0, 0.05
# How many things are named.
_NAMED = 3


class FinalSyncError(KproxyError):
    """A final sync that cannot succeed. The message is the reason."""


@dataclass
class FinalSync:
    """The final sync of a migration, in its direction."""

    spark: Any
    migration: Migration
    endpoints: ClusterEndpoints
    log: Callable[[str], None] = lambda _: None
    force: bool = False
    """True if positions on the target that kproxy did not write are overwritten: clients were there before."""
    compose: Callable[[GroupOffsetSync], None] = lambda _: None
    """Extends the offset maps, if positions are translated by more than what this migration has copied."""
    groups: Callable[[str], bool] | None = None
    """Selects the groups whose positions are translated; None for those of the file."""
    selection: ClientSelection | None = None
    """The clients that are switched, if they are not all; those of a wave have the topics of `migration` alone."""
    others_write: bool = False
    """True if the target's logs have records of clients that were moved there before."""
    timings: SyncTimings = field(default_factory=SyncTimings)
    ended_transactions: list[OpenTransaction] = field(default_factory=list)
    """The transactions that this has ended."""
    source_ends: EndOffsets = field(default_factory=dict)
    """The ends of the source's logs when they were copied last."""
    _positions: tuple[Sequence[GroupResult], Mapping[TopicPartition, CopiedPartition]] = ((), {})

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None
        self._copy: CopyRun | None = None
        self._driver_hashing: DriverHashing | None = None
        self._driver_may_compare = False
        self.partitions: list[TopicPartition] = []

    def __enter__(self) -> FinalSync:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None and self._copy is not None:
            self._copy.finish_round()
            self._thread.join(60)
        self._stack.close()

    # Before the hold

    def start(self, take_over: bool) -> None:
        """Connect, and start a copy that follows the source.

        If another driver copies, this takes its place (`take_over`), or waits for what it copies. If each topic has
        moved with a wave before, nothing is copied. Raises ConfigError if it cannot begin.
        """
        self._take_over = take_over
        self._source_admin = self._stack.enter_context(Admin(self.endpoints.source))
        self._target_admin = self._stack.enter_context(Admin(self.endpoints.target))
        self._source_cluster = self._stack.enter_context(ClusterClient(self.endpoints.source))
        self._state_reader = StateReader(self.endpoints.target, self.migration.name, complete=True)
        self._stack.callback(self._state_reader.close)
        self._state_reader.read()
        self._driver_hashing = DriverHashing(self.endpoints.source, self.endpoints.target, self.log)
        self._stack.callback(self._driver_hashing.close)
        if not self.migration.wave and not any(map(self.migration.selects_topic, list_topics(self.endpoints.source))):
            return
        scope = build_copy_spec(self.migration, self.endpoints, follow=True, take_over=take_over)
        scope = replace(scope, small_rounds_in_driver=True)
        layout = self._source_cluster.refresh_metadata(list(scope.topics))
        self.partitions = [(topic, partition.index) for topic in scope.topics for partition in layout.topics[topic][1]]
        copy = self._copy = CopyRun(self.spark, self.endpoints.source, self.endpoints.target, scope)

        def run() -> None:
            try:
                copy.run()
            except Exception as error:  # noqa: BLE001  # `_check_copy` raises it
                self._failure = error

        self._thread = threading.Thread(target=run, name="kproxy migrate switch: copy", daemon=True)
        self._thread.start()

    def stop_copy(self, until: float) -> None:
        """End the copy. Raises FinalSyncError if it does not end in time."""
        if self._copy is None or self._thread is None:
            return
        self._copy.finish_round()
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            raise FinalSyncError(COPY_NOT_IN_TIME())

    def lag(self) -> int:
        """Return the lag of all partitions in offsets.

        Raises UpstreamError and WireError, and the error that has ended the copy.
        """
        self._check_copy()
        ends = self._read_stable_ends(time.monotonic() + _SETTLE_TIMEOUT)
        begins = self._read_begins()
        states = self._read_states()
        return sum(
            max(0, end - (states[partition].source_next if partition in states else begins[partition]))
            for partition, end in ends.items()
        )

    def catch_up(self, max_lag: int, seconds: float) -> int:
        """Wait until the lag is at most `max_lag`, or the time is over, and return the lag."""
        until = time.monotonic() + seconds
        while (lag := self.lag()) > max_lag and time.monotonic() < until:
            time.sleep(10 * _RETRY_INTERVAL)
        return lag

    def rehearse(self, seconds: float, *, dry_run: bool) -> list[Diagnostic]:
        """Do all tasks of the hold, except ending transactions, and return what could not be translated.

        Afterwards everything is warm and nearly done, and the durations are known. Raises as `copy` and the
        others do.
        """
        until = time.monotonic() + seconds
        self.source_ends = self._read_stable_ends(until)
        self.set_urgent(True)
        with self.timings.measure("copy"):
            self._wait_until_copied(self.source_ends, until)
        self.set_urgent(False)
        self.verify(until)
        # Spark was the first to compare: most records, so it is warm if it must take over in the hold.
        self._driver_may_compare = True
        with self.timings.measure("translate"):
            return self._translate_positions(dry_run)

    # While writes are held

    def set_urgent(self, urgent: bool) -> None:
        """Copy new records at once, as in the hold; or no longer, because all that is waited for is copied."""
        if self._copy is not None:
            self._copy.set_urgent(urgent)

    def _rest(self) -> None:
        """Copy no more in this hold. Records that other clients write to the source meanwhile are copied later."""
        if self._copy is not None:
            self._copy.rest()

    @timed_step
    def drain(self, until: float) -> None:
        """End the open transactions on the source. Raises FinalSyncError."""
        transactions = open_transactions(self._source_admin, until)
        if (selection := self.selection) is not None:
            transactions = [
                transaction
                for transaction in transactions or ()
                if selection.includes_transaction(transaction.id)
                or (selection.wave and any(map(self.migration.selects_topic, transaction.topics)))
            ]
        if not transactions:
            return
        self.ended_transactions += transactions
        for transaction in transactions:
            self.log(f"aborting transaction {transaction.id} on the source: its application observes the abort")
        failed = end_transactions(self.endpoints.source, [transaction.id for transaction in transactions], until)
        if failed:
            name, why = min(failed.items())
            raise FinalSyncError(TRANSACTION_NOT_ENDED(name=name, why=why))

    @timed_step
    def copy(self, until: float) -> None:
        """Copy up to the current ends of the source's logs, until no log has grown. Raises FinalSyncError."""
        if self.selection is not None and not self.selection.wave:
            # What these clients have written is below these ends, and open transactions of others may be too.
            self.source_ends = self._read_offsets(requests.LATEST, False, until)
            try:
                self._wait_until_copied(self.source_ends, until)
                self._rest()
            except FinalSyncError as error:
                ids = [transaction.id for transaction in open_transactions(self._source_admin, until) or ()]
                if not ids:
                    raise
                raise FinalSyncError(describe_open_transactions(ids, self.selection)) from error
            return
        while True:
            self.source_ends = self._read_final_ends(until)
            self._wait_until_copied(self.source_ends, until)
            if self._read_final_ends(until) == self.source_ends:
                self._rest()
                return
            self._check_deadline(until, SOURCE_STILL_GROWS())

    @timed_step
    def verify(self, _: float) -> None:
        """Verify what was copied and not verified before, in the driver if it is little. Raises FinalSyncError."""
        if not self.partitions:
            return
        source, target = self.endpoints.source, self.endpoints.target
        report = run_verification(
            self.spark,
            source,
            target,
            self.migration.name,
            others_write=self.others_write,
            selects_topic=self.migration.selects_topic,
            driver_hashing=self._driver_hashing if self._driver_may_compare else None,
            state_reader=self._state_reader,
        )
        unverified = [partition for partition in report.partitions if not partition.is_complete]
        if unverified:
            partition = unverified[0]
            why = partition.note or str(partition.difference or "its records differ")
            raise FinalSyncError(
                PARTITION_NOT_VERIFIED(
                    partition=partition.partition, topic=partition.topic, why=why, more=_more_text(unverified)
                )
            )

    @timed_step
    def translate(self, _: float) -> None:
        """Translate and write the positions of all groups. Raises FinalSyncError."""
        if problems := self._translate_positions(dry_run=False):
            raise FinalSyncError(POSITIONS_NOT_TRANSLATED(problem=problems[0].text, more=_more_text(problems)))

    def check_source_idle(self, until: float) -> None:
        """Check that no record was written to the source since it was copied, if no client may write.

        Raises FinalSyncError.
        """
        if self.selection is not None and not self.selection.wave:
            return
        ends = self._read_final_ends(until)
        grown = sorted(
            partition_id for partition_id in ends if ends[partition_id] != self.source_ends.get(partition_id)
        )
        if grown:
            (topic, partition), former_end = grown[0], self.source_ends.get(grown[0], 0)
            raise FinalSyncError(
                WRITE_WITHOUT_KPROXY(
                    partition=partition,
                    topic=topic,
                    former_end=former_end,
                    end=ends[grown[0]],
                    more=_more_text(grown),
                )
            )

    # Parts

    def _translate_positions(self, dry_run: bool) -> list[Diagnostic]:
        state = self._state_reader.read(_SETTLE_TIMEOUT)
        offsets = GroupOffsetSync(self.migration, self._source_admin, self._target_admin, self.force)
        offsets.use_state(state.values, state.states)
        self.compose(offsets)
        results = offsets.run(self.groups or self.migration.selects_group, dry_run=dry_run)
        self._positions = results, offsets.copied
        return unwritten_positions(results, self.migration)

    def repeated(self) -> list[DuplicateRecords]:
        """Return what members of groups would read twice, by the last translation."""
        if self.force:  # a rollback: applications have written there themselves
            return []
        return list(find_duplicates(self.endpoints.target, *self._positions))

    def _check_copy(self) -> None:
        if isinstance(self._failure, CopyAlreadyRunning) and not self._take_over:
            return  # the other driver copies for both
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._copy is None:
            return
        stuck = self._copy.progress.stuck
        if stuck:
            (topic, partition), why = min(stuck.items())
            raise FinalSyncError(COPY_STUCK(partition=partition, topic=topic, why=why, more=_more_text(list(stuck))))
        if self._copy.progress.paused:
            raise FinalSyncError(COPY_PAUSED())

    def _check_deadline(self, until: float, text: str) -> None:
        if time.monotonic() >= until:
            raise FinalSyncError(text)

    def _read_begins(self) -> EndOffsets:
        return self._read_offsets(requests.EARLIEST, True, time.monotonic() + _SETTLE_TIMEOUT)

    def _read_stable_ends(self, until: float) -> EndOffsets:
        """Return where readers of committed records stop now."""
        return self._read_offsets(requests.LATEST, True, until)

    def _read_final_ends(self, until: float) -> EndOffsets:
        """Return the ends of the logs, when no transaction is open in them."""
        patience = min(until, time.monotonic() + _SETTLE_TIMEOUT)
        return read_settled_ends(self._source_cluster, self.partitions, patience, "on the source")

    def _read_offsets(self, which: int, committed: bool, until: float) -> EndOffsets:
        return read_offsets(self._source_cluster, self.partitions, which, until, committed=committed)

    def _read_states(self) -> Mapping[TopicPartition, PartitionState]:
        return self._state_reader.read(_SETTLE_TIMEOUT).states

    def _wait_until_copied(self, ends: EndOffsets, until: float) -> None:
        begins = self._read_begins()
        while True:
            self._check_copy()
            states = self._read_states()
            behind = [
                partition_id
                for partition_id, end in ends.items()
                if end > (states[partition_id].source_next if partition_id in states else begins[partition_id])
            ]
            if not behind:
                return
            topic, partition = behind[0]
            self._check_deadline(
                until, f"partition {partition} of {topic} was not copied to its end in time{_more_text(behind)}"
            )
            time.sleep(_COPY_INTERVAL)


def read_offsets(
    cluster: ClusterClient, partitions: Collection[TopicPartition], which: int, until: float, *, committed: bool = True
) -> dict[TopicPartition, int]:
    """Return what `list_offsets` does, of all partitions. Raises FinalSyncError if one is missing at `until`."""
    offsets = cluster.list_offsets_until(partitions, which, until, committed=committed)
    for topic, partition in partitions:
        if (topic, partition) not in offsets:
            raise FinalSyncError(f"no broker at {cluster.bootstrap} returned offsets for {topic}-{partition}")
    return offsets


def read_settled_ends(
    cluster: ClusterClient, partitions: Collection[TopicPartition], until: float, side: str
) -> dict[TopicPartition, int]:
    """Return the ends of logs, when no transaction is open in them.

    The markers of a transaction are written after its end is acknowledged: an end that was read before is too early,
    and the marker would be copied back. `side` is where the logs are, for the text of FinalSyncError.
    """
    while True:
        high = read_offsets(cluster, partitions, requests.LATEST, until, committed=False)
        stable = read_offsets(cluster, partitions, requests.LATEST, until)
        if not (unsettled := sorted(place for place, end in high.items() if stable[place] != end)):
            return stable
        if time.monotonic() >= until:
            topic, partition = unsettled[0]
            raise FinalSyncError(
                f"partition {partition} of {topic} {side} has an open transaction{_more_text(unsettled)}:"
                " kafka-transactions.sh find-hanging names it if no coordinator knows it"
            )
        time.sleep(_SETTLE_INTERVAL)


def list_topics(bootstrap: str) -> set[str]:
    """Return the names of all topics."""
    with ClusterClient(bootstrap) as cluster:
        return set(retry(cluster, cluster.refresh_metadata, _SETTLE_TIMEOUT).topics)


def _more_text(items: Iterable[object]) -> str:
    count = len(list(items)) - 1
    return f" (and {count} more)" if count > 0 else ""
