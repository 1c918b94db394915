"""The steps of opening an upstream connection, reported to a caller that displays them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from time import perf_counter


class DialStepKind(Enum):
    """The kind of a step."""

    RESOLVE = "resolve"  # a host name to IP addresses
    CONNECT = "connect"  # TCP
    HOP = "hop"  # through a proxy or an SSH server: the login there, and its connection
    TLS = "tls"  # the handshake
    LOGIN = "login"  # SASL


@dataclass(frozen=True, slots=True)
class DialStep:
    """One finished step towards `target` (a host name, HOST:PORT, or a hop), and its duration.

    `problem` is the reason for a failure; no other step follows it.
    """

    kind: DialStepKind
    target: str
    seconds: float
    problem: str | None = None


OnStep = Callable[[DialStep], None]


@contextlib.contextmanager
def report_step(on_step: OnStep, kind: DialStepKind, target: str) -> Iterator[None]:
    """Report the block as a step."""
    began = perf_counter()
    try:
        yield
    except BaseException as error:
        on_step(DialStep(kind, target, perf_counter() - began, str(error) or type(error).__name__))
        raise
    on_step(DialStep(kind, target, perf_counter() - began))
