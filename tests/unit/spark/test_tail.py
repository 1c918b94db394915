"""What kproxy and its keeper warn of, as others read it from their log."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from kproxy.app import logs
from kproxy.spark.tail import Tail, line


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_what_kproxy_logs_is_read(log: Path) -> None:
    """Against the real log, so both agree on the form of a line."""
    tail = Tail(log)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        with log.open("w") as file:
            logs.set_up("text", "debug", file)
            logging.getLogger("kproxy.test").info("not this")
            logging.getLogger("kproxy.test").warning("broker %d: NOT reachable", 1)
            try:
                raise ValueError("a defect")
            except ValueError:
                logging.getLogger("kproxy.test").exception("defect")
            file.flush()
            assert tail.look() == [(logging.WARNING, "broker 1: NOT reachable"), (logging.ERROR, "defect")]
            assert tail.look() == []
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def test_a_line_is_read_when_it_is_whole(log: Path) -> None:
    tail = Tail(log)
    assert tail.look() == []  # there is no log yet
    text = line("WARNING", "größer")
    for part in text[:-1]:
        append(log, part)
        assert tail.look() == []
    append(log, "\n" + line("ERROR", "two"))
    assert tail.look() == [(logging.WARNING, "größer"), (logging.ERROR, "two")]


def test_what_stood_there_before_is_not_new(log: Path) -> None:
    append(log, line("WARNING", "old"))
    tail = Tail(log, from_end=True)
    append(log, line("WARNING", "new"))
    assert tail.look() == [(logging.WARNING, "new")]


def test_a_log_that_is_emptied_or_replaced_is_read_from_its_beginning(log: Path) -> None:
    append(log, line("WARNING", "a rather long line that was there at first"))
    tail = Tail(log)
    assert len(tail.look()) == 1
    os.truncate(log, 0)
    append(log, line("WARNING", "emptied"))
    assert tail.look() == [(logging.WARNING, "emptied")]
    log.rename(log.with_suffix(".old"))  # so that the new file has another number
    append(log, line("WARNING", "another log, and one that is longer than the last"))
    assert [message for _, message in tail.look()] == ["another log, and one that is longer than the last"]


def test_a_line_without_end_costs_no_memory(log: Path) -> None:
    tail = Tail(log)
    for _ in range(20):
        append(log, "x" * 50_000)
        assert tail.look() == []
        assert len(tail._rest) < 1 << 17
    append(log, "\n" + line("WARNING", "after it"))
    said = [message for _ in range(30) for _, message in tail.look()]
    assert said == ["after it"]
