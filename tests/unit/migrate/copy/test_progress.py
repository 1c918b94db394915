from __future__ import annotations

import io

import pytest

from kproxy.migrate.copier.state import PartitionState, SliceResult
from kproxy.migrate.copy import progress as module
from kproxy.migrate.copy.display import batches_line, display_progress, message_lines, summary_line
from kproxy.migrate.copy.progress import CopyProgress
from kproxy.migrate.copy.rounds import PartitionBacklog


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def state(next_offset: int, records: int, size: int) -> PartitionState:
    return PartitionState("t", 0, next_offset, next_offset, records, size)


def test_a_copy_from_begin_to_end(clock: Clock) -> None:
    progress = CopyProgress("move")
    progress.start_round(PartitionBacklog("t", 0, 0, 1000, 100.0), None, 0)
    assert (progress.lag, progress.done) == (1000, False)
    clock.now += 10
    progress.apply_states({("t", 0): state(500, 500, 50_000)})
    (line,) = progress.topics()
    assert (line.done_share, line.lag, line.records, line.rate, line.seconds_left) == (0.5, 500, 500, 5000.0, 10.0)
    clock.now += 10
    progress.apply_result(SliceResult("t", 0, state(1000, 1000, 100_000), stable=1000))
    assert progress.done
    assert "100.0% of 1 partition, 1,000 records" in summary_line(progress)


def test_how_batches_were_written() -> None:
    progress = CopyProgress("move")
    for ways in ({"verbatim": 1200, "merged": 7}, {"verbatim": 34}):
        progress.apply_result(SliceResult("t", 0, state(10, 10, 10), batch_counts=ways))
    assert batches_line(progress) == "batches written: 7 merged, 1,234 verbatim"


def test_the_last_lag_is_remembered(clock: Clock) -> None:
    """However soon it comes after the one before: it is what a report says of the end."""
    progress = CopyProgress("move")
    progress.start_round(PartitionBacklog("t", 0, 0, 1000, 1.0), None, 0)
    progress.sample_lag(5000)
    progress.apply_result(SliceResult("t", 0, state(1000, 1000, 1000), stable=1000))
    progress.sample_lag(5001)
    assert progress.lag_history == [(5000, 1000)]
    progress.sample_lag(5001, last=True)
    assert progress.lag_history == [(5000, 1000), (5001, 0)]


def test_what_is_stuck(clock: Clock) -> None:
    progress = CopyProgress("move")
    for partition in range(3):
        progress.start_round(PartitionBacklog("t", partition, 0, 10, 1.0), None, 0)
        progress.apply_result(SliceResult("t", partition, None, stuck="why", is_final=True))
    assert list(message_lines(progress)) == ["stuck: why (and 2 more partitions)"]
    assert not progress.done
    assert progress.topics()[0].stuck == "why"
    progress.apply_result(SliceResult("t", 0, state(10, 10, 10), stable=10))
    assert sorted(progress.stuck) == [("t", 1), ("t", 2)]


def test_what_the_source_did_not_say_for_a_while(clock: Clock) -> None:
    """A leader or a topic that comes back is nothing that is stuck, although there is no record to copy."""
    progress = CopyProgress("move")
    progress.mark_without_offsets("t", 0, "is its leader there?")
    progress.mark_without_offsets("u", -1, "the source does not have topic u now")
    assert sorted(progress.stuck) == [("t", 0), ("u", -1)]
    progress.forget_missing_topic("u")
    progress.start_round(PartitionBacklog("t", 0, 10, 10, 1.0), state(10, 10, 10), 0)
    assert progress.done


def test_an_application_that_deletes_what_it_has_read_is_no_retention(clock: Clock) -> None:
    """Kafka Streams does so in its repartition topics."""
    progress = CopyProgress("move", {"app-repartition"})
    for deleted in (0, 1000):
        for topic in ("app-repartition", "t"):
            progress.start_round(PartitionBacklog(topic, 0, 6300, 100_000, 1.0), state(6300, 6300, 6300), deleted)
        clock.now += 10
    assert list(progress.deletion_forecast()) == [("t", 0)]


def test_retention_that_comes_near(clock: Clock) -> None:
    """The source deletes 100 offsets a second, the copy takes 10: they are 5,400 apart after ten seconds."""
    progress = CopyProgress("move")
    progress.start_round(PartitionBacklog("t", 0, 6300, 100_000, 1.0), state(6300, 6300, 6300), 0)
    assert progress.warnings() == []
    clock.now += 10
    progress.start_round(PartitionBacklog("t", 0, 6400, 100_000, 1.0), state(6400, 6400, 6400), 1000)
    (said,) = progress.warnings()
    assert "in about 1 min" in said  # 5400 / 90 a second
    clock.now += 10
    progress.start_round(PartitionBacklog("t", 0, 100_000, 100_000, 1.0), state(100_000, 1, 1), 2000)
    assert progress.warnings() == []


def test_lines_where_there_is_no_terminal(clock: Clock) -> None:
    progress, log = CopyProgress("move"), io.StringIO()
    progress.apply_result(SliceResult("t\x1b[2J", 0, None, stuck="bad\x1b[2J", is_final=True))
    with display_progress(log) as shown:
        shown(progress)
        shown(progress)
    assert log.getvalue().count("stuck:") == 1
    assert "\x1b" not in log.getvalue()


def test_a_terminal_of_80_columns(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "80")
    progress, terminal = CopyProgress("move"), Terminal()
    for topic in ("orders-with-a-very-long-name-that-goes-on-and-on-and-on", "b"):
        progress.start_round(PartitionBacklog(topic, 0, 0, 10**12, 100.0), None, 0)
    with display_progress(terminal) as shown:
        shown(progress)
    said = terminal.getvalue()
    assert "topic" in said
    assert "1,000,000,000,000" in said
