"""A socket that leads to a transport: every byte in both directions, back-pressure, and both kinds of end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

import pytest

from kproxy.net.dial.bridge import BridgeEnd, bridge
from tests.harness.servers.peers import refused, reset


@asynccontextmanager
async def bridged() -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """The local socket, and the one at the far end of a TCP connection to which it leads."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        near = await bridge(lambda end: loop.create_connection(lambda: end, *address))
        far, _ = listening.accept()
        far.setblocking(False)
        with near, far:
            yield near, far


async def read_all(sock: socket.socket) -> bytes:
    loop, data = asyncio.get_running_loop(), bytearray()
    while chunk := await loop.sock_recv(sock, 262144):
        data += chunk
    return bytes(data)


async def test_both_directions_at_once_and_their_ends() -> None:
    loop = asyncio.get_running_loop()
    there, back = bytes(range(256)) * 40_000, bytes(range(255, -1, -1)) * 30_000

    async def send(sock: socket.socket, data: bytes) -> None:
        await loop.sock_sendall(sock, data)
        sock.shutdown(socket.SHUT_WR)

    async with bridged() as (near, far):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send(near, there))
            tasks.create_task(send(far, back))
            arrived, returned = tasks.create_task(read_all(far)), tasks.create_task(read_all(near))
        assert sha256(arrived.result()).digest() == sha256(there).digest()
        assert sha256(returned.result()).digest() == sha256(back).digest()


@pytest.mark.parametrize("turned", [False, True], ids=["near ends", "far ends"])
async def test_one_direction_goes_on_after_the_end_of_the_other(turned: bool) -> None:
    loop = asyncio.get_running_loop()
    async with bridged() as (near, far):
        one, other = (far, near) if turned else (near, far)
        await loop.sock_sendall(one, b"question")
        one.shutdown(socket.SHUT_WR)
        assert await read_all(other) == b"question"
        await loop.sock_sendall(other, b"answer" * 100_000)
        other.shutdown(socket.SHUT_WR)
        assert await read_all(one) == b"answer" * 100_000


@pytest.mark.parametrize("turned", [False, True], ids=["near does not read", "far does not read"])
async def test_a_side_that_does_not_read_stops_the_other(turned: bool) -> None:
    loop = asyncio.get_running_loop()
    async with bridged() as (near, far):
        reader, writer = (near, far) if turned else (far, near)
        sent, idle = 0, 0
        while idle < 50:  # until nothing more goes in, however often the bridge had its turn
            try:
                sent += writer.send(b"x" * 65536)
                idle = 0
            except BlockingIOError:
                idle += 1
            await asyncio.sleep(0)
        assert sent < 32 * 1024 * 1024  # the kernel's buffers, and a little more
        writer.shutdown(socket.SHUT_WR)
        assert len(await read_all(reader)) == sent
        await loop.sock_sendall(reader, b"end")
        assert await loop.sock_recv(writer, 10) == b"end"


@pytest.mark.parametrize("turned", [False, True], ids=["near closes", "far closes"])
async def test_a_close_reaches_the_other_side(turned: bool) -> None:
    loop = asyncio.get_running_loop()
    async with bridged() as (near, far):
        one, other = (far, near) if turned else (near, far)
        await loop.sock_sendall(one, b"last words")
        one.close()
        assert await read_all(other) == b"last words"


async def test_a_reset_ends_it() -> None:
    async with bridged() as (near, far):
        reset(far)
        assert await read_all(near) == b""


async def test_what_cannot_be_opened_leaves_nothing_behind() -> None:
    loop = asyncio.get_running_loop()
    ends: list[BridgeEnd] = []
    with refused() as nobody:
        host, _, port = nobody.rpartition(":")

        def open_far(end: BridgeEnd) -> object:
            ends.append(end)
            return loop.create_connection(lambda: end, host, int(port))

        with pytest.raises(ConnectionRefusedError):
            await bridge(open_far)  # type: ignore[arg-type]  # a coroutine
    near = ends[0].peer.transport
    assert near is not None
    assert near.is_closing()
