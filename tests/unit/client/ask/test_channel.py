"""Asking on a connection of kproxy's own, and all that may come back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from kproxy.base.errors import WireError
from kproxy.client.ask.channel import ConnectionChannel, NotAResponse, ResponseTooLarge
from kproxy.client.ask.question import Question
from kproxy.net.dial.stream import Stream

LIMIT = 1000
FIRST, SECOND = b"\0\0\0\x07the first", b"\0\0\0\x08"


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@pytest.fixture
def ends() -> Iterator[tuple[ConnectionChannel, socket.socket]]:
    """A `ConnectionChannel`, and the broker's end of its connection."""
    ours, brokers = socket.socketpair()
    with ours, brokers:
        ours.setblocking(False)
        yield ConnectionChannel(Stream(ours), LIMIT), brokers


async def test_requests_go_together_and_answers_come_one_by_one(ends: tuple[ConnectionChannel, socket.socket]) -> None:
    ask, broker = ends
    ask.send(b"one")
    ask.send(b"two")
    broker.sendall(frame(FIRST) + frame(b"") + frame(SECOND))
    assert await ask.receive(10) == FIRST
    assert broker.recv(100) == b"onetwo"
    assert await ask.receive() == b""
    assert await ask.receive(10) == SECOND
    ask.check_no_excess()


async def test_bytes_that_come_one_at_a_time(ends: tuple[ConnectionChannel, socket.socket]) -> None:
    ask, broker = ends

    async def trickle() -> None:
        for byte in frame(FIRST) + frame(SECOND):
            broker.send(bytes([byte]))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as both:
        both.create_task(trickle())
        assert [await ask.receive(10), await ask.receive(10)] == [FIRST, SECOND]


@pytest.mark.parametrize("rest", [b"\0", frame(SECOND)])
async def test_more_than_was_asked_for_is_nobodys(ends: tuple[ConnectionChannel, socket.socket], rest: bytes) -> None:
    """Else it would be lost, and what follows it be taken for the client's answers."""
    ask, broker = ends
    broker.sendall(frame(FIRST) + rest)
    await ask.request(b"request", 10)
    with pytest.raises(WireError, match="more than kproxy asked for"):
        ask.check_no_excess()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "upstream-speaks-http"),
        (b"\x15\x03\x01\0\x02\x02\x0a", "upstream-speaks-tls-alert"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "upstream-speaks-ssh"),
        (b"\x05\xff", "upstream-speaks-socks"),
        (frame(bytes(LIMIT + 1)), "malformed"),
        (struct.pack(">i", -1) + bytes(20), "malformed"),
        (b"\xff" * 50_000, "malformed"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 100_000])
async def test_what_is_not_kafka(
    ends: tuple[ConnectionChannel, socket.socket], said: bytes, reason: str, at_once: int
) -> None:
    ask, broker = ends

    async def say() -> None:
        for at in range(0, min(len(said), 100 * at_once), at_once):
            broker.send(said[at : at + at_once])
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as both:
        saying = both.create_task(say())
        with pytest.raises(WireError) as error:
            await ask.receive(10)
        saying.cancel()
    assert error.value.reason == reason


async def test_an_answer_that_is_too_large_is_told_from_nonsense(ends: tuple[ConnectionChannel, socket.socket]) -> None:
    """By the correlation id of the request."""
    ask, broker = ends
    question = Question(3, 0, b"", bytes)
    broker.sendall(struct.pack(">ii", LIMIT + 1, 3) + bytes(20))
    with pytest.raises(ResponseTooLarge, match=f"the answer has {LIMIT + 1} bytes, and kproxy reads {LIMIT} at most"):
        await question.ask(ask)
    for first in ((LIMIT + 1, 8), (-1, 7), (2**31 - 1, 7)):
        assert not isinstance(NotAResponse(*first, LIMIT).for_request(7), ResponseTooLarge)


@pytest.mark.parametrize("end", range(len(frame(FIRST))))
async def test_the_broker_hangs_up_anywhere(ends: tuple[ConnectionChannel, socket.socket], end: int) -> None:
    ask, broker = ends
    broker.sendall(frame(SECOND) + frame(FIRST)[:end])
    broker.close()
    with contextlib.suppress(BrokenPipeError):
        await ask.request(b"", 10)
        with pytest.raises(EOFError):
            await ask.receive(10)


@pytest.mark.parametrize("said", [b"", b"\0\0", frame(FIRST)[:-1]])
async def test_a_broker_that_falls_silent(ends: tuple[ConnectionChannel, socket.socket], said: bytes) -> None:
    ask, broker = ends
    broker.sendall(said)
    with pytest.raises(TimeoutError):
        await ask.request(b"request", 0.05)


async def test_a_broker_that_reads_nothing(ends: tuple[ConnectionChannel, socket.socket]) -> None:
    ask, _ = ends
    with pytest.raises(TimeoutError):
        await ask.request(bytes(10_000_000), 0.05)
