"""The death of a driver in the process of a test, where a separate process would take too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kproxy.migrate.switch.drive import Drive
from kproxy.proxy.switching.participant import Command
from kproxy.proxy.switching.twophase import JournalDecision, Stage


class Died(BaseException):
    """The death of a driver, as by SIGKILL: no code of the driver catches it."""


@contextmanager
def dying(stage: Stage) -> Iterator[None]:
    """Let the driver end at this stage, without tidying up what kproxies or clusters would see.

    At RELEASE the decision is written.
    """
    request = Drive._request

    def die_or_request(self: Drive, name: str, command: Command | None) -> None:
        if self.coordinator.stage is stage and (command is not None or stage is Stage.WORK):
            raise Died
        request(self, name, command)

    with _replaced("_request", die_or_request):
        yield


@contextmanager
def dying_undecided() -> Iterator[None]:
    """Let the driver end when all kproxies have committed, before it writes the decision to release."""
    write = Drive._write

    def die_or_write(self: Drive, record: JournalDecision) -> bool:
        if record is JournalDecision.RELEASED:
            raise Died
        return write(self, record)

    with _replaced("_write", die_or_write):
        yield


@contextmanager
def _replaced(method: str, by: Callable[..., Any]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Drive, method, by)
        yield
