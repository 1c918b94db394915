"""Task groups in which a failed task does not end the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from contextvars import Context
from types import TracebackType
from typing import Any, TypeVar

from kproxy.base.printable import one_line

T = TypeVar("T")

# The longest text of an error, in characters.
_LONGEST = 1000

log = logging.getLogger(__name__)


class SupervisedTaskGroup(asyncio.TaskGroup):
    """A task group in which a failed task is logged, as a defect of kproxy, and the others continue.

    Code that awaits the task sees its error too. Tasks that still run at the end are cancelled. `owner` names what the
    tasks belong to, for the log.
    """

    def __init__(self, owner: str) -> None:
        super().__init__()
        self._owner = owner
        self._running: set[asyncio.Task[Any]] = set()

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        # Not as the group does it, which ends all its tasks with the first one that fails.
        task = asyncio.get_running_loop().create_task(coro, name=name, context=context)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("defect in %s, please report it: %s", self._owner, error_summary(error), exc_info=error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # No task is left for the group's own exit, which would wrap `error`.
        while self._running:
            for task in self._running:
                task.cancel()
            await asyncio.wait(self._running)


def error_summary(error: BaseException) -> str:
    """Return an unforeseen error as its kind and its text; of a group, the first error's."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return one_line(f"{type(error).__name__}: {error}", _LONGEST)
