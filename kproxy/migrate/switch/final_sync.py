"""The end of a migration's copy: what was written last is copied and compared, and the last positions are translated.

The copy follows the source before the hold begins, with all connections open and Spark's session warm. So what remains
for the hold is the last round, its check, and the positions that have changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.state import PartitionState, state_key
from kproxy.migrate.copier.statetopic import CopiedPartition, read_state_topic
from kproxy.migrate.copy.copyrun import CopyRun, CopySpec
from kproxy.migrate.copy.scope import build_copy_spec
from kproxy.migrate.journal.driver import CopyAlreadyRunning
from kproxy.migrate.offsets.duplicates import DuplicateRecords, find_duplicates
from kproxy.migrate.offsets.groupsync import GroupOffsetSync, GroupResult, count_unwritten
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.client_selection import ClientSelection, describe_open_transactions
from kproxy.migrate.switch.transactions import OpenTransaction, end_transactions, open_transactions
from kproxy.migrate.verify.runner import run_verification

TopicPartition = tuple[str, int]
EndOffsets = Mapping[TopicPartition, int]

_RETRY_INTERVAL = 0.1
# How long an end that does not move may be behind the last record: followers that have not got it, transactions that
# have just been ended.
_SETTLE_TIMEOUT = 5.0
# How many things are named.
_NAMED = 3


class FinalSyncError(KproxyError):
    """The tail is not what it must be, in words."""


@dataclass
class SyncTimings:
    """How long each part took when it was done last."""

    drain: float = 0.0
    copy: float = 0.0
    verify: float = 0.0
    translate: float = 0.0

    @property
    def total(self) -> float:
        return self.drain + self.copy + self.verify + self.translate


@dataclass
class FinalSync:
    """Of a migration in this direction. `force`: positions on the target that somebody else wrote are overwritten, as
    clients that were there before have moved away. `compose` adds to what the positions are translated by, if it is not
    only what this migration has copied. `groups`: those whose positions are translated. `alone`: which clients are
    switched, if others go on writing to the source; `others_write`: records of others are in the target's logs, of
    clients that were led there before. `ended`: the transactions that were ended. `ends`: where the source's logs
    ended when they were copied last."""

    spark: Any
    migration: Migration
    endpoints: ClusterEndpoints
    log: Callable[[str], None] = lambda _: None
    force: bool = False
    compose: Callable[[GroupOffsetSync], None] = lambda _: None
    groups: Callable[[str], bool] | None = None
    selection: ClientSelection | None = None
    others_write: bool = False
    timings: SyncTimings = field(default_factory=SyncTimings)
    ended_transactions: list[OpenTransaction] = field(default_factory=list)
    source_ends: EndOffsets = field(default_factory=dict)
    _positions: tuple[Sequence[GroupResult], Mapping[TopicPartition, CopiedPartition]] = ((), {})

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> FinalSync:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._copy.end()
            self._thread.join(60)
        self._stack.close()

    # Before the hold

    def start(self, take_over: bool) -> None:
        """Connect, and let the copy follow. If another driver copies, its place is taken, or what it copies is waited
        for. Raises ConfigError if it cannot begin, UpstreamError and WireError."""
        self._take_over = take_over
        self._source_admin = self._stack.enter_context(Admin(self.endpoints.source))
        self._target_admin = self._stack.enter_context(Admin(self.endpoints.target))
        self._source_cluster, self._target_cluster = (
            ClusterClient(self.endpoints.source),
            ClusterClient(self.endpoints.target),
        )
        self._stack.callback(self._source_cluster.close)
        self._stack.callback(self._target_cluster.close)
        what = build_copy_spec(self.migration, self.endpoints.source, self.endpoints.target, True, None, take_over, {})
        self._scope = what
        layout = self._source_cluster.refresh_metadata(list(what.topics))
        self.partitions = [(topic, led.index) for topic in what.topics for led in layout.topics[topic][1]]
        self._state_topic = read_state_topic(self._target_cluster, self.migration.name, _is_partition_record)
        self._start_copy(what)

    def _start_copy(self, what: CopySpec) -> None:
        self._copy = CopyRun(self.spark, self.endpoints.source, self.endpoints.target, what)

        def run() -> None:
            try:
                self._copy.run()
            except Exception as error:  # noqa: BLE001  # whoever waits for the copy raises it
                self._failure = error

        self._thread = threading.Thread(target=run, name="kproxy migrate switch: copy", daemon=True)
        self._thread.start()

    def stop_copy(self, until: float) -> None:
        """Nothing that comes from here on is copied in this direction. Raises TailError if the copy does not end."""
        self._copy.end()
        assert self._thread is not None
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            raise FinalSyncError("the copy did not end in time")

    def lag(self) -> int:
        """In offsets, of all partitions. Raises UpstreamError and WireError, and what has ended the copy."""
        self._check_copy()
        ends = self._read_stable_ends(time.monotonic() + _SETTLE_TIMEOUT)
        begins = self._read_begins()
        states = self._read_states()
        return sum(
            max(0, end - (states[where].source_next if where in states else begins[where]))
            for where, end in ends.items()
        )

    def catch_up(self, most: int, seconds: float) -> int:
        """Wait until the lag is no more than this. Returns it in any case."""
        until = time.monotonic() + seconds
        while (lag := self.lag()) > most and time.monotonic() < until:
            time.sleep(10 * _RETRY_INTERVAL)
        return lag

    def rehearse(self, seconds: float, *, dry_run: bool) -> list[str]:
        """All that is done while writes are held, but for the transactions: so everything is warm and nearly done, and
        it is known how long it takes. Returns what could not be translated. Raises as `copy` and the others do."""
        until = time.monotonic() + seconds
        self.source_ends = self._read_stable_ends(until)
        self._timed("copy", lambda: self._wait_until_copied(self.source_ends, until))
        self.verify(until)
        problems: list[str] = []
        self._timed("translate", lambda: problems.extend(self._translate_positions(dry_run)))
        return problems

    # While writes are held

    def drain(self, until: float) -> None:
        """End the transactions that are open on the source. Raises TailError, UpstreamError and WireError."""
        self._timed("drain", lambda: self._drain(until))

    def _drain(self, until: float) -> None:
        found = open_transactions(self._source_admin, until)
        if self.selection is not None:
            found = [one for one in found or () if self.selection.includes_transaction(one.id)]
        if not found:
            return
        self.ended_transactions += found
        for one in found:
            self.log(f"ends transaction {one.id} on the source: its application sees that it is aborted")
        failed = end_transactions(self.endpoints.source, [one.id for one in found], until)
        if failed:
            name, why = min(failed.items())
            raise FinalSyncError(f"transaction {name} on the source could not be ended: {why}")

    def copy(self, until: float) -> None:
        """Up to the ends that the source's logs have now, and until no log has another end. Raises TailError,
        UpstreamError and WireError."""
        self._timed("copy", lambda: self._copy_all(until))

    def _copy_all(self, until: float) -> None:
        if self.selection is not None:
            # What these clients have written is below these ends, and open transactions of others may be too.
            self.source_ends = self._read_offsets(requests.LATEST, False, until)
            try:
                self._wait_until_copied(self.source_ends, until)
            except FinalSyncError as error:
                left = open_transactions(self._source_admin, until)
                raise (
                    FinalSyncError(describe_open_transactions([one.id for one in left], self.selection))
                    if left
                    else error
                ) from None
            return
        while True:
            self.source_ends = self._read_final_ends(until)
            self._wait_until_copied(self.source_ends, until)
            if self._read_final_ends(until) == self.source_ends:
                return
            self._check_deadline(until, "the source's logs still grow: somebody writes to it without kproxy")

    def verify(self, until: float) -> None:
        """What has been copied and was not compared before. Raises TailError, UpstreamError and WireError."""
        self._timed("verify", self._verify)

    def _verify(self) -> None:
        report = run_verification(
            self.spark,
            self.endpoints.source,
            self.endpoints.target,
            self.migration.name,
            others_write=self.others_write,
        )
        wrong = [one for one in report.partitions if not one.is_complete]
        if wrong:
            one = wrong[0]
            why = one.note or (str(one.difference) if one.difference is not None else "its records differ")
            raise FinalSyncError(
                f"partition {one.partition} of {one.topic} is not verified up to its end: {why}{_more_text(wrong)};"
                " kproxy migrate verify says more"
            )

    def translate(self, until: float) -> None:
        """The positions of all groups. Raises TailError, UpstreamError and WireError."""
        self._timed("translate", self._translate)

    def _translate(self) -> None:
        problems = self._translate_positions(dry_run=False)
        if problems:
            raise FinalSyncError(f"not all positions could be translated: {problems[0]}{_more_text(problems)}")

    def check_source_idle(self, until: float) -> None:
        """That nothing was written to the source since it was copied, if nobody may. Raises TailError, UpstreamError,
        WireError."""
        if self.selection is not None:
            return
        now = self._read_final_ends(until)
        moved = sorted(where for where in now if now[where] != self.source_ends.get(where))
        if moved:
            (topic, partition), was = moved[0], self.source_ends.get(moved[0], 0)
            raise FinalSyncError(
                f"somebody writes to the source without kproxy: partition {partition} of {topic} ended at {was} when"
                f" all writes were held, and ends at {now[moved[0]]} now{_more_text(moved)}; stop them, or let them go"
                " through kproxy"
            )

    # Parts

    def _timed(self, part: str, work: Callable[[], None]) -> None:
        began = time.monotonic()
        try:
            work()
        finally:
            setattr(self.timings, part, time.monotonic() - began)

    def _translate_positions(self, dry_run: bool) -> list[str]:
        offsets = GroupOffsetSync(self.migration, self._source_admin, self._target_admin, self.force).read_state()
        self.compose(offsets)
        results = offsets.run(self.groups or self.migration.selects_group, dry_run=dry_run)
        self._positions = results, offsets.known
        return list(count_unwritten(results, self.migration))

    def repeated(self) -> list[DuplicateRecords]:
        """What members of groups would read twice, as positions were translated last. Raises UpstreamError and
        WireError."""
        if self.force:  # the way back: applications have written there themselves
            return []
        return list(find_duplicates(self.endpoints.target, *self._positions))

    def _check_copy(self) -> None:
        if isinstance(self._failure, CopyAlreadyRunning) and not self._take_over:
            return  # the other driver copies for both
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        stuck = self._copy.progress.stuck
        if stuck:
            (topic, partition), why = min(stuck.items())
            raise FinalSyncError(
                f"the copy of partition {partition} of {topic} is stuck: {why}{_more_text(list(stuck))}"
            )
        if self._copy.progress.paused:
            raise FinalSyncError("the copy is paused: kproxy migrate resume")

    def _check_deadline(self, until: float, text: str) -> None:
        if time.monotonic() >= until:
            raise FinalSyncError(text)

    def _read_begins(self) -> EndOffsets:
        return self._read_offsets(requests.EARLIEST, True, time.monotonic() + _SETTLE_TIMEOUT)

    def _read_stable_ends(self, until: float) -> EndOffsets:
        """Where readers of committed records end now."""
        return self._read_offsets(requests.LATEST, True, until)

    def _read_final_ends(self, until: float) -> EndOffsets:
        """Where the logs end, when nothing is open in them."""
        patience = min(until, time.monotonic() + _SETTLE_TIMEOUT)
        while True:
            high = self._read_offsets(requests.LATEST, False, patience)
            stable = self._read_offsets(requests.LATEST, True, patience)
            behind = sorted(where for where in high if stable[where] != high[where])
            if not behind:
                return stable
            topic, partition = behind[0]
            self._check_deadline(
                patience,
                f"partition {partition} of {topic} on the source has a transaction that is not"
                f" ended{_more_text(behind)}: kafka-transactions.sh find-hanging names it",
            )
            time.sleep(_RETRY_INTERVAL)

    def _read_offsets(self, which: int, committed: bool, until: float) -> EndOffsets:
        found: dict[TopicPartition, int] = {}
        while True:
            missing = [where for where in self.partitions if where not in found]
            try:
                found |= self._source_cluster.list_offsets(missing, which, committed=committed)
            except UpstreamError:
                self._source_cluster.invalidate()
            if len(found) == len(self.partitions):
                return found
            topic, partition = next(where for where in self.partitions if where not in found)
            self._check_deadline(until, f"the source does not tell where partition {partition} of {topic} ends")
            time.sleep(_RETRY_INTERVAL)

    def _read_states(self) -> dict[TopicPartition, PartitionState]:
        retry(self._target_cluster, self._state_topic.read, _SETTLE_TIMEOUT)
        values = self._state_topic.values
        found = {where: values.get(state_key("partition", *where)) for where in self.partitions}
        return {where: PartitionState.from_json(value) for where, value in found.items() if value is not None}

    def _wait_until_copied(self, ends: EndOffsets, until: float) -> None:
        begins = self._read_begins()
        while True:
            self._check_copy()
            states = self._read_states()
            behind = [
                where
                for where, end in ends.items()
                if end > (states[where].source_next if where in states else begins[where])
            ]
            if not behind:
                return
            topic, partition = behind[0]
            self._check_deadline(
                until, f"partition {partition} of {topic} is not copied to its end in time{_more_text(behind)}"
            )
            time.sleep(_RETRY_INTERVAL)


def list_topics(bootstrap: str) -> set[str]:
    """All that are there. Raises UpstreamError and WireError."""
    cluster = ClusterClient(bootstrap)
    try:
        return set(retry(cluster, cluster.refresh_metadata, _SETTLE_TIMEOUT).topics)
    finally:
        cluster.close()


def _more_text(of: Iterable[object]) -> str:
    count = len(list(of)) - 1
    return f" (and {count} more)" if count > 0 else ""


def _is_partition_record(name: bytes) -> bool:
    return name.startswith(b'["partition",')
