"""The duration of each step of a final sync."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Protocol, TypeVar


@dataclass
class SyncTimings:
    """The duration of each step, in seconds, when it ran last."""

    drain: float = 0.0
    copy: float = 0.0
    verify: float = 0.0
    translate: float = 0.0

    @property
    def total(self) -> float:
        return self.drain + self.copy + self.verify + self.translate

    @contextmanager
    def measure(self, step: str) -> Iterator[None]:
        """Record how long a step takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            setattr(self, step, time.monotonic() - began)


class _Timed(Protocol):
    timings: SyncTimings


T = TypeVar("T", bound=_Timed)


def timed_step(step: Callable[[T, float], None]) -> Callable[[T, float], None]:
    """Return the method with a record of how long it takes; its name is that of a step."""

    @wraps(step)
    def run(sync: T, until: float) -> None:
        with sync.timings.measure(step.__name__):
            step(sync, until)

    return run
