"""The progress of the copy, of each partition and topic: done, rate, time left, and reasons why it is stuck."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import PartitionState, SliceResult
from kproxy.migrate.copy.retention import DueOffsets, seconds_until_due
from kproxy.migrate.copy.rounds import PartitionBacklog

# Window of the rates, in seconds.
_WINDOW = 30.0
_MAX_SAMPLES = 200
# Warn if the source will delete records that are not copied within this time, in seconds. What is known only by what
# the source has deleted is believed for an hour, and for so many times as long as that was watched.
_WARNING_HORIZON, _DELETIONS_HORIZON, _BELIEVED = 24 * 3600.0, 3600.0, 12.0
# Between two log start offsets that are kept, in seconds.
_LOG_START_INTERVAL = 60.0
# After so many seconds of a run, its rates say something about hours.
_MEASURED = 60.0


class Condition(Enum):
    """The condition of one partition."""

    COPYING = auto()
    NO_OFFSETS = auto()
    """The source returned no offsets of it in this round."""
    LOST = auto()
    """The target does not have the copied records any more."""
    STUCK = auto()
    """Its last slice could not be copied."""


@dataclass(slots=True)
class PartitionProgress:
    """The progress of one partition. Offsets are those of the source; -1 is unknown."""

    begin: int = -1
    position: int = -1
    stable: int = -1
    records: int = 0
    size: int = 0
    bytes_per_offset: float = 0.0
    condition: Condition = Condition.COPYING
    stuck: str = ""
    """Why nothing is copied, unless the condition is COPYING."""
    log_starts: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=60))
    """Times and log start offsets of the last hour."""
    due: DueOffsets = ()
    """The forecast of what retention deletes before it is copied."""
    began: tuple[float, int] | None = None
    """The time and the position when this run began."""
    samples: deque[tuple[float, int, int]] = field(default_factory=deque)
    """Times, positions and copied bytes of the last seconds."""

    @property
    def lag(self) -> int:
        return max(0, self.stable - self.position)

    def add_log_start(self, now: float, log_start: int) -> None:
        """Note the log start offset; of those within a minute, only the last one is kept."""
        if len(self.log_starts) > 1 and now - self.log_starts[-2][0] < _LOG_START_INTERVAL:
            self.log_starts.pop()
        self.log_starts.append((now, log_start))

    def copied_rate(self, now: float) -> float:
        """Return the offsets that this run has copied in a second."""
        if self.began is None:
            return 0.0
        since, position = self.began
        return (self.position - position) / max(1.0, now - since)

    def seconds_to_deletion(self, now: float, rate: float) -> float | None:
        """Return the seconds until the source deletes records that are not copied yet.

        Assumes that the copy continues at this rate, in offsets a second. None: the copy is faster, or it is not known.
        """
        if not self.lag or not self.samples:
            return None
        is_measured = self.began is not None and now - self.began[0] >= _MEASURED
        due = seconds_until_due(self.due, self.position, rate, now) if is_measured else None
        if len(self.log_starts) < 2:
            return due
        (since, first), (until, last) = self.log_starts[0], self.log_starts[-1]
        deleted = (last - first) / max(1.0, until - since)
        if deleted > rate:
            seconds = (self.position - last) / (deleted - rate)
            if seconds < max(_DELETIONS_HORIZON, _BELIEVED * (until - since)):
                return seconds if due is None else min(seconds, due)
        return due


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """The progress of one topic, or of all."""

    topic: str
    partitions: int
    done_share: float
    """Share of the source's offsets that is copied."""
    records: int
    """Copied records."""
    size: int
    """Copied bytes."""
    lag: int
    """Offsets that are not copied."""
    rate: float
    """Bytes a second."""
    seconds_left: float | None
    """Estimated seconds until the topic is copied; None if unknown."""
    stuck: str
    """Reason why a partition is stuck, or ""."""


class CopyProgress:
    """The progress of a run.

    The driver's threads update it. Each call replaces small values, so readers see valid states.
    """

    def __init__(self, name: str, repartition: Collection[str] = ()) -> None:
        """Begin the progress of a migration.

        `repartition`: topics whose application deletes records that it has read. Nothing of them is lost so.
        """
        self.name = name
        self._repartition = frozenset(repartition)
        self.round = 0
        self.paused = False
        self.problem = ""
        self.batch_counts: Counter[str] = Counter()  # batches written by this run, by method
        self.partitions: dict[TopicPartition, PartitionProgress] = {}
        self.lag_history: list[tuple[int, int]] = []
        self._sample_interval = 1000

    def _partition(self, topic: str, partition: int) -> PartitionProgress:
        return self.partitions.setdefault((topic, partition), PartitionProgress())

    def start_round(self, backlog: PartitionBacklog, state: PartitionState | None, log_start: int) -> None:
        """Record the backlog of a partition at the beginning of a round."""
        part = self._partition(backlog.topic, backlog.partition)
        part.stable, part.bytes_per_offset = backlog.stable, backlog.bytes_per_offset
        part.begin = state.source_begin if state is not None else backlog.position
        part.add_log_start(time.monotonic(), log_start)
        if part.condition in (Condition.NO_OFFSETS, Condition.LOST):
            part.condition, part.stuck = Condition.COPYING, ""
        self._advance(part, backlog.position, state)
        part.began = part.began or (time.monotonic(), part.position)

    def _advance(self, part: PartitionProgress, position: int, state: PartitionState | None) -> None:
        if part.condition is Condition.LOST:
            return
        part.position = max(part.position, position)
        if state is not None:
            part.records, part.size = max(part.records, state.records), max(part.size, state.size)
        now = time.monotonic()
        part.samples.append((now, part.position, part.size))
        while len(part.samples) > 2 and part.samples[1][0] < now - _WINDOW:
            part.samples.popleft()

    def apply_states(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Take over the states that the state topic has now."""
        for topic_partition, part in list(self.partitions.items()):
            if (state := states.get(topic_partition)) is not None:
                self._advance(part, state.source_next, state)

    def apply_result(self, result: SliceResult) -> None:
        """Take over the result of a slice."""
        part = self._partition(result.topic, result.partition)
        part.condition, part.stuck = Condition.STUCK if result.stuck else Condition.COPYING, result.stuck
        self.batch_counts.update(result.batch_counts)
        part.stable = max(part.stable, result.stable)
        if result.state is not None:
            self._advance(part, result.state.source_next, result.state)

    def mark_without_offsets(self, topic: str, partition: int, reason: str) -> None:
        """Record why the source returned no offsets of a partition; -1 is the whole topic."""
        part = self._partition(topic, partition)
        part.condition, part.stuck = Condition.NO_OFFSETS, reason

    def forget_missing_topic(self, topic: str) -> None:
        """Record that the source has the topic now."""
        self.partitions.pop((topic, -1), None)

    def mark_lost(self, topic: str, partition: int, reason: str, begin: int, stable: int) -> None:
        """Count no record of a partition as copied, because its topic is not the one that was copied."""
        part = self._partition(topic, partition)
        part.condition, part.stuck = Condition.LOST, reason
        part.begin = part.position = begin
        part.stable = stable
        part.records = part.size = 0

    def sample_lag(self, timestamp: int, *, last: bool = False) -> None:
        """Record the lag at a time in milliseconds since 1970, for the chart of the report.

        If there are too many samples, every second one is dropped, and the interval doubles. The `last` sample is
        always recorded.
        """
        if self.lag_history and timestamp - self.lag_history[-1][0] < self._sample_interval and not last:
            return
        self.lag_history.append((timestamp, self.lag))
        if len(self.lag_history) > _MAX_SAMPLES:
            del self.lag_history[1::2]
            self._sample_interval *= 2

    # Properties for display

    @property
    def stuck(self) -> dict[TopicPartition, str]:
        """The reason of each partition that is stuck."""
        return {topic_partition: part.stuck for topic_partition, part in self.partitions.items() if part.stuck}

    @property
    def lag(self) -> int:
        return sum(part.lag for part in self.partitions.values())

    @property
    def done(self) -> bool:
        """True if all records that existed are copied."""
        return bool(self.partitions) and not self.lag and not self.stuck

    def deletion_forecast(self) -> dict[TopicPartition, float]:
        """Return the seconds until the source deletes records that are not copied, by partition.

        A partition is in the result only if its retention is faster than the copy. Repartition topics have none.
        """
        now = time.monotonic()
        # A partition that waits for its turn has no rate of its own: the whole copy comes to it in time.
        seconds_left = self.total().seconds_left
        forecast = (
            (
                topic_partition,
                part.seconds_to_deletion(
                    now, max(part.copied_rate(now), part.lag / seconds_left if seconds_left else 0.0)
                ),
            )
            for topic_partition, part in sorted(self.partitions.items())
            if topic_partition[0] not in self._repartition
        )
        return {topic_partition: seconds for topic_partition, seconds in forecast if seconds is not None}

    def set_due_offsets(self, due: Mapping[TopicPartition, DueOffsets]) -> None:
        """Take over what retention reaches when."""
        for (topic, partition), offsets in due.items():
            self._partition(topic, partition).due = offsets

    def soon_deleted(self) -> list[tuple[TopicPartition, float]]:
        """Return the partitions that retention overtakes within a day, with the seconds, the soonest first."""
        soon = [each for each in self.deletion_forecast().items() if each[1] < _WARNING_HORIZON]
        return sorted(soon, key=lambda each: each[1])

    def warnings(self) -> list[str]:
        """Return a warning for each partition that retention will overtake within a day, the soonest first."""
        return [describe_deletion(*place, seconds) for place, seconds in self.soon_deleted()]

    def topics(self) -> list[TopicProgress]:
        """Return the progress of each topic."""
        topics: dict[str, list[PartitionProgress]] = {}
        for (topic, partition), part in sorted(self.partitions.items()):
            if partition >= 0 or part.stuck:
                topics.setdefault(topic, []).append(part)
        return [self._sum_up(topic, parts) for topic, parts in topics.items()]

    def total(self) -> TopicProgress:
        return self._sum_up("all", list(self.partitions.values()))

    def _sum_up(self, topic: str, parts: Iterable[PartitionProgress]) -> TopicProgress:
        parts = list(parts)
        total = sum(part.stable - part.begin for part in parts if part.stable >= 0)
        done = sum(part.position - part.begin for part in parts if part.stable >= 0)
        lag = sum(part.lag for part in parts)
        rate = sum(map(_rate, parts))
        bytes_left = sum(part.lag * part.bytes_per_offset for part in parts)
        seconds_left = 0.0 if not lag else bytes_left / rate if rate else None
        stuck = [part.stuck for part in parts if part.stuck]
        records, size = sum(part.records for part in parts), sum(part.size for part in parts)
        share = _share(done, total, stuck)
        return TopicProgress(
            topic=topic,
            partitions=len(parts),
            done_share=share,
            records=records,
            size=size,
            lag=lag,
            rate=rate,
            seconds_left=seconds_left,
            stuck="".join(stuck[:1]),
        )


def describe_deletion(topic: str, partition: int, seconds: float) -> str:
    """Return the warning that retention will overtake the copy of a partition."""
    minutes = max(1, round(seconds / 60))
    duration = f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
    return (
        f"partition {partition} of {topic}: the source deletes records faster than they are copied. It may"
        f" delete records that are not copied in about {duration}: raise its retention"
    )


_MAX_SHARE_WHEN_STUCK = 0.999


def _share(done: int, total: int, stuck: Sequence[str]) -> float:
    """Return the copied share, which is never 1 while a partition is stuck."""
    if not total:
        return 0.0 if stuck else 1.0
    return min(_MAX_SHARE_WHEN_STUCK if stuck else 1.0, done / total)


def _rate(part: PartitionProgress) -> float:
    """Return the rate of the last half minute, in bytes a second."""
    if len(part.samples) < 2:
        return 0.0
    (since, _, first), (until, _, last) = part.samples[0], part.samples[-1]
    now = time.monotonic()
    return max(0.0, (last - first) / max(0.5, now - since)) if until > now - _WINDOW else 0.0
