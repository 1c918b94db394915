"""Trying again while it may help: leaders move, coordinators load, brokers start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from kproxy.base.errors import KproxyError, UpstreamError
from kproxy.migrate.copier.clusterclient import Cluster
from kproxy.migrate.copier.errorcodes import Refused

T = TypeVar("T")

# Between two attempts, in seconds.
_FIRST, _LONGEST = 0.1, 3.0


def passes(error: KproxyError) -> bool:
    """Whether another attempt may help."""
    if isinstance(error, Refused):
        return error.passes
    return isinstance(error, UpstreamError)


def pauses() -> Iterator[float]:
    """How long to wait before each further attempt, in seconds."""
    pause = _FIRST
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST)


def insist(cluster: Cluster, ask: Callable[[], T], seconds: float) -> T:
    """What `ask` returns. Raises what it raised last, if that does not pass or `seconds` are over."""
    until = time.monotonic() + seconds
    for pause in pauses():
        try:
            return ask()
        except KproxyError as error:
            if not passes(error) or time.monotonic() + pause >= until:
                raise
        cluster.forget()
        time.sleep(pause)
    raise AssertionError
