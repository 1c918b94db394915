"""Whether the copy reaches records before the source may delete them."""

from __future__ import annotations

import pytest

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.copy import progress as progress_module
from kproxy.migrate.copy import retention as module
from kproxy.migrate.copy.progress import CopyProgress
from kproxy.migrate.copy.retention import RetentionWatch, retention_of, seconds_until_due
from kproxy.migrate.copy.rounds import PartitionBacklog
from kproxy.migrate.report.status import MigrationStatus, status_lines

HOUR = 3600.0
DUE = ((HOUR, 1000), (2 * HOUR, 3000), (4 * HOUR, 9000))
WHERE = ("t", 0)


@pytest.mark.parametrize(
    ("position", "rate", "seconds"),
    [
        (0, 0.0, HOUR),  # 1000 records may be deleted within the hour
        (2000, 0.0, 1.5 * HOUR),
        (2000, 1.0, None),  # at 1 a second, 2000 + 14,400 after four hours
        (2000, 0.25, 2 * HOUR + 800 / 2100 * 2 * HOUR * 1.0),  # 800 ahead after two hours, 3400 behind after four
        (9000, 0.0, None),
    ],
)
def test_when_retention_reaches_the_copy(position: int, rate: float, seconds: float | None) -> None:
    found = seconds_until_due(DUE, position, rate, 0.0)
    if seconds is None:
        assert found is None
    elif rate == 0.25:
        assert found is not None
        assert 2 * HOUR < found < 4 * HOUR
    else:
        assert found == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("configs", "retention"),
    [
        ({"cleanup.policy": "delete", "retention.ms": "604800000"}, 604_800_000),
        ({"cleanup.policy": "compact,delete", "retention.ms": "5"}, 5),
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, None),
        ({"cleanup.policy": "compact", "retention.ms": "5"}, None),
        ({"cleanup.policy": "delete", "retention.ms": "soon"}, None),
        ({}, None),
    ],
)
def test_retention_by_time(configs: dict[str, str], retention: int | None) -> None:
    assert retention_of(configs) == retention


class Source(ClusterClient):
    """A source whose record at offset n has the timestamp n seconds."""

    def __init__(self, end: int) -> None:
        self.end, self.asked = end, 0

    def list_offsets(self, partitions: object, which: int, *, committed: bool = True) -> dict[TopicPartition, int]:
        self.asked += 1
        offset = -(-which // 1000)
        return {WHERE: offset if offset < self.end else -1}


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int((1_000_000 + self.now) * 1e9)


def test_the_source_is_asked_for_moments_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, source = Clock(), Source(1_000_000)
    clock.now = 7.0
    monkeypatch.setattr(module, "time", clock)
    watch = RetentionWatch({"t": 200_000_000})
    due = watch.read_if_due(source, {WHERE: 1_000_000})
    assert due is not None
    assert due[WHERE][:2] == ((7.0 + HOUR, 800_007 + 3600), (7.0 + 2 * HOUR, 800_007 + 7200))
    asked = source.asked
    assert watch.read_if_due(source, {WHERE: 1_000_000}) is None
    clock.now += 301
    assert watch.read_if_due(source, {WHERE: 1_000_000}) is not None
    assert source.asked == 2 * asked
    assert RetentionWatch({}).read_if_due(source, {WHERE: 5}) is None


def test_all_records_are_due_if_none_is_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", Clock())
    due = RetentionWatch({"t": 1000}).read_if_due(Source(5), {WHERE: 5})
    assert due is not None
    assert {offset for _, offset in due[WHERE]} == {5}


def state(offset: int) -> PartitionState:
    return PartitionState("t", 0, offset, offset, offset, offset)


def test_the_warning_comes_hours_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 offsets a second are copied, and 5 times as many become too old from the fourth hour on."""
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    progress = CopyProgress("move")
    progress.start_round(PartitionBacklog("t", 0, 0, 100_000_000, 1.0), state(0), 0)
    progress.set_due_offsets({WHERE: ((HOUR, 0), (4 * HOUR, 1_000_000), (8 * HOUR, 10_000_000))})
    clock.now = 10.0
    progress.apply_states({WHERE: state(1000)})
    assert progress.warnings() == [], "ten seconds say nothing of hours"
    clock.now = 100.0
    progress.apply_states({WHERE: state(10_000)})
    (warning,) = progress.warnings()
    assert warning.startswith("partition 0 of t: the source deletes records faster than they are copied")
    assert warning.endswith("not copied in about 4 h: raise its retention")
    clock.now = 200.0
    progress.apply_states({WHERE: state(200_000)})
    assert progress.warnings() == []


def test_a_partition_that_waits_for_its_turn_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the copy is done within two hours, and retention reaches the second partition in four."""
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    progress = CopyProgress("move")
    for partition in (0, 1):
        progress.start_round(PartitionBacklog("t", partition, 0, 36_000, 1.0), state(0), 0)
    progress.set_due_offsets({("t", 1): ((2 * HOUR, 0), (4 * HOUR, 36_000))})
    for now in range(60, 600, 10):
        clock.now = float(now)
        progress.apply_states({WHERE: state(now * 10)})
    assert progress.warnings() == []


@pytest.mark.parametrize(
    ("deletions", "lines"),
    [
        ([["orders", 3, 18000]], ["  warning: partition 3 of orders: the source deletes records faster than they are"]),
        ([["orders"], 7, None, ["a", "b", "c"]], []),
        ("nonsense", []),
    ],
)
def test_the_status_says_what_the_driver_expects(deletions: object, lines: list[str]) -> None:
    driver = {"pid": 1, "host": "h", "deletions": deletions}
    shown = list(status_lines(MigrationStatus("move", {}, {}, (), driver, False)))[1:]
    assert [line[: len(lines[0])] for line in shown] == lines if lines else shown == []
    ended = {**driver, "ended": True}
    assert list(status_lines(MigrationStatus("move", {}, {}, (), ended, False)))[1:] == []
