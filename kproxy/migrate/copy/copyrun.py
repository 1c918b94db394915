"""The copy: round after round of Spark jobs, until nothing is left, or until somebody ends it.

What has been copied stands in the state topic and nowhere else. The driver reads it at its start and after each round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

from kproxy.base.errors import ConfigError, KproxyError
from kproxy.migrate.clusters.topic_identities import TopicWatcher, identity_in, is_topic_record
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import ProducerFenced
from kproxy.migrate.copier.retries import is_retriable, retry
from kproxy.migrate.copier.slices import DEFAULT_MAX_BATCH, Job, Slice, SliceResult
from kproxy.migrate.copier.state import PartitionState, state_key, state_partition, state_topic_name
from kproxy.migrate.copier.statetopic import StateTopic, count_state_partitions, read_state_topic
from kproxy.migrate.copy.progress import CopyProgress
from kproxy.migrate.copy.repartition import StreamsApplications
from kproxy.migrate.copy.rounds import PartitionBacklog, pack_tasks, task_rate
from kproxy.migrate.copy.sparksession import python_problem
from kproxy.migrate.copy.tasks import make_copy_task
from kproxy.migrate.journal.driver import BEAT_INTERVAL, LEAVE_KEY, ORDER_KEY, CopyDriver, DriverOrder
from kproxy.migrate.journal.switch_journal import read_last_switch
from kproxy.spark.tasks import first_line

# Until a partition's records are known: bytes an offset takes.
_GUESS = 1000.0
# When there is nothing to copy, or it is paused: how long until the driver looks again, in seconds.
_IDLE = 1.0
# After a round that brought nothing, since what was to be copied is stuck.
_STUCK = 3.0
# How often Spark is told that the round's job is not wanted any more, in seconds: it forgets what is told before it has
# the job.
_CANCEL_AGAIN = 1.0
# While a cluster does not answer at the start, in seconds.
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class CopySpec:
    """The topics and settings of one run of the copy."""

    name: str
    topics: Mapping[str, str]
    """Target topic of each source topic."""
    allows_gaps: frozenset[str] = frozenset()
    """Source topics in which offsets may be missing."""
    max_batch_sizes: Mapping[str, int] = field(default_factory=dict)
    """Maximum size of a batch of each target topic, in bytes."""
    skip: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Offset of a partition up to which the copy may leave out records that the source has deleted."""
    repartition: frozenset[str] = frozenset()
    """Source topics of which the copy leaves out records that the application has read and deleted."""
    max_rate: float = 0.0
    """Maximum rate of the copy, in bytes a second; 0 is no limit."""
    slice_size: int = 256 * 1024 * 1024
    """Size of a slice, in bytes."""
    slice_seconds: float = 30.0
    follow: bool = False
    """True to copy new records until the run is ended."""
    stall_timeout: float = 120.0
    """Without `follow`, the run ends after this many seconds without progress."""
    take_over: bool = False
    """True to end another driver that copies this migration."""
    grace: float = 40.0
    """How long the other driver may continue its round, in seconds."""


class CopyRun:
    """One run of the driver. `shown` is called whenever there is something new to show, from any thread. `allowed`
    raises ConfigError if records must not be copied in this direction now; without, the state topic says it."""

    def __init__(
        self,
        spark: Any,
        source: str,
        target: str,
        what: CopySpec,
        shown: Callable[[CopyProgress], None] = lambda _: None,
        allowed: Callable[[], None] | None = None,
    ) -> None:
        self._context = spark.sparkContext
        self._source_address, self._target_address = source, target
        self._source, self._target = ClusterClient(source), ClusterClient(target)
        self._what, self._shown = what, shown
        self._applications = StreamsApplications(source)
        self._same = TopicWatcher(self._target, what.topics)
        self._allowed = allowed or self._not_switched
        self._group = f"kproxy migrate {what.name}"
        self.progress = CopyProgress(what.name)
        self._ended = threading.Event()  # no further round
        self._over = threading.Event()  # no round any more
        # Whether the round is to be broken off (True), or there is none any more. This kind of queue, and not an Event:
        # a signal handler may put something here whatever its thread is just doing.
        self._cancel: SimpleQueue[bool] = SimpleQueue()
        self._fenced: ProducerFenced | None = None
        self._leaves = False  # as another driver has asked
        self._broken_off = False  # the round, by `stop`
        self.is_copying = False  # whether `run` has come to its rounds
        self._defect: Exception | None = None  # of the thread that watches
        self._order = DriverOrder()
        self._stopped: dict[tuple[str, int], str] = {}  # only a person can help these
        self._goals: dict[tuple[str, int], int] = {}  # where each partition ended when it was seen first

    def run(self) -> CopyProgress:
        """Until all is copied that was there, or with `follow` until `end` is called. What is stuck, the progress says.

        Raises ConfigError (not prepared; another driver copies; tasks without kproxy), UpstreamError and WireError (a
        cluster cannot be reached at start; another driver took over)."""
        try:
            job = self._job()
            driver = CopyDriver(self._target, job)
            if self._what.take_over and self._what.grace:
                driver.request_handover(self._target_address, self._what.grace)
            driver.acquire(take_over=self._what.take_over)
            self._allowed()  # when nobody else copies any more: whoever switches fences this one first
            watch = threading.Thread(target=self._watch, args=[driver, job], name="kproxy migrate", daemon=True)
            watch.start()
            canceller = threading.Thread(target=self._canceller, name="kproxy migrate cancel", daemon=True)
            canceller.start()
            self.is_copying = True
            try:
                self._rounds(job)
            finally:
                self.is_copying = False
                self._over.set()
                self._cancel.put(False)
                watch.join()
            if self._defect is not None:
                raise self._defect
            if self._fenced is not None or self._leaves:
                raise ConfigError(
                    f"another kproxy copies {self._what.name} now and has taken the place of this one: nothing is lost"
                )
            return self.progress
        finally:
            self._source.close()
            self._target.close()

    def end(self) -> None:
        """Stop after this round. From another thread."""
        self._ended.set()

    def stop(self) -> None:
        """Stop now: no further round, and no task of this one; `run` returns in a few seconds. From another thread or a
        signal handler."""
        self._cancel.put(True)

    def _job(self) -> Job:
        name = self._what.name
        return Job(
            name,
            state_topic_name(name),
            retry(self._target, lambda: count_state_partitions(self._target, name), _PATIENCE),
        )

    def _not_switched(self) -> None:
        """Raises ConfigError when clients have gone: what comes to the source then was copied back from the target."""
        last = read_last_switch(self._target_address, self._what.name)
        if last is not None and last.is_moved:
            raise ConfigError(
                f"clients of {self._what.name} are on {last.target_upstream} now: nothing"
                " is copied from the source any more; allowed: kproxy migrate copy --back, rollback or finish"
            )

    # Rounds

    def _rounds(self, job: Job) -> None:
        known = read_state_topic(self._target, self._what.name, is_topic_record)
        number, patient = 0, time.monotonic() + self._what.stall_timeout
        while not self._ended.is_set():
            if self._order.paused:
                self._ended.wait(_IDLE)
                continue
            try:
                known.read()
                slices = self._slices(job, known)
            except KproxyError as error:
                if not is_retriable(error) or (not self._what.follow and time.monotonic() > patient):
                    raise
                self._trouble(str(error))
                continue
            if not slices:
                if not self._what.follow:
                    return
                self._ended.wait(_IDLE)
                continue
            number += 1
            outcomes = self._round(number, job, slices)
            if not any(outcome.records or outcome.size for outcome in outcomes):
                hopeless = outcomes and all(each.is_final for each in outcomes)
                if not self._what.follow and (hopeless or time.monotonic() > patient):
                    return
                self._ended.wait(_STUCK)
            else:
                patient = time.monotonic() + self._what.stall_timeout

    def _trouble(self, text: str) -> None:
        self.progress.problem = text
        self._shown(self.progress)
        self._source.invalidate()
        self._target.invalidate()
        self._ended.wait(_STUCK)

    def _slices(self, job: Job, known: StateTopic) -> list[tuple[int, Slice]]:
        """What the next round copies, with sizes."""
        layout = self._source.refresh_metadata(list(self._what.topics))
        partitions = []
        for topic in self._what.topics:
            error, led = layout.topics.get(topic, (3, ()))
            if error:
                self.progress.mark_stuck(topic, -1, f"the source does not have {topic} now")
            partitions += [(topic, one.index) for one in led]
        there = self._target.refresh_metadata(sorted(set(self._what.topics.values())))
        begins = self._source.list_offsets(partitions, requests.EARLIEST)
        ends = self._source.list_offsets(partitions, requests.LATEST)
        values = known.values
        written = {where: values.get(state_key("partition", *where)) for where in partitions}
        states = {where: PartitionState.from_json(value) for where, value in written.items() if value is not None}
        lost, shorter = self._same.check(values, states, layout, there)
        found = []
        for where in partitions:
            state = states.get(where)
            if where not in begins or where not in ends:
                self.progress.mark_stuck(*where, "the source does not say which offsets it has: is its leader there?")
                continue
            goal = self._goals.setdefault(where, ends[where])
            if why := lost.get(where[0]) or shorter.get(where):
                begin = begins[where] if state is None else state.source_begin
                self.progress.mark_lost(*where, why, begin, max(begin, ends[where] if self._what.follow else goal))
                continue
            left_out = self._left_out(where, state, begins[where])
            begin = max(state.source_next if state is not None else begins[where], left_out)
            ahead = self._ahead(where, state, begin, ends[where] if self._what.follow else goal)
            self.progress.start_round(ahead, state, begins[where])
            leaves_out = (
                state is not None and left_out > state.source_next
            )  # which the state must have, even at the end
            if (ahead.lag or leaves_out) and where not in self._stopped:
                at = state_partition(state_key("partition", *where), job.state_partitions)
                slice = replace(
                    self._slice(ahead, state, known.logs[at].resume_offset, left_out),
                    origin=identity_in(layout, ahead.topic),
                    destination=identity_in(there, self._what.topics[ahead.topic]),
                )
                found.append((min(ahead.size, self._what.slice_size), slice))
        self.progress.problem = ""
        self._shown(self.progress)
        return found

    def _left_out(self, where: tuple[str, int], state: PartitionState | None, begin: int) -> int:
        """Up to which offset nothing need be copied although the source has deleted it."""
        allowed = self._what.skip.get(where, 0)
        if state is None or begin <= max(state.source_next, allowed) or not self._were_read(where, begin):
            return allowed
        return begin

    def _were_read(self, where: tuple[str, int], begin: int) -> bool:
        """Whether the application of a repartition topic has deleted itself what lies before."""
        return where[0] in self._what.repartition and self._applications.have_committed(*where, begin)

    @staticmethod
    def _ahead(where: tuple[str, int], state: PartitionState | None, position: int, stable: int) -> PartitionBacklog:
        each = _GUESS
        if state is not None and state.source_next > state.source_begin and state.size:
            each = state.size / (state.source_next - state.source_begin)
        return PartitionBacklog(*where, position, stable, each)

    def _slice(self, ahead: PartitionBacklog, state: PartitionState | None, resume: int, left_out: int) -> Slice:
        what = self._what
        target = what.topics[ahead.topic]
        return Slice(
            ahead.topic,
            ahead.partition,
            target,
            ahead.position,
            ahead.stable,
            what.slice_size,
            what.slice_seconds,
            state=state,
            state_offset=resume,
            skip_to=left_out,
            allows_gaps=ahead.topic in what.allows_gaps,
            max_batch_size=what.max_batch_sizes.get(target, DEFAULT_MAX_BATCH),
        )

    def _round(self, number: int, job: Job, slices: list[tuple[int, Slice]]) -> list[SliceResult]:
        slots = max(1, int(self._context.defaultParallelism))
        tasks = pack_tasks(slices, slots)
        rate = task_rate(self._what.max_rate, slots, tasks)
        if rate:
            tasks = [[replace(one, rate=rate) for one in task] for task in tasks]
        size = sum(size for size, _ in slices)
        self._context.setJobGroup(self._group, self._group, interruptOnCancel=False)
        self._context.setJobDescription(
            f"kproxy migrate {self._what.name}: round {number}, {len(slices)} partitions, about {size / 1e6:,.0f} MB"
        )
        self.progress.round = number
        outcomes = self._job_of(tasks, make_copy_task(self._source_address, self._target_address, job))
        begins = {(one.topic, one.partition): max(one.begin, one.skip_to) for _, one in slices}
        outcomes = [self._excused(one, begins[one.topic, one.partition]) for one in outcomes]
        for outcome in outcomes:
            self.progress.apply_result(outcome)
            if outcome.is_final:
                self._stopped[outcome.topic, outcome.partition] = outcome.stuck
        self._shown(self.progress)
        return outcomes

    def _excused(self, outcome: SliceResult, begin: int) -> SliceResult:
        """Records of a repartition topic were deleted since the round began: the next one leaves them out. `begin`:
        where the slice began."""
        position = begin if outcome.state is None else max(begin, outcome.state.source_next)
        deleted = outcome.stuck and outcome.log_start > position
        with suppress(KproxyError):  # then it stays as it is
            if deleted and self._were_read((outcome.topic, outcome.partition), outcome.log_start):
                return replace(outcome, stuck="", is_final=False)
        return outcome

    def _job_of(self, tasks: list[list[Slice]], work: Callable[..., Iterator[SliceResult]]) -> list[SliceResult]:
        """What the tasks of a Spark job say; nothing if the job failed. What its tasks had committed stays so."""
        try:
            return list(self._context.parallelize(tasks, len(tasks)).mapPartitions(work).collect())
        except Exception as error:
            if self._broken_off:
                return []
            if why := python_problem(error):
                raise ConfigError(why) from None
            if "PythonException" in str(error):
                raise  # a defect of kproxy; whoever loses executors or workers again and again only tries again
            self._trouble(f"Spark's job failed: {first_line(error)}")
            return []

    def _said(self) -> dict[str, Any]:
        """For the driver's record."""
        return {"round": self.progress.round, "lag": self.progress.lag_history}

    # Meanwhile

    def _watch(self, driver: CopyDriver, job: Job) -> None:
        """In a thread of its own, with connections of its own: the driver's record, orders, and what is new."""
        # `driver` is this thread's from now on; the rounds have connections of their own.
        cluster = ClusterClient(self._target_address)
        driver.use_cluster(cluster)
        topic: StateTopic | None = None
        try:
            while self._fenced is None and not self._over.wait(BEAT_INTERVAL / 3):
                try:
                    if topic is None:
                        topic = read_state_topic(cluster, self._what.name, _of_interest)
                    topic.read()
                    self._look(topic, driver)
                    driver.heartbeat_if_due(**self._said())
                except ProducerFenced as error:
                    self._fenced = error
                    self.stop()
                except KproxyError:
                    cluster.invalidate()
            if self._fenced is None:
                self.progress.sample_lag(time.time_ns() // 1_000_000, last=True)
                with suppress(KproxyError):  # then it is noticed that nothing is written any more
                    driver.heartbeat(ended=True, **self._said())
        except Exception as error:  # noqa: BLE001  # `run` raises it
            # Without this thread nobody would hear orders, or that another driver has taken over.
            self._defect = error
            self.stop()
        finally:
            cluster.close()

    def _canceller(self) -> None:
        """In a thread of its own: break off the round once that is wanted."""
        if not self._cancel.get():
            return
        self._broken_off = True
        self._ended.set()
        while True:
            with suppress(Exception):  # py4j's, when the JVM has ended: then the job has, too
                self._context.cancelJobGroup(self._group)
            if self._over.wait(_CANCEL_AGAIN):
                return

    def _look(self, topic: StateTopic, driver: CopyDriver) -> None:
        if driver.is_leave_request(topic.values.get(LEAVE_KEY)):
            self._leaves = True
            self._ended.set()
        self._order = DriverOrder.read(topic.values.get(ORDER_KEY))
        self.progress.paused = self._order.paused
        self.progress.apply_state(topic.values)
        self.progress.sample_lag(time.time_ns() // 1_000_000)
        self._shown(self.progress)


def _of_partitions(name: bytes) -> bool:
    return name.startswith(b'["partition",')


def _of_interest(name: bytes) -> bool:
    return _of_partitions(name) or name in (ORDER_KEY, LEAVE_KEY)
