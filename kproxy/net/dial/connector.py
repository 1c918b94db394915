"""What the parts of a way to a broker have in common: who connects, how long it may take, what a `--via` says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from typing import Protocol

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.net.dial.steps import DialStepKind, OnStep, report_step


@dataclass(frozen=True, slots=True)
class Deadline:
    """What goes through all parts of opening one upstream connection: how long it may take (`seconds`, over when the
    loop's clock says `at`), and who is told each step."""

    seconds: float
    at: float
    on_step: OnStep | None = None

    @classmethod
    def after(cls, seconds: float, on_step: OnStep | None = None) -> Deadline:
        """So many seconds from now."""
        return cls(seconds, asyncio.get_running_loop().time() + seconds, on_step)

    def step(self, kind: DialStepKind, target: object) -> contextlib.AbstractContextManager[None]:
        """What happens in this block is a step towards `target`."""
        return _UNREPORTED if self.on_step is None else report_step(self.on_step, kind, str(target))

    def timeout(self) -> asyncio.Timeout:
        """Raises TimeoutError in its block when the time is over."""
        return asyncio.timeout_at(self.at)

    @property
    def remaining(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self.at - asyncio.get_running_loop().time())


_UNREPORTED = contextlib.nullcontext()


class Connector(Protocol):
    """Something that opens connections: this machine itself, or a hop that is reached by another way."""

    async def connect(self, address: Address, deadline: Deadline) -> socket.socket:
        """A connected, non-blocking socket. Raises UpstreamError, ViaError if it failed before the address."""
        ...

    async def close(self) -> None:
        """Give back what was kept for the next connection."""
        ...


class HopSpec(Protocol):
    """One `--via`; the config room's Hop. `str()` shows no password."""

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
        raise  # of a hop before this one, which has said it
    except UpstreamError as error:
        raise ViaError("limit" if error.reason == "limit" else reason, f"{name}: {error}") from None
