"""Sending and receiving over one connected socket, plain or TLS, for kproxy's own few questions.

asyncio's `sock_recv` and `sock_sendall` refuse TLS sockets, and its transports take the socket away. Sessions do not
use this module.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
# Opens a connection: a non-blocking socket.
Connect = Callable[[], Awaitable[socket.socket]]


class Stream:
    """Sending and receiving over a connected, non-blocking socket. The caller owns it; a `Stream` never closes it.

    Both methods raise OSError (of which ssl.SSLError is one); neither has a time limit of its own. Only one of both may
    wait at a time.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._is_plain = type(sock) is socket.socket  # one with TLS may have received what the system does not show
        self._awaits_answer = False

    async def send(self, data: bytes) -> None:
        """Send all of the bytes."""
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[await retry_when_ready(self._sock, partial(self._sock.send, remaining), write=True) :]
        self._awaits_answer = self._is_plain

    async def receive(self, limit: int) -> bytes:
        """Return the received bytes, at least one and at most `limit`; b"" at the end of the stream."""
        if self._awaits_answer:  # a call would fail, and cost more than all else here
            self._awaits_answer = False
            await wait_until_ready(self._sock, write=False)
        return await retry_when_ready(self._sock, partial(self._sock.recv, limit))


async def retry_when_ready(sock: socket.socket, call: Callable[[], T], *, write: bool = False) -> T:
    """Return the result of a call on a non-blocking socket, repeated each time that the socket is ready for it.

    TLS itself reports which direction it waits for (a handshake does both); `write` is the direction of a plain socket.
    """
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            await wait_until_ready(sock, write=False)
        except ssl.SSLWantWriteError:
            await wait_until_ready(sock, write=True)
        except (BlockingIOError, InterruptedError):
            await wait_until_ready(sock, write)


class ReadinessLoop(asyncio.SelectorEventLoop):
    """An event loop that has a faster way to wait for a socket than `add_reader`."""

    async def ready(self, fd: int, *, write: bool) -> None:
        """Wait until a socket can be written, or read."""
        raise NotImplementedError


def wait_until_ready(sock: socket.socket, write: bool) -> Coroutine[Any, Any, None]:
    """Wait until a socket can be written, or read."""
    loop, fd = asyncio.get_running_loop(), sock.fileno()
    return loop.ready(fd, write=write) if isinstance(loop, ReadinessLoop) else _ready(loop, fd, write)


async def _ready(loop: asyncio.AbstractEventLoop, fd: int, write: bool) -> None:
    ready = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(fd, _resolve, ready)
    try:
        await ready
    finally:
        remove(fd)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
