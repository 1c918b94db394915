"""Time limits that share one timer behave as those of `asyncio.timeout`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kproxy.proxy.cluster.timelimits import TimeLimits

# Longer than a test may take.
NEVER = 3600.0


async def test_it_ends_what_takes_longer_and_nothing_else() -> None:
    limits = TimeLimits()

    async def wait(seconds: float, event: asyncio.Event) -> str:
        try:
            with limits.after(seconds):
                await event.wait()
        except TimeoutError:
            return "late"
        return "in time"

    never, soon = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        longest = tasks.create_task(wait(NEVER, soon))
        # A shorter limit that begins later ends first.
        late = [tasks.create_task(wait(0.01 * number, never)) for number in (3, 1, 2)]
        assert [await task for task in late] == ["late"] * 3
        assert not longest.done()
        soon.set()
    assert longest.result() == "in time"


async def test_a_limit_that_was_kept_has_no_effect_later() -> None:
    limits = TimeLimits()
    with limits.after(0.01):
        pass
    with pytest.raises(TimeoutError), limits.after(0.02):
        await asyncio.Event().wait()
    with limits.after(0.01):
        await asyncio.sleep(0)
    await asyncio.sleep(0.02)  # the timer has run
    current = asyncio.current_task()
    assert current is not None
    assert not current.cancelling()


async def cancelled_from_outside(limits: TimeLimits) -> None:
    with limits.after(NEVER):
        await asyncio.Event().wait()


async def cancelled_when_its_time_is_over(limits: TimeLimits) -> None:
    task = asyncio.current_task()
    assert task is not None
    with limits.after(0.0):
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.Event().wait()


@pytest.mark.parametrize("scenario", [cancelled_from_outside, cancelled_when_its_time_is_over])
async def test_a_cancellation_stays_one(scenario: Callable[[TimeLimits], Awaitable[None]]) -> None:
    task = asyncio.get_running_loop().create_task(scenario(TimeLimits()))  # type: ignore[arg-type]  # a coroutine
    await asyncio.sleep(0)
    if scenario is cancelled_from_outside:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_passes_also_when_the_time_is_over() -> None:
    async def fail_late() -> None:
        with TimeLimits().after(0.0):
            try:
                await asyncio.Event().wait()
            finally:
                raise LookupError

    with pytest.raises(LookupError):
        await fail_late()


async def test_one_limit_in_another() -> None:
    limits = TimeLimits()
    with limits.after(NEVER), pytest.raises(TimeoutError), limits.after(0.01):
        await asyncio.Event().wait()
    with pytest.raises(TimeoutError), limits.after(0.01), limits.after(NEVER):
        await asyncio.Event().wait()
