"""One run of the copy: round after round of Spark jobs, until all records are copied or the run is ended.

The state topic is the only place that has the progress of the copy. The driver reads it at its start and before each
round, and for the display also during a round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from queue import SimpleQueue
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError, UpstreamError
from kproxy.base.format import abbreviate
from kproxy.migrate.clusters.topic_identities import TopicWatcher, identity_in
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient, is_retriable
from kproxy.migrate.copier.errorcodes import ProducerFenced
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import DEFAULT_MAX_BATCH, Job, PartitionState, Slice, SliceResult
from kproxy.migrate.copier.statetopic import find_job
from kproxy.migrate.copy.driverround import DriverRounds
from kproxy.migrate.copy.progress import CopyProgress
from kproxy.migrate.copy.retention import RetentionWatch
from kproxy.migrate.copy.rounds import PartitionBacklog, make_copy_task, pack_tasks, slice_size, task_rate
from kproxy.migrate.copy.scope import CopySpec, application_has_committed
from kproxy.migrate.copy.sparksession import python_problem
from kproxy.migrate.copy.statereader import StateReader, StateSnapshot
from kproxy.migrate.journal.driver import BEAT_INTERVAL, LEAVE_KEY, ORDER_KEY, CopyDriver, DriverOrder
from kproxy.migrate.journal.switch_journal import read_last_switch
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.spark.tasks import first_line

# Estimated bytes per offset of a partition whose records are not known yet.
_DEFAULT_BYTES_PER_OFFSET = 1000.0
# Pause of the driver when there is nothing to copy, or the copy is paused, in seconds.
_IDLE_PAUSE = 1.0
# Pause when there is nothing to copy while writes are held, in seconds.
_SHORT_PAUSE = 0.02
# Pause after a round without progress, in seconds.
_STUCK_PAUSE = 3.0
# How often the driver cancels the job of a round, in seconds: Spark ignores a cancellation that comes before the job.
_CANCEL_INTERVAL = 1.0
# Partitions that retention will overtake, in the driver's record.
_MAX_DELETIONS = 20
# How long a cluster may be unreachable at the start, in seconds.
_START_TIMEOUT = 60.0


class CopyRun:
    """One run of the driver.

    `on_progress` is called from any thread when the progress changes. `check_allowed` raises ConfigError if records
    must not be copied in this direction now; by default the state topic decides that.
    """

    def __init__(
        self,
        spark: Any,
        source: str,
        target: str,
        spec: CopySpec,
        on_progress: Callable[[CopyProgress], None] = lambda _: None,
        check_allowed: Callable[[], None] | None = None,
    ) -> None:
        self._context = spark.sparkContext
        self._source_address, self._target_address = source, target
        self._source, self._target = ClusterClient(source), ClusterClient(target)
        self._spec, self._on_progress = spec, on_progress
        self._topic_watcher = TopicWatcher(self._target, spec.topics)
        self._state_reader = StateReader(target, spec.name)
        self._retention = RetentionWatch(spec.retention_ms)
        self._check_allowed = check_allowed or self._check_not_switched
        self._driver_rounds = DriverRounds(source, target) if spec.small_rounds_in_driver else None
        self._group = f"kproxy migrate {spec.name}"
        self.progress = CopyProgress(spec.name, spec.repartition)
        self._no_more_rounds = threading.Event()  # start no further round
        self._pause_ended = threading.Event()
        self._idle_pause: float | None = _IDLE_PAUSE
        self._finished = threading.Event()  # the last round is over
        # True: cancel the round. False: the last round is over. A SimpleQueue, because a signal handler may put into it
        # at any moment; an Event has a lock that the interrupted thread may hold.
        self._cancel: SimpleQueue[bool] = SimpleQueue()
        self._fenced = False  # another driver has taken over
        self._asked_to_leave = False  # another driver has asked this one to leave
        self._round_cancelled = False  # by `cancel`
        self.is_copying = False  # True while `run` executes its rounds
        self._defect: Exception | None = None  # an unexpected error of the watching thread
        self._blocked: set[TopicPartition] = set()  # partitions that only the operator can unblock
        self._goals: dict[TopicPartition, int] = {}  # the end of each partition in the first round

    def run(self) -> CopyProgress:
        """Copy all records that exist, or with `follow` until `finish_round` is called, and return the progress.

        The progress has the partitions that are stuck. Raises ConfigError (the migration is not prepared; another
        driver copies; Spark's Python lacks kproxy), UpstreamError and WireError (a cluster cannot be reached at the
        start; another driver took over).
        """
        try:
            driver = CopyDriver(self._target, self._job())
            if self._spec.take_over and self._spec.grace:
                driver.request_handover(self._target_address, self._spec.grace)
            driver.acquire(take_over=self._spec.take_over)
            self._check_allowed()  # after fencing other drivers; a switch fences this driver first
            watch = threading.Thread(target=self._watch, args=[driver], name="kproxy migrate", daemon=True)
            watch.start()
            canceller = threading.Thread(target=self._cancel_when_asked, name="kproxy migrate cancel", daemon=True)
            canceller.start()
            self.is_copying = True
            try:
                self._rounds()
            finally:
                self.is_copying = False
                self._finished.set()
                self._cancel.put(False)
                watch.join()
            if self._defect is not None:
                raise self._defect
            if self._fenced or self._asked_to_leave:
                raise ConfigError(
                    f"another kproxy copies {self._spec.name} now and has taken the place of this one; no record is"
                    " lost"
                )
            return self.progress
        finally:
            self._source.close()
            self._target.close()
            self._state_reader.close()
            if self._driver_rounds is not None:
                self._driver_rounds.close()

    def set_urgent(self, urgent: bool) -> None:
        """Look for new records all the time, as while writes are held, or every second. Call it from another thread."""
        self._idle_pause = _SHORT_PAUSE if urgent else _IDLE_PAUSE
        self._pause_ended.set()

    def rest(self) -> None:
        """Look for new records no more, until `set_urgent` or the end of the run. Call it from another thread.

        With many partitions, each look takes CPU time that other threads of this process need.
        """
        self._idle_pause = None

    def finish_round(self) -> None:
        """Stop after the current round. Call it from another thread."""
        self._no_more_rounds.set()
        self._pause_ended.set()

    def cancel(self) -> None:
        """Stop now, and cancel the tasks of the current round; `run` returns within a few seconds.

        Call it from another thread or from a signal handler.
        """
        self._cancel.put(True)

    def _job(self) -> Job:
        return find_job(self._target, self._spec.name, _START_TIMEOUT)

    def _check_not_switched(self) -> None:
        """Raise ConfigError if clients were switched to the target.

        The source then receives records that are copied back from the target.
        """
        last = read_last_switch(self._target_address, self._spec.name)
        if last is not None and last.is_moved:
            raise ConfigError(
                f"clients of {self._spec.name} are on {last.target_upstream} now:"
                " the source is not copied any more; allowed: kproxy migrate copy --reverse, rollback or finish"
            )
        moved = () if last is None else last.moved_topics
        if topics := [topic for topic in self._spec.topics if any(fnmatchcase(topic, glob) for glob in moved)]:
            raise ConfigError(
                f"{abbreviate(topics)}: topics of a wave, to which clients write on the target now, or will: run the"
                " same command again, which leaves them out"
            )

    # Rounds

    def _rounds(self) -> None:
        number, stall_deadline = 0, time.monotonic() + self._spec.stall_timeout
        while not self._no_more_rounds.is_set():
            if self.progress.paused:
                self._no_more_rounds.wait(_IDLE_PAUSE)
                continue
            try:
                snapshot = self._state_reader.read()
                slices = self._plan_round(snapshot)
            except KproxyError as error:
                if not is_retriable(error) or (not self._spec.follow and time.monotonic() > stall_deadline):
                    raise
                self._report_problem(str(error))
                continue
            if not slices:
                if not self._spec.follow:
                    return
                self._wait_for_records()
                continue
            number += 1
            results = self._round(number, len(snapshot.resume_offsets), slices)
            if not any(result.records or result.size for result in results):
                all_final = results and all(result.is_final for result in results)
                if not self._spec.follow and (all_final or time.monotonic() > stall_deadline):
                    return
                if results and not any(result.stuck for result in results):
                    # All was copied before: the marker of a transaction that had ended was not in the snapshot yet.
                    self._wait_for_records()
                else:
                    self._no_more_rounds.wait(_STUCK_PAUSE)
            else:
                stall_deadline = time.monotonic() + self._spec.stall_timeout
                if self._driver_for(slices) is not None:
                    self._wait_for_records()  # so few records can wait for more, unless it is urgent

    def _driver_for(self, slices: list[tuple[int, Slice]]) -> DriverRounds | None:
        """Return the threads of the driver that copy this round; None if Spark does."""
        return self._driver_rounds if self._driver_rounds is not None and self._driver_rounds.can_copy(slices) else None

    def _wait_for_records(self) -> None:
        self._pause_ended.wait(self._idle_pause)
        self._pause_ended.clear()

    def _report_problem(self, text: str) -> None:
        self.progress.problem = text
        self._on_progress(self.progress)
        self._source.invalidate()
        self._target.invalidate()
        self._no_more_rounds.wait(_STUCK_PAUSE)

    def _plan_round(self, snapshot: StateSnapshot) -> list[tuple[int, Slice]]:
        """Return the slices of the next round, with their sizes."""
        spec, progress = self._spec, self.progress
        source_metadata = self._source.refresh_metadata(list(spec.topics))
        partitions = []
        for topic in spec.topics:
            error, partition_metadata = source_metadata.topics.get(topic, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ()))
            if error:
                progress.mark_without_offsets(topic, -1, f"the source does not have topic {topic} now")
            else:
                progress.forget_missing_topic(topic)
            partitions += [(topic, metadata.index) for metadata in partition_metadata]
        target_metadata = self._target.refresh_metadata(sorted(set(spec.topics.values())))
        begins = self._source.list_offsets(partitions, requests.EARLIEST)
        ends = self._source.list_offsets(partitions, requests.LATEST)
        states = {place: snapshot.states[place] for place in partitions if place in snapshot.states}
        lost, shorter = self._topic_watcher.check(snapshot.values, states, source_metadata, target_metadata)
        with suppress(UpstreamError):  # it only warns
            if (due := self._retention.read_if_due(self._source, ends)) is not None:
                progress.set_due_offsets(due)
        sized_slices = []
        for place in partitions:
            if place not in begins or place not in ends:
                reason = "the source does not say which offsets it has: is its leader there?"
                progress.mark_without_offsets(*place, reason)
                continue
            topic, state = place[0], states.get(place)
            goal = self._goals.setdefault(place, ends[place])
            upto = ends[place] if spec.follow else goal
            if reason := lost.get(topic) or shorter.get(place, ""):
                begin = begins[place] if state is None else state.source_begin
                progress.mark_lost(*place, reason, begin, max(begin, upto))
                continue
            skip_to = self._skip_offset(place, state, begins[place])
            begin = max(begins[place] if state is None else state.source_next, skip_to)
            backlog = PartitionBacklog(*place, begin, upto, _bytes_per_offset(state))
            progress.start_round(backlog, state, begins[place])
            # The state must record skipped offsets, even at the end of the log.
            skips = state is not None and skip_to > state.source_next
            if (backlog.lag or skips) and place not in self._blocked:
                target_topic = spec.topics[topic]
                size = slice_size(backlog, state, spec.slice_size)
                slice = Slice(
                    *place,
                    target_topic,
                    begin,
                    upto,
                    size,
                    spec.slice_seconds,
                    state=state,
                    state_offset=snapshot.resume_offset(place),
                    skip_to=skip_to,
                    allows_gaps=topic in spec.allows_gaps,
                    max_batch_size=spec.max_batch_sizes.get(target_topic, DEFAULT_MAX_BATCH),
                    origin=identity_in(source_metadata, topic),
                    destination=identity_in(target_metadata, target_topic),
                )
                sized_slices.append((min(backlog.size, size), slice))
        progress.problem = ""
        self._on_progress(progress)
        return sized_slices

    def _skip_offset(self, place: TopicPartition, state: PartitionState | None, begin: int) -> int:
        """Return the offset up to which the copy may leave out records that the source has deleted."""
        allowed = self._spec.skip.get(place, 0)
        if state is None or begin <= max(state.source_next, allowed) or not self._application_has_read(place, begin):
            return allowed
        return begin

    def _application_has_read(self, place: TopicPartition, begin: int) -> bool:
        """Return True if the application of a repartition topic has deleted the records before `begin` itself."""
        return place[0] in self._spec.repartition and application_has_committed(self._source_address, *place, begin)

    def _round(self, number: int, state_partitions: int, slices: list[tuple[int, Slice]]) -> list[SliceResult]:
        self.progress.round = number
        job = Job(self._spec.name, state_partitions)
        if (driver := self._driver_for(slices)) is not None:
            results = driver.copy(job, slices, self._spec.max_rate, lambda: self._round_cancelled)
        else:
            results = self._run_spark_job(job, slices)
        begins = {(slice_.topic, slice_.partition): max(slice_.begin, slice_.skip_to) for _, slice_ in slices}
        self._state_reader.add_committed(
            {(result.topic, result.partition): result.state for result in results if result.state is not None}
        )
        results = [self._excuse_deleted(result, begins[result.topic, result.partition]) for result in results]
        for result in results:
            self.progress.apply_result(result)
            if result.is_final:
                self._blocked.add((result.topic, result.partition))
        self._on_progress(self.progress)
        return results

    def _excuse_deleted(self, result: SliceResult, begin: int) -> SliceResult:
        """Clear the error of a result if an application has deleted records of its repartition topic meanwhile.

        The next round leaves these records out. `begin`: the offset at which the slice began.
        """
        position = begin if result.state is None else max(begin, result.state.source_next)
        deleted = result.stuck and result.log_start > position
        with suppress(KproxyError):  # the result stays as it is
            if deleted and self._application_has_read((result.topic, result.partition), result.log_start):
                return replace(result, stuck="", is_final=False)
        return result

    def _run_spark_job(self, job: Job, slices: list[tuple[int, Slice]]) -> list[SliceResult]:
        """Run a Spark job and return the results of its tasks, or nothing if it failed.

        What the tasks had committed stays committed.
        """
        slots = max(1, int(self._context.defaultParallelism))
        tasks = pack_tasks(slices, job, slots)
        if rate := task_rate(self._spec.max_rate, slots, tasks):
            tasks = [[[replace(each, rate=rate) for each in group] for group in task] for task in tasks]
        size = sum(size for size, _ in slices)
        self._context.setJobGroup(self._group, self._group, interruptOnCancel=False)
        self._context.setJobDescription(
            f"kproxy migrate {self._spec.name}: round {self.progress.round}, {len(slices)} partitions, about"
            f" {size / 1e6:,.0f} MB"
        )
        task = make_copy_task(self._source_address, self._target_address, job)
        try:
            return list(self._context.parallelize(tasks, len(tasks)).mapPartitions(task).collect())
        except Exception as error:
            if self._round_cancelled:
                return []
            if problem := python_problem(error):
                raise ConfigError(problem) from None
            if "PythonException" in str(error):
                raise  # a defect of kproxy; losing executors or workers is only retried
            self._report_problem(f"Spark's job failed: {first_line(error)}")
            return []

    # Meanwhile

    def _watch(self, driver: CopyDriver) -> None:
        """Update the driver's record, and read orders and states, in a separate thread."""
        # From here on, only this thread uses `driver`; the rounds have their own connections.
        with ClusterClient(self._target_address) as cluster:
            driver.use_cluster(cluster)
            try:
                while not self._fenced and not self._finished.wait(BEAT_INTERVAL / 3):
                    try:
                        self._read_orders(driver)
                        driver.heartbeat_if_due(**self._driver_fields())
                    except ProducerFenced:
                        self._fenced = True
                        self.cancel()
                    except KproxyError:
                        cluster.invalidate()
                if not self._fenced:
                    self.progress.sample_lag(time.time_ns() // 1_000_000, last=True)
                    with suppress(KproxyError):  # other drivers then notice that the record is not updated
                        driver.heartbeat(ended=True, **self._driver_fields())
            except Exception as error:  # noqa: BLE001  # `run` raises it
                # Without this thread, the run would not notice orders, or that another driver has taken over.
                self._defect = error
                self.cancel()

    def _driver_fields(self) -> dict[str, Any]:
        """Return the fields of the driver's record."""
        deletions = [[*place, round(seconds)] for place, seconds in self.progress.soon_deleted()[:_MAX_DELETIONS]]
        return {"round": self.progress.round, "lag": self.progress.lag_history, "deletions": deletions}

    def _read_orders(self, driver: CopyDriver) -> None:
        snapshot = self._state_reader.read()
        if driver.is_leave_request(snapshot.values.get(LEAVE_KEY)):
            self._asked_to_leave = True
            self.finish_round()
        self.progress.paused = DriverOrder.read(snapshot.values.get(ORDER_KEY)).paused
        self.progress.apply_states(snapshot.states)
        self.progress.sample_lag(time.time_ns() // 1_000_000)
        self._on_progress(self.progress)

    def _cancel_when_asked(self) -> None:
        """Cancel the round when `cancel` is called, in a separate thread."""
        if not self._cancel.get():
            return
        self._round_cancelled = True
        self.finish_round()
        while True:
            with suppress(Exception):  # py4j raises when the JVM has ended; then the job has ended too
                self._context.cancelJobGroup(self._group)
            if self._finished.wait(_CANCEL_INTERVAL):
                return


def _bytes_per_offset(state: PartitionState | None) -> float:
    if state is not None and state.source_next > state.source_begin and state.size:
        return state.size / (state.source_next - state.source_begin)
    return _DEFAULT_BYTES_PER_OFFSET
