"""Retries with backoff, for errors that end: leaders move, coordinators load, brokers start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import BrokerError

T = TypeVar("T")

# Between two attempts, in seconds.
_MIN_PAUSE, _MAX_PAUSE = 0.1, 3.0


def is_retriable(error: KproxyError) -> bool:
    """Return True if another attempt may succeed."""
    if isinstance(error, BrokerError):
        return error.is_retriable
    return isinstance(error, UpstreamError)


def backoff() -> Iterator[float]:
    """Yield the pause before each further attempt, in seconds."""
    pause = _MIN_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _MAX_PAUSE)


def retry(cluster: ClusterClient, call: Callable[[], T], seconds: float) -> T:
    """Return the result of `call`, retried for at most `seconds`.

    Raises the last error of `call` if it is not retriable, or if the time is over.
    """
    deadline = time.monotonic() + seconds
    for pause in backoff():
        try:
            return call()
        except KproxyError as error:
            if not is_retriable(error) or time.monotonic() + pause >= deadline:
                raise
        cluster.invalidate()
        time.sleep(pause)
    raise AssertionError
