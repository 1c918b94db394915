"""Getting a request to a broker and its response back.

`over` asks on a connection on which nobody else does; `Between` asks within a session, between the client's requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kproxy.ask.frames import read_frame
from kproxy.dial.stream import Stream
from kproxy.relay.session import Session

# A broker's answer to kproxy has at most so many bytes: a list of ten thousand brokers has one million.
LONGEST = 4 * 1024 * 1024

Ask = Callable[[bytes, float], Awaitable[bytes]]
"""Sends the broker a request, a whole frame, and gives the response without its size; the broker may take so many
seconds. Raises TimeoutError, EOFError, WireError and OSError."""


def over(stream: Stream, limit: int = LONGEST) -> Ask:
    """On a connection of kproxy's own. A response may have `limit` bytes. Several may ask at once: the broker answers
    in order."""
    turn = asyncio.Lock()  # is given to those who wait in their order

    async def ask(request: bytes, seconds: float) -> bytes:
        async with asyncio.timeout(seconds):
            await stream.send(request)
            async with turn:
                return await read_frame(stream, limit)

    return ask


class Between:
    """Between the requests of a session's client. With `hold` it holds them from the first question on; without,
    they are held already. Whoever asks releases them."""

    def __init__(self, session: Session, *, hold: bool = False) -> None:
        self._session = session
        self._hold = hold
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[bytes] | None = None

    def ended(self) -> None:
        """The session has ended: whoever waits for an answer gets EOFError."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(EOFError())

    async def ask(self, request: bytes, seconds: float) -> bytes:
        """An `Ask`. Questions of several at once are asked one after the other."""
        async with self._turn:
            return await self._ask(request, seconds)

    async def _ask(self, request: bytes, seconds: float) -> bytes:
        session = self._session
        if session.client.fileno() < 0:
            raise EOFError
        if self._hold:
            self._hold = False
            held = asyncio.Event()
            session.hold(held.set)
            await held.wait()
        answer = self._answer = asyncio.get_running_loop().create_future()
        try:
            return await self._answered(answer, request, seconds)
        finally:
            self._answer = None

    async def _answered(self, answer: asyncio.Future[bytes], request: bytes, seconds: float) -> bytes:
        session, conversation = self._session, self._session.conversation
        session.ask(request, answer.set_result)
        while not answer.done():
            # Answers to the client's requests come first, and take as long as they take.
            is_next = conversation.in_flight <= 1
            await asyncio.wait({answer}, timeout=seconds)  # unlike wait_for, it leaves the future alone
            if is_next and not answer.done():
                raise EOFError if session.ended_by == "upstream" else TimeoutError
        return bytes(answer.result())
