"""The log of kproxy and its keeper, and what others read from it."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from kproxy.proxy.app import logs
from kproxy.spark.logtail import HostLog, LogLine, LogTail, follow_log, format_line, read_position

# The log is emptied when it is longer, in bytes: if nobody writes to it, and in any case.
LONG, TOO_LONG = 4 << 20, 8 << 20


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """As a keeper makes it."""
    HostLog(tmp_path / "log")
    return tmp_path / "log"


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def said(tail: LogTail) -> list[tuple[int, str]]:
    return [(new.level, new.message) for new in tail.look()]


def test_what_kproxy_logs_is_read(log: Path) -> None:
    """Against the real log, so both agree on the form of a line."""
    tail = LogTail(log)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        with log.open("a") as file:
            logs.set_up("text", "debug", file)
            logging.getLogger("kproxy.test").info("not this")
            logging.getLogger("kproxy.test").warning("broker %d: cannot be reached", 1)
            try:
                raise ValueError("a defect")
            except ValueError:
                logging.getLogger("kproxy.test").exception("defect")
            file.flush()
            assert said(tail) == [(logging.WARNING, "broker 1: cannot be reached"), (logging.ERROR, "defect")]
            assert tail.look() == []
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def test_a_line_is_read_when_it_is_whole(log: Path) -> None:
    log.unlink()
    tail = LogTail(log)
    assert tail.look() == []  # there is no log yet
    log.touch()
    assert tail.look() == []  # it is just being made
    HostLog(log)
    text = format_line("WARNING", "größer")
    for part in text[:-1]:
        append(log, part)
        assert tail.look() == []
    append(log, "\n" + format_line("ERROR", "two"))
    assert said(tail) == [(logging.WARNING, "größer"), (logging.ERROR, "two")]


def test_what_stood_there_before_is_not_new(log: Path) -> None:
    append(log, format_line("WARNING", "old"))
    tail = LogTail(log, from_end=True)
    append(log, format_line("WARNING", "new"))
    assert said(tail) == [(logging.WARNING, "new")]


def test_a_log_that_is_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    """Even if it is longer by then than it was before."""
    kept = HostLog(tmp_path / "log")
    tail = LogTail(tmp_path / "log")
    with os.fdopen(kept.to_append(), "w") as kproxy:
        for turn in range(3):
            kproxy.write(format_line("WARNING", f"turn {turn}"))
            kproxy.flush()
            kept.empty_if_long()  # it is not
            assert [new.message for new in tail.look()] == [f"turn {turn}"]
            os.truncate(tmp_path / "log", TOO_LONG + 1)
            before = read_position(tmp_path / "log")
            kept.empty_if_long()
            assert read_position(tmp_path / "log") == (read_position(tmp_path / "log")[0], len(f"# {before[0]}\n"))
            assert read_position(tmp_path / "log")[0] != before[0]
            kproxy.write("not a warning\n" * 100)


def test_a_long_log_is_emptied_when_it_was_read(log: Path) -> None:
    """Those who read it look every second."""
    kept = HostLog(log)
    os.truncate(log, LONG + 1)
    in_future = log.stat().st_mtime + 3600
    os.utime(log, (in_future, in_future))
    kept.empty_if_long()
    assert log.stat().st_size == LONG + 1
    os.utime(log, (0, 0))
    kept.empty_if_long()
    assert log.stat().st_size < LONG


def test_a_log_that_is_just_being_emptied_is_left_alone(log: Path) -> None:
    """Its lines are gone and its mark is still the old one, or the other way round."""
    append(log, format_line("WARNING", "old"))
    tail = LogTail(log)
    assert len(tail.look()) == 1
    mark, _ = read_position(log)
    os.truncate(log, len(f"# {mark}\n"))
    assert tail.look() == []
    log.write_text(f"# {mark[::-1]}\n")
    append(log, format_line("WARNING", "new"))
    assert [new.message for new in tail.look()] == ["new"]


def test_a_log_that_is_replaced_is_read_from_its_beginning(log: Path) -> None:
    """By the next keeper; a kproxy of the one before may write to the end of its own."""
    append(log, format_line("WARNING", "of the first"))
    tail = LogTail(log)
    assert len(tail.look()) == 1
    with log.open("a") as late:
        HostLog(log)
        late.write(format_line("WARNING", "late"))
    append(log, format_line("WARNING", "of the second"))
    assert [new.message for new in tail.look()] == ["of the second"]


def test_a_line_without_end_costs_no_memory(log: Path) -> None:
    tail = LogTail(log)
    for _ in range(20):
        append(log, "x" * 50_000)
        assert tail.look() == []
        assert len(tail._partial) < 1 << 17
    append(log, "\n" + format_line("WARNING", "after it"))
    said = [new.message for _ in range(30) for new in tail.look()]
    assert said == ["after it"]


def test_each_line_says_where_it_ends(log: Path) -> None:
    """So those who read the same log know which lines they have both read."""
    tail = LogTail(log)
    texts = [format_line("WARNING", "größer"), format_line("INFO", "not this"), format_line("ERROR", "two")]
    append(log, "".join(texts) + "half a li")
    marked, size = read_position(log)
    ends = [size - len(f"{rest}half a li".encode()) for rest in ("".join(texts[1:]), "")]
    assert tail.look() == [
        LogLine(logging.WARNING, "größer", marked, ends[0]), LogLine(logging.ERROR, "two", marked, ends[1])
    ]  # fmt: skip
    assert tail.position == (marked, ends[1])
    append(log, "ne\n" + format_line("ERROR", "three"))
    assert tail.look() == [LogLine(logging.ERROR, "three", *read_position(log))]
    assert tail.position == read_position(log)


def test_what_is_said_meanwhile_is_passed_on(log: Path) -> None:
    """Also what is said last, and if what was waited for fails."""
    heard: list[str] = []
    soon = threading.Event()

    def hear(new: LogLine) -> None:
        heard.append(new.message)
        soon.set()

    def wait() -> None:
        append(log, format_line("WARNING", "first"))
        assert soon.wait(30)
        append(log, format_line("WARNING", "last"))
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"), follow_log(LogTail(log), hear):
        wait()
    assert heard == ["first", "last"]
