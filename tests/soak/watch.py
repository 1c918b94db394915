"""What must hold all the time, looked at again and again. The first thing that does not ends the run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import monotonic

Look = Callable[[], Sequence[str]]
"""What is wrong now, in words."""

_EVERY = 0.5  # seconds
_MOST = 20


class Watch:
    """`often` is cheap, `seldom` asks brokers."""

    def __init__(self, often: Sequence[Look], seldom: Sequence[Look], seldom_every: float) -> None:
        self._often = often
        self._seldom = seldom
        self._seldom_every = seldom_every

    def check(self) -> None:
        """Look at everything. Raises AssertionError."""
        _raise(self._often)
        _raise(self._seldom)

    def over(self, seconds: float) -> None:
        """Look for so long. Raises AssertionError."""
        pause = threading.Event()
        end = monotonic() + seconds
        seldom = monotonic() + self._seldom_every
        while (left := end - monotonic()) > 0:
            _raise(self._often)
            if monotonic() >= seldom:
                _raise(self._seldom)
                seldom = monotonic() + self._seldom_every
            pause.wait(min(_EVERY, left))
        self.check()


def _raise(looks: Sequence[Look]) -> None:
    problems = [problem for look in looks for problem in look()]
    assert not problems, "\n".join(problems[:_MOST])
