"""The interface of everything that opens upstream connections, and the deadline of one connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import Protocol

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time limit of opening one upstream connection, which all steps of it share.

    It has `seconds` in all, and ends at `at` of the loop's clock. `on_step` is called with each step.
    """

    seconds: float
    at: float
    on_step: OnStep | None = None

    @classmethod
    def after(cls, seconds: float, on_step: OnStep | None = None) -> Deadline:
        """Return a deadline `seconds` from now."""
        return cls(seconds, asyncio.get_running_loop().time() + seconds, on_step)

    def step(self, kind: DialStepKind, target: object) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that reports its block as a step towards `target`."""
        return _UNREPORTED if self.on_step is None else report_step(self.on_step, kind, str(target))

    def timeout(self) -> asyncio.Timeout:
        """Return a context manager that raises TimeoutError at the deadline."""
        return asyncio.timeout_at(self.at)

    @property
    def remaining(self) -> float:
        """The seconds left, at least 0."""
        return max(0.0, self.at - asyncio.get_running_loop().time())


_UNREPORTED = contextlib.nullcontext()


class Connector(Protocol):
    """Something that opens connections: this machine itself, or a hop that is reached through another connector."""

    async def connect(self, address: Address, deadline: Deadline) -> socket.socket:
        """Return a connected, non-blocking socket.

        Raises UpstreamError; ViaError if a hop failed, whatever the address.
        """
        ...

    async def close(self) -> None:
        """Close what is kept open for later connections."""
        ...


class HopSpec(Protocol):
    """One `--via`, as `kproxy.config` has it. `str()` shows no password."""

    @property
    def scheme(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int | None: ...
    @property
    def user(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...


async def connect_to_hop(
    name: str, reason: str, previous: Connector, address: Address, deadline: Deadline
) -> socket.socket:
    """Connect to the hop called `name` itself. Raises ViaError with `reason`."""
    try:
        return await previous.connect(address, deadline)
    except ViaError:
        raise  # a hop before this one failed, and the error names it
    except UpstreamError as error:
        raise ViaError("limit" if error.reason == "limit" else reason, f"{name}: {error}") from None


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
