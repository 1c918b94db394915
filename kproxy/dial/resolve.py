"""The addresses of names, asked of the system's resolver without ever waiting for it on the event loop.

Each question has a daemon thread of its own: a resolver that hangs for half a minute then keeps nobody else waiting,
and does not hold up the end of the process as the threads of an executor do.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from threading import Thread
from typing import TypeAlias

from kproxy.address import Address
from kproxy.errors import UpstreamError

AddrInfo: TypeAlias = tuple[int, int, int, str, tuple[object, ...]]
"""As getaddrinfo gives them."""

# How long an answer holds, in seconds: brokers move, and a name that is missing now may be there in a moment.
_KNOWN, _UNKNOWN = 3.0, 1.0
# Questions at the same time. Each is a thread.
_AT_ONCE = 32


class Resolver:
    """Name resolution for one cluster, remembered for a few seconds; one question for all who ask for a name."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[float, list[AddrInfo]]] = {}  # until when; empty: no such name
        self._asked: dict[str, asyncio.Future[list[AddrInfo]]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def resolve(self, address: Address) -> list[AddrInfo]:
        """The addresses of a name, best first; at once for one that is an IP address. Raises UpstreamError."""
        if not 0 < address.port < 65536:  # getaddrinfo takes it modulo 65536
            raise UpstreamError("other", f"{address}: {address.port} is not a port")
        found = _look_up(address.host, socket.AI_NUMERICHOST) or await self._ask(address.host)
        if not found:
            raise UpstreamError("resolve", f"{address}: the name '{address.host}' cannot be resolved here")
        return [(*info[:4], (info[4][0], address.port, *info[4][2:])) for info in found]

    def forget(self, host: str) -> None:
        """Ask anew next time: what the name led to did not work."""
        self._answers.pop(host, None)

    async def _ask(self, host: str) -> list[AddrInfo]:
        now = asyncio.get_running_loop().time()
        until, found = self._answers.get(host, (now, []))
        if now < until:
            return found
        if host not in self._asked:
            await self._slots.acquire()
            if host in self._asked:
                self._slots.release()
            else:
                self._asked[host] = asyncio.get_running_loop().create_future()
                Thread(target=self._ask_system, args=(host, asyncio.get_running_loop()), daemon=True).start()
        # One that gives up must not end it for the others.
        return await asyncio.shield(self._asked[host])

    def _ask_system(self, host: str, loop: asyncio.AbstractEventLoop) -> None:
        found = _look_up(host)
        with contextlib.suppress(RuntimeError):  # the loop is closed: kproxy has ended
            loop.call_soon_threadsafe(self._answered, host, found)

    def _answered(self, host: str, found: list[AddrInfo]) -> None:
        now = asyncio.get_running_loop().time()
        self._answers = {name: known for name, known in self._answers.items() if now < known[0]}
        self._answers[host] = now + (_KNOWN if found else _UNKNOWN), found
        self._slots.release()
        self._asked.pop(host).set_result(found)


def _look_up(host: str, flags: int = 0) -> list[AddrInfo]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
        return found  # type: ignore[return-value]  # typeshed's tuple is looser
    except (OSError, ValueError):  # gaierror; UnicodeError of what cannot be a name
        return []
