"""kproxy's own conversations over real sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from kproxy.net.dial.stream import Stream


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A non-blocking end for a Stream, and the other end, blocking."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(30)
        yield ours, theirs


async def test_what_was_sent_arrives_however_slow_the_peer(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    data = bytes(range(256)) * 32 * 1024
    got = bytearray()

    def read() -> None:
        while more := theirs.recv(65536):
            got.extend(more)

    reader = threading.Thread(target=read)
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(Stream(ours).send(data))
        await asyncio.sleep(0)
        assert not sending.done(), "more than the kernel takes at once"
        reader.start()
    ours.shutdown(socket.SHUT_WR)
    reader.join(30)
    assert got == data


async def test_receive_waits_and_tells_the_end(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stream = Stream(ours)
    async with asyncio.TaskGroup() as tasks:
        receiving = tasks.create_task(stream.receive(3))
        await asyncio.sleep(0)
        assert not receiving.done()
        theirs.sendall(b"four")
    assert receiving.result() == b"fou"
    assert await stream.receive(100) == b"r"
    theirs.close()
    assert await stream.receive(100) == b""


async def test_a_time_limit_leaves_the_stream_usable(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Stream(ours).receive(1)
    assert not asyncio.get_running_loop().remove_reader(ours)
    theirs.sendall(b"x")
    assert await Stream(ours).receive(1) == b"x"


async def test_an_answer_that_is_there_already_is_received(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stream = Stream(ours)
    theirs.sendall(b"unasked")
    await stream.send(b"question")
    assert await stream.receive(100) == b"unasked"
    theirs.sendall(b"answer")
    assert await stream.receive(3) == b"ans"
    assert await stream.receive(100) == b"wer"
