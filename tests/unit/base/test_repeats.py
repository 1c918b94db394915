"""Lines of the log that peers can cause at will: one in a while, with the number of those left out."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kproxy.base import repeats
from kproxy.base.repeats import RepeatFilter, about


class Log:
    """What two handlers with one filter have written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(repeats.time, "monotonic", lambda: self.now)
        self.once = RepeatFilter()
        self.logger = logging.getLogger("kproxy.test_repeats")
        self.handlers = [_Keeping(), _Keeping()]
        for handler in self.handlers:
            handler.addFilter(self.once)
            logging.getLogger("kproxy").addHandler(handler)

    def refuse(self, host: str, port: int, reason: str = "not-kafka") -> None:
        self.logger.warning("refused %s:%d: %s", host, port, reason, extra=about(host, reason))

    @property
    def written(self) -> list[str]:
        first, second = self.handlers
        assert first.texts == second.texts
        texts, first.texts, second.texts = first.texts, [], []
        return texts


class _Keeping(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    made = Log(monkeypatch)
    yield made
    for handler in made.handlers:
        logging.getLogger("kproxy").removeHandler(handler)


def test_one_line_for_each_address_and_reason(log: Log) -> None:
    for port in range(5000):
        log.refuse("10.0.0.1", port)
        log.refuse("10.0.0.2", port)
    log.refuse("10.0.0.1", 1, "too-large")
    assert log.written == [
        "refused 10.0.0.1:0: not-kafka", "refused 10.0.0.2:0: not-kafka", "refused 10.0.0.1:1: too-large",
    ]  # fmt: skip


def test_the_next_line_has_the_number_of_those_left_out(log: Log) -> None:
    for port in range(5000):
        log.refuse("10.0.0.1", port)
    log.now += repeats.INTERVAL
    log.refuse("10.0.0.1", 5000)
    assert log.written == ["refused 10.0.0.1:0: not-kafka", "refused 10.0.0.1:5000: not-kafka (4999 times more since)"]
    log.now += repeats.INTERVAL
    log.refuse("10.0.0.1", 5001)
    assert log.written == ["refused 10.0.0.1:5001: not-kafka"]


def test_the_number_is_said_though_no_other_line_comes(log: Log) -> None:
    for port in range(5000):
        log.refuse("10.0.0.1", port)
    log.refuse("10.0.0.2", 1)
    for _ in range(3):
        log.logger.warning("the same")
    assert len(log.written) == 3
    log.once.write_suppressed()
    assert log.written == []
    log.now += repeats.INTERVAL
    log.once.write_suppressed()
    assert log.written == ["the same (1 times more since)", "refused 10.0.0.1:1: not-kafka (4998 times more since)"]
    log.refuse("10.0.0.1", 1)  # a moment after that line
    assert log.written == []
    log.once.write_suppressed(at_the_end=True)
    assert log.written == ["refused 10.0.0.1:1: not-kafka"]


def test_the_table_is_bounded(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MAX_REMEMBERED", 3)
    for number in range(100):
        log.refuse(f"10.0.0.{number}", 1)
    log.logger.warning("something else")
    assert log.written == [*(f"refused 10.0.0.{number}:1: not-kafka" for number in range(3)), "something else"]
    log.once.write_suppressed()
    assert log.written == ["97 lines about more than 3 others were left out"]
    log.now += repeats.INTERVAL
    log.once.write_suppressed()
    log.refuse("10.0.0.99", 1)
    assert log.written == ["refused 10.0.0.99:1: not-kafka"]


def test_lines_without_a_peer_are_told_apart_by_their_text(log: Log) -> None:
    log.logger.warning("a")
    log.logger.warning("b")
    log.logger.warning("a")
    assert log.written == ["a", "b"]
