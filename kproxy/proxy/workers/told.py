"""What workers are asked for now and then, and have told last."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, TypeVar

from kproxy.proxy.metrics import Metrics, Numbers
from kproxy.proxy.status.shown import SessionStatus
from kproxy.proxy.workers import messages
from kproxy.proxy.workers.here import MOST_SESSIONS

if TYPE_CHECKING:
    from kproxy.proxy.workers.member import Member

T = TypeVar("T")

# What is waited for a worker's answer, in seconds; what counts is then what it has told last.
_WITHIN = 2.0


class Told(Generic[T]):
    """The last answer of one worker."""

    def __init__(self, nothing: T) -> None:
        self.last = nothing
        self._come = asyncio.Event()

    def has_come(self, answer: T) -> None:
        self.last = answer
        self._come.set()

    def comes_no_more(self) -> None:
        """The worker has ended: nobody need wait."""
        self._come.set()

    def is_asked(self) -> None:
        self._come.clear()

    async def come(self) -> None:
        await self._come.wait()


async def metrics(workers: Sequence[Member], own: Metrics, ended: Numbers) -> Metrics:
    """The sums over these workers, this process, and those that are no more."""
    asked = [worker for worker in workers if worker.well]
    for worker in asked:
        worker.numbers.is_asked()
        worker.send(messages.Count())
    await _all([worker.numbers for worker in asked])
    sums = Numbers()
    for numbers in (own.numbers(), ended, *(worker.numbers.last for worker in workers)):
        sums.add(numbers)
    total = Metrics(sums)
    total.adopt_process(own)
    return total


async def sessions(workers: Sequence[Member]) -> Sequence[SessionStatus]:
    """The sessions of these workers, at most MOST_SESSIONS."""
    asked = [worker for worker in workers if worker.well]
    for worker in asked:
        worker.sessions.is_asked()
        worker.send(messages.Show())
    await _all([worker.sessions for worker in asked])
    return tuple(islice(chain.from_iterable(worker.sessions.last for worker in asked), MOST_SESSIONS))


async def _all(answers: Sequence[Told[T]]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_WITHIN):
            for answer in answers:
                await answer.come()
