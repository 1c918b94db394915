"""The steps in which an upstream connection is opened, as they are reported to whoever wants to show them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from time import perf_counter


class DialStepKind(Enum):
    """What one step does."""

    RESOLVE = "resolve"  # a host name to IP addresses
    CONNECT = "connect"  # TCP
    HOP = "hop"  # through a proxy or an SSH server: log in there, have it connect
    TLS = "tls"  # the handshake
    LOGIN = "login"  # SASL


@dataclass(frozen=True, slots=True)
class DialStep:
    """One step that was taken, towards `target` (a host name, HOST:PORT, or a hop), in so many seconds. `problem` says
    why it failed; then no other follows."""

    kind: DialStepKind
    target: str
    seconds: float
    problem: str | None = None


OnStep = Callable[[DialStep], None]


@contextlib.contextmanager
def report_step(on_step: OnStep, kind: DialStepKind, target: str) -> Iterator[None]:
    """Report what happens in this block as a step."""
    began = perf_counter()
    try:
        yield
    except BaseException as error:
        on_step(DialStep(kind, target, perf_counter() - began, str(error) or type(error).__name__))
        raise
    on_step(DialStep(kind, target, perf_counter() - began))
