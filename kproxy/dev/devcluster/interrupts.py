"""Equal handling of Ctrl-C, SIGTERM and a closed terminal, for commands that have processes to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and a closed terminal raise KeyboardInterrupt as Ctrl-C does; restore the handlers afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore_ctrl_c() -> None:
    """Ignore Ctrl-C from now on: a second one must not leave processes behind."""
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
