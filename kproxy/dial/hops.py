"""What the parts of a way to a broker have in common: who connects, how long it may take, what a `--via` says."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import Protocol

from kproxy.address import Address
from kproxy.errors import UpstreamError, ViaError


@dataclass(frozen=True, slots=True)
class Limit:
    """How long one upstream connection may take to open: `seconds`, over when the loop's clock says `at`."""

    seconds: float
    at: float

    @classmethod
    def of(cls, seconds: float) -> Limit:
        """So many seconds from now."""
        return cls(seconds, asyncio.get_running_loop().time() + seconds)

    def timeout(self) -> asyncio.Timeout:
        """Raises TimeoutError in its block when the time is over."""
        return asyncio.timeout_at(self.at)

    @property
    def left(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self.at - asyncio.get_running_loop().time())


class Way(Protocol):
    """Something that opens connections: this machine itself, or a hop that is reached by another way."""

    async def connect(self, address: Address, limit: Limit) -> socket.socket:
        """A connected, non-blocking socket. Raises UpstreamError, ViaError if it failed before the address."""
        ...

    async def close(self) -> None:
        """Give back what was kept for the next connection."""
        ...


class Hop(Protocol):
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


async def reach_hop(name: str, reason: str, before: Way, address: Address, limit: Limit) -> socket.socket:
    """Connect to the hop called `name` itself. Raises ViaError with `reason`."""
    try:
        return await before.connect(address, limit)
    except ViaError:
        raise  # of a hop before this one, which has said it
    except UpstreamError as error:
        raise ViaError("limit" if error.reason == "limit" else reason, f"{name}: {error}") from None
