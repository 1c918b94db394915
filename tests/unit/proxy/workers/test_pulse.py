"""Silence in turns, and the pauses between starts."""

from __future__ import annotations

import asyncio
import time

import pytest

from kproxy.proxy.workers import pulse
from kproxy.proxy.workers.pulse import Pauses, Pulse, turns


def test_silence_is_counted_from_the_first_ping_without_an_answer() -> None:
    pings: list[int] = []
    other = Pulse(lambda: pings.append(1))
    assert [other.turn(True) for _ in range(4)] == [False, True, True, True]
    assert len(pings) == 1, "one ping at a time"
    assert other.silent == 3
    assert other.heard() == 3
    assert other.silent == 0
    assert not other.turn(True)
    assert len(pings) == 2


def test_a_turn_that_came_late_is_nobodys_silence() -> None:
    other = Pulse(lambda: None)
    other.turn(True)
    assert [other.turn(in_time) for in_time in (False, False, True)] == [False, False, True]
    assert other.silent == 1


async def test_a_turn_is_late_if_this_process_did_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "TURN", 0.05)
    each = turns()
    asyncio.get_running_loop().call_soon(time.sleep, 0.3)  # as if stopped
    assert not await anext(each)
    await each.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_pauses_grow_to_a_limit_and_end_after_a_long_life(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(round(seconds))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    pauses = Pauses()
    for _ in range(8):
        pauses.begin()
        await pauses.wait()
    assert waited == [1, 2, 4, 8, 16, 30, 30, 30]
    pauses._began -= 3600  # it has lived for an hour
    await pauses.wait()
    assert waited[-1] == 0
    pauses.begin()
    await pauses.wait()
    assert waited[-1] == 2
