"""How many clients are on their way at once, and in which order the others follow."""

from __future__ import annotations

import asyncio

import pytest

from kproxy.base.errors import UpstreamError
from kproxy.proxy.cluster import dialqueue as room
from kproxy.proxy.cluster.dialqueue import DialQueue, DialSlot

LOST = UpstreamError("refused", "nobody listens")


@pytest.fixture(autouse=True)
def a_quarter_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_PART", 4)


async def taken(turns: DialQueue, node: str) -> DialSlot:
    turn = await turns.acquire(node)
    assert isinstance(turn, DialSlot)
    return turn


async def begun(turns: DialQueue, node: str) -> asyncio.Task[DialSlot | UpstreamError]:
    task = asyncio.get_running_loop().create_task(turns.acquire(node))
    await asyncio.sleep(0)
    return task


async def test_no_more_at_once_than_allowed_and_a_part_for_each_node() -> None:
    turns = DialQueue(8)
    first = [await taken(turns, node) for node in ("a", "a", "b", "b")]
    waits = [await begun(turns, "a") for _ in range(2)]
    assert not any(task.done() for task in waits)
    others = [await taken(turns, node) for node in ("c", "c", "d", "d")]
    last = await begun(turns, "e")
    assert (turns.in_use, last.done()) == (8, False)
    first[0].release()
    first[0].release()  # twice is once
    await asyncio.sleep(0)
    assert [task.done() for task in waits] == [True, False]
    others[0].release()
    await asyncio.sleep(0)
    assert last.done()
    assert turns.in_use == 8
    for task in waits:
        if not task.done():
            task.cancel()


async def test_one_finds_out_for_all() -> None:
    turns = DialQueue(40)
    first = [await taken(turns, "a") for _ in range(10)]
    waits = [await begun(turns, "a") for _ in range(100)]
    turns.note_unreachable("a", LOST)
    assert await asyncio.gather(*waits) == [LOST] * 100
    for turn in first:
        turn.release()
    probe, more = await taken(turns, "a"), [await begun(turns, "a") for _ in range(5)]
    await taken(turns, "b")
    assert not any(task.done() for task in more), "one tries it"
    probe.release()
    await asyncio.sleep(0)
    assert [task.done() for task in more] == [True, False, False, False, False]
    turns.note_reached("a")
    await asyncio.sleep(0)
    assert all(task.done() for task in more)


async def test_who_goes_while_he_waits_takes_no_turn() -> None:
    turns = DialQueue(4)
    first = await taken(turns, "a")
    gone, later = await begun(turns, "a"), await begun(turns, "a")
    gone.cancel()
    await asyncio.wait([gone])
    first.release()
    gone_with_it = await begun(turns, "a")
    second = await later
    assert isinstance(second, DialSlot)
    second.release()  # given to one that is cancelled before it knows
    gone_with_it.cancel()
    await asyncio.wait([gone_with_it])
    assert (await taken(turns, "a"), turns.in_use)[1] == 1


async def test_nodes_for_ever_leave_nothing() -> None:
    turns = DialQueue(4)
    for number in range(5000):
        (await taken(turns, str(number))).release()
        turns.note_unreachable(str(number), LOST)
    assert turns.in_use == 0
    assert len(turns._unreachable) <= 1000
    assert not turns._in_use_by_node
    assert not turns._waiting
