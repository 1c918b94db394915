"""What the tests' processes do about signals that whoever started the tests ignores."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_ignored_by_children(*numbers: signal.Signals) -> Iterator[None]:
    """Of these signals, those that this process ignores act on the programs that it starts.

    A program inherits what is ignored (by nohup, or in a background job of a script), but not a handler. So this
    process gets one that does nothing, and goes on ignoring them. Only the main thread may do that.
    """
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
