"""How a driver takes the place of another one: asks it to leave, and for how long it waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from kproxy.migrate.copier.state import Job
from kproxy.migrate.journal import driver as control
from kproxy.migrate.journal.driver import LEAVE_KEY, CopyDriver

OTHER = {"host": "there", "pid": 7, "since": 1}


class Clusters:
    """A target whose state topic says of the driver what `said` gives, one after the other; its time passes by waiting."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.asked = 0.0, list[Any]()
        self._said: Iterator[dict[str, Any]] = iter(())
        patch.setattr(control, "time", Mock(monotonic=lambda: self.now, sleep=self._sleep, time_ns=lambda: 5_000_000))
        patch.setattr(control, "read_value", lambda *_: json.dumps(next(self._said)).encode())
        patch.setattr(control, "retry", lambda cluster, call, seconds: call())
        patch.setattr(control, "write_once", lambda target, name, records, what: self.asked.append((target, records)))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def succeed(self, said: Callable[[float], dict[str, Any]], seconds: float = 40.0) -> float:
        """Take the place of a driver of which this is said at a time; how long that took."""

        def saying() -> Iterator[dict[str, Any]]:
            while True:
                yield said(self.now)

        self._said, self.now = saying(), 0.0
        CopyDriver(Mock(), Job("move", 4)).request_handover("target", seconds)
        return self.now


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    return Clusters(monkeypatch)


def test_one_that_copies_is_asked_and_waited_for(clusters: Clusters) -> None:
    took = clusters.succeed(lambda now: {**OTHER, "beat": int(now / 3), "ended": now >= 20})
    assert 20 <= took <= 21
    assert clusters.asked == [("target", {LEAVE_KEY: {"v": 1, **OTHER}})]


@pytest.mark.parametrize("said", [{}, {**OTHER, "ended": True}, {"host": "there"}])
def test_nobody_copies(clusters: Clusters, said: dict[str, Any]) -> None:
    assert clusters.succeed(lambda _: said) == 0
    assert clusters.asked == []


def test_one_that_was_killed_is_not_waited_for_long(clusters: Clusters) -> None:
    assert clusters.succeed(lambda _: {**OTHER, "beat": 3}) <= 10


def test_one_that_does_not_leave(clusters: Clusters) -> None:
    assert 40 <= clusters.succeed(lambda now: {**OTHER, "beat": int(now)}) <= 41


def test_a_third_one_has_come(clusters: Clusters) -> None:
    assert clusters.succeed(lambda now: {**OTHER, "pid": 7 if now < 4 else 8, "beat": int(now)}) <= 5


def test_who_is_asked_to_leave() -> None:
    driver = CopyDriver(Mock(), Job("move", 4))
    host, pid, since = driver._own_identity
    assert driver.is_leave_request(json.dumps({"v": 1, "host": host, "pid": pid, "since": since}).encode())
    others: list[Any] = [{"host": host, "pid": pid, "since": 1}, {"host": host}, [], None, 5, "x"]
    for other in others:
        assert not driver.is_leave_request(json.dumps(other).encode())
    for nonsense in (None, b"", b"{", b"\xff"):
        assert not driver.is_leave_request(nonsense)
