"""Calls beside the event loop: values, errors, and what never ends."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kproxy.client.sasl.blockingcalls import BlockingCalls


def failing() -> None:
    raise ValueError("no")


async def test_values_and_errors() -> None:
    beside = BlockingCalls()
    assert await beside.run(60, divmod, 7, 2) == (3, 1)
    with pytest.raises(ValueError, match="no"):
        await beside.run(60, failing)


async def test_what_never_ends_is_given_up_and_keeps_its_place() -> None:
    let_go, began = threading.Event(), threading.Semaphore(0)

    def hangs() -> None:
        began.release()
        let_go.wait(60)

    beside = BlockingCalls(2)
    for _ in range(3):  # the third one does not even begin
        with pytest.raises(TimeoutError):
            await beside.run(0.05, hangs)
    assert began.acquire(timeout=60)
    assert began.acquire(timeout=60)
    assert not began.acquire(blocking=False)
    assert await BlockingCalls().run(60, divmod, 7, 2) == (3, 1)  # another cluster's
    let_go.set()
    assert await beside.run(60, divmod, 7, 2) == (3, 1)


async def test_its_threads_hold_up_nobody() -> None:
    let_go = threading.Event()
    async with asyncio.TaskGroup() as tasks:
        began = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hangs() -> bool:
            loop.call_soon_threadsafe(began.set)
            return threading.current_thread().daemon and let_go.wait(60)

        task = tasks.create_task(BlockingCalls().run(60, hangs))
        await began.wait()
        task.cancel()  # the group does not wait for the thread
    let_go.set()
