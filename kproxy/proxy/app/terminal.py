"""The terminal that this process was started on, and whether it still exists."""

from __future__ import annotations

import os


class Terminal:
    """The controlling terminal, if there was one at start."""

    def __init__(self) -> None:
        self._had_one = _has_one()

    @property
    def was_closed(self) -> bool:
        """True if it was closed. The system takes it away before it sends SIGHUP."""
        return self._had_one and not _has_one()


def _has_one() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
