"""How a keeper is started, whatever it does then."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.process import start_time
from kproxy.spark import host
from kproxy.spark.host import HostConfig, Lease, join

LONG = "x" * 300_000  # no pipe takes that at once


class Keeper:
    """A program in the place of Python: it writes down its own number, and does what the test wants."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._program, self._number, self.read = directory / "keeper", directory / "number", directory / "read"
        monkeypatch.setattr(host, "_python", lambda: str(self._program))
        monkeypatch.setattr(host, "_request", lambda listen, request: None)

    def does(self, *lines: str) -> None:
        self._program.write_text("\n".join(["#!/bin/sh", f"echo $$ > {self._number}", *lines]))
        self._program.chmod(0o700)

    @property
    def lives(self) -> bool:
        return start_time(int(self._number.read_text())) is not None


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    return Keeper(tmp_path, monkeypatch)


@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_it_is_told_everything_however_often_it_was_waited_for(
    keeper: Keeper, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_POLL_INTERVAL", pause)
    keeper.does("sleep 0.3", f"cat > {keeper.read}")
    shipped = HostConfig("127.0.0.1:1", LONG)
    host._start(shipped, "attempt", lambda: False)
    assert json.loads(keeper.read.read_text())["text"] == LONG


def test_one_that_ends_without_having_listened(keeper: Keeper) -> None:
    keeper.does("exec <&-", "echo 'kproxy: no' >&2", "exit 1")
    with pytest.raises(ConfigError, match=r": kproxy cannot be started: kproxy: no$"):
        host._start(HostConfig("127.0.0.1:1", LONG), "attempt", lambda: False)


def test_one_that_never_begins_is_ended_when_the_time_is_over(keeper: Keeper) -> None:
    keeper.does("exec sleep 1000")
    with pytest.raises(UpstreamError, match=r"not ready after 0\.5 s: its keeper does not answer"):
        join(HostConfig("127.0.0.1:1", LONG), Lease.of(1), timeout=0.5)
    assert not keeper.lives


def test_one_that_nobody_wants_any_more(keeper: Keeper) -> None:
    keeper.does("exec sleep 1000")
    until = time.monotonic() + 0.3
    with pytest.raises(UpstreamError, match="not wanted any more"):
        join(HostConfig("127.0.0.1:1", LONG), Lease.of(1), is_abandoned=lambda: time.monotonic() > until)
    assert not keeper.lives
