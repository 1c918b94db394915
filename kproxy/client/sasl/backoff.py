"""The pauses between attempts that fail."""

from __future__ import annotations

import time

# Between two attempts, in seconds, doubled each time. Five attempts in the first 75 s, and then one every two minutes:
# a directory that locks accounts does so at five to ten in a quarter of an hour.
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 120.0


class Backoff:
    """A pause that doubles with each failure.

    `record_failure` and `record_success` note the result of an attempt; `is_waiting` is true while it is too early for
    another.
    """

    def __init__(self) -> None:
        self._pause = 0.0
        self._not_before = 0.0

    def record_failure(self) -> None:
        self._pause = min(self._pause * 2 or FIRST_PAUSE, LONGEST_PAUSE)
        self._not_before = time.monotonic() + self._pause

    def record_success(self) -> None:
        self._pause = self._not_before = 0.0

    @property
    def is_waiting(self) -> bool:
        return time.monotonic() < self._not_before
