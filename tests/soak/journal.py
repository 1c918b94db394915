"""What happened when, for whoever has to find out why a run failed."""

from __future__ import annotations

import threading
import time


class Journal:
    """Lines with the seconds since the beginning; any thread may add one. They go to stdout too, as they come."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.lines: list[str] = []

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def note(self, who: str, what: str) -> None:
        with self._lock:
            line = f"{self.seconds:8.2f}  {who:<10} {what}"
            self.lines.append(line)
        print(line, flush=True)  # noqa: T201  # pytest shows it if the test fails, and with -s at once
