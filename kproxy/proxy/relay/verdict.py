"""What a guard says of a request. Apart from the guard itself, which only sessions of switched clusters need."""

from __future__ import annotations

from enum import Enum, auto

LONGEST_REQUEST = 1024 * 1024
"""Bytes of a request that are kept until it can be judged whole: a Fetch of 30,000 partitions."""


class GuardVerdict(Enum):
    """What becomes of a request. It may also be answered: then the verdict is the answer."""

    PASS = auto()
    MORE = auto()
    """It cannot be judged before it has come whole."""
    HOLD = auto()
    """It waits, and what stands behind it; it is judged again when the guard says so."""
