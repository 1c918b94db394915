"""The verdict of a guard on a request. It is apart from the guard, which only sessions of switched clusters need."""

from __future__ import annotations

from enum import Enum, auto

LONGEST_REQUEST = 1024 * 1024
"""The most bytes of a request that are kept until it can be judged: a Fetch of 30,000 partitions."""


class GuardVerdict(Enum):
    """The verdict on a request. A guard may also answer the request: then the verdict is the answer."""

    PASS = auto()
    MORE = auto()
    """It cannot be judged before it has come whole."""
    HOLD = auto()
    """It waits, with what stands behind it; it is judged again when the guard calls for it."""
