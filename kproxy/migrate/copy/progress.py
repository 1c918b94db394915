"""How far the copy is: of each partition and topic, what is done, how fast, how long still, what is stuck."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kproxy.migrate.copier.slices import SliceResult
from kproxy.migrate.copier.state import PartitionState, state_key
from kproxy.migrate.copy.rounds import PartitionBacklog

# Rates are those of the last seconds.
_WINDOW = 30.0
_MANY = 200
# Retention is said to come near when it would be there in so many seconds.
_NEAR = 3600.0


@dataclass(slots=True)
class PartitionProgress:
    """One partition. Offsets are the source's; -1 is not known. `lost`: the target has not what was copied any more."""

    begin: int = -1
    position: int = -1
    stable: int = -1
    records: int = 0
    size: int = 0
    bytes_per_offset: float = 0.0
    stuck: str = ""
    lost: bool = False
    log_starts: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=60))
    samples: deque[tuple[float, int, int]] = field(default_factory=deque)

    @property
    def lag(self) -> int:
        return max(0, self.stable - self.position)

    def seconds_to_deletion(self, now: float) -> float | None:
        """Seconds until the source deletes what is not copied yet, if both go on as they did; None if they do not
        meet."""
        if len(self.log_starts) < 2 or not self.samples or not self.lag:
            return None
        (since, first), (until, last) = self.log_starts[0], self.log_starts[-1]
        deleted = (last - first) / max(1.0, until - since)
        (began, position, _), (_, now_at, _) = self.samples[0], self.samples[-1]
        copied = (now_at - position) / max(1.0, now - began)
        return (self.position - last) / (deleted - copied) if deleted > copied else None


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """A topic in the display. `share` of the source's offsets is done, `lag` of them are not; `records` are
    those that were copied. Rate in bytes a second, `left` in seconds, None: nobody
    knows."""

    topic: str
    partitions: int
    done_share: float
    records: int
    size: int
    lag: int
    rate: float
    seconds_left: float | None
    stuck: str


class CopyProgress:
    """Filled by the driver's threads; each call replaces small values, so readers see a state that was there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.round = 0
        self.paused = False
        self.problem = ""
        self.batch_counts: Counter[str] = Counter()  # batches written by this run, by the way they took
        self.partitions: dict[tuple[str, int], PartitionProgress] = {}
        self.lag_history: list[tuple[int, int]] = []
        self._apart = 1000

    def _part(self, topic: str, partition: int) -> PartitionProgress:
        return self.partitions.setdefault((topic, partition), PartitionProgress())

    def start_round(self, ahead: PartitionBacklog, state: PartitionState | None, log_start: int) -> None:
        """At the begin of a round."""
        part = self._part(ahead.topic, ahead.partition)
        part.stable, part.bytes_per_offset = ahead.stable, ahead.bytes_per_offset
        part.begin = state.source_begin if state is not None else ahead.position
        part.log_starts.append((time.monotonic(), log_start))
        if part.stuck == _NO_OFFSETS or part.lost:
            part.stuck, part.lost = "", False
        self._move(part, ahead.position, state)

    def _move(self, part: PartitionProgress, position: int, state: PartitionState | None) -> None:
        if part.lost:
            return
        part.position = max(part.position, position)
        if state is not None:
            part.records, part.size = max(part.records, state.records), max(part.size, state.size)
        now = time.monotonic()
        part.samples.append((now, part.position, part.size))
        while len(part.samples) > 2 and part.samples[1][0] < now - _WINDOW:
            part.samples.popleft()

    def apply_state(self, values: Mapping[bytes, bytes]) -> None:
        """What the state topic has now."""
        for (topic, partition), part in list(self.partitions.items()):
            value = values.get(state_key("partition", topic, partition))
            if value is not None:
                state = PartitionState.from_json(value)
                self._move(part, state.source_next, state)

    def apply_result(self, outcome: SliceResult) -> None:
        part = self._part(outcome.topic, outcome.partition)
        part.stuck = outcome.stuck
        self.batch_counts.update(outcome.batch_counts)
        part.stable = max(part.stable, outcome.stable)
        if outcome.state is not None:
            self._move(part, outcome.state.source_next, outcome.state)

    def mark_stuck(self, topic: str, partition: int, why: str) -> None:
        self._part(topic, partition).stuck = why

    def mark_lost(self, topic: str, partition: int, why: str, begin: int, stable: int) -> None:
        """Nothing of this partition counts as copied: its topic is not that of which records were copied."""
        part = self._part(topic, partition)
        part.lost, part.stuck = True, why
        part.begin = part.position = begin
        part.stable = stable
        part.records = part.size = 0

    def sample_lag(self, at: int, *, last: bool = False) -> None:
        """The lag in offsets, at a time in milliseconds since 1970, for the report's picture. When there are many, each
        second one goes, and from then on they are taken half as often. The `last` one is always taken."""
        if self.lag_history and at - self.lag_history[-1][0] < self._apart and not last:
            return
        self.lag_history.append((at, self.lag))
        if len(self.lag_history) > _MANY:
            del self.lag_history[1::2]
            self._apart *= 2

    # What is shown

    @property
    def stuck(self) -> dict[tuple[str, int], str]:
        """Why, for each partition that does not go on."""
        return {where: part.stuck for where, part in self.partitions.items() if part.stuck}

    @property
    def lag(self) -> int:
        return sum(part.lag for part in self.partitions.values())

    @property
    def done(self) -> bool:
        """Whether all that was there is copied."""
        return bool(self.partitions) and not self.lag and not self.stuck

    def deletion_forecast(self) -> dict[tuple[str, int], float]:
        """The partitions of which the source will delete what is not copied yet, and in how many seconds, if both go
        on as they did."""
        now = time.monotonic()
        coming = ((where, part.seconds_to_deletion(now)) for where, part in sorted(self.partitions.items()))
        return {where: seconds for where, seconds in coming if seconds is not None}

    def warnings(self) -> list[str]:
        """What is coming."""
        said = []
        for (topic, partition), seconds in self.deletion_forecast().items():
            if seconds < _NEAR:
                minutes = max(1, round(seconds / 60))
                said.append(
                    f"partition {partition} of {topic}: the source deletes records faster than they are copied, and"
                    f" reaches those that are not copied in about {minutes} min: raise its retention"
                )
        return said

    def topics(self) -> list[TopicProgress]:
        """By topic."""
        topics: dict[str, list[PartitionProgress]] = {}
        for (topic, partition), part in sorted(self.partitions.items()):
            if partition >= 0 or part.stuck:
                topics.setdefault(topic, []).append(part)
        return [self._line(topic, parts) for topic, parts in topics.items()]

    def total(self) -> TopicProgress:
        return self._line("all", list(self.partitions.values()))

    def _line(self, topic: str, parts: Iterable[PartitionProgress]) -> TopicProgress:
        parts = list(parts)
        whole = sum(part.stable - part.begin for part in parts if part.stable >= 0)
        done = sum(part.position - part.begin for part in parts if part.stable >= 0)
        lag = sum(part.lag for part in parts)
        rate = sum(map(_rate, parts))
        ahead = sum(part.lag * part.bytes_per_offset for part in parts)
        left = 0.0 if not lag else ahead / rate if rate else None
        stuck = [part.stuck for part in parts if part.stuck]
        return TopicProgress(
            topic,
            len(parts),
            _share(done, whole, stuck),
            sum(part.records for part in parts),
            sum(part.size for part in parts),
            lag,
            rate,
            left,
            stuck[0] if stuck else "",
        )


_NEARLY = 0.999
_NO_OFFSETS = "the source does not say which offsets it has: is its leader there?"


def _share(done: int, whole: int, stuck: Sequence[str]) -> float:
    """Never all while something is stuck."""
    if not whole:
        return 0.0 if stuck else 1.0
    return min(_NEARLY if stuck else 1.0, done / whole)


def _rate(part: PartitionProgress) -> float:
    """Bytes a second, of the last half minute."""
    if len(part.samples) < 2:
        return 0.0
    (since, _, first), (until, _, last) = part.samples[0], part.samples[-1]
    now = time.monotonic()
    return max(0.0, (last - first) / max(0.5, now - since)) if until > now - _WINDOW else 0.0
