"""Signals that the parent of the tests ignores, made effective for child processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_ignored_by_children(*numbers: signal.Signals) -> Iterator[None]:
    """Let children get those of these signals that this process ignores.

    A program inherits that a signal is ignored (by nohup, or in a background job of a script), but not a handler. So
    this process gets a handler that does nothing, and still ignores the signals. Only the main thread may do that.
    """
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
