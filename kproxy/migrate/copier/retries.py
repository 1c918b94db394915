"""Trying again while it may help: leaders move, coordinators load, brokers start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import BrokerError

T = TypeVar("T")

# Between two attempts, in seconds.
_FIRST, _LONGEST = 0.1, 3.0


def is_retriable(error: KproxyError) -> bool:
    """Whether another attempt may help."""
    if isinstance(error, BrokerError):
        return error.is_retriable
    return isinstance(error, UpstreamError)


def backoff() -> Iterator[float]:
    """How long to wait before each further attempt, in seconds."""
    pause = _FIRST
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST)


def retry(cluster: ClusterClient, ask: Callable[[], T], seconds: float) -> T:
    """What `ask` returns. Raises what it raised last, if that does not pass or `seconds` are over."""
    until = time.monotonic() + seconds
    for pause in backoff():
        try:
            return ask()
        except KproxyError as error:
            if not is_retriable(error) or time.monotonic() + pause >= until:
                raise
        cluster.invalidate()
        time.sleep(pause)
    raise AssertionError
