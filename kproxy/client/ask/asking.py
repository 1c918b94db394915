"""Getting requests to a broker and its responses back.

`Over` asks on a connection on which nobody else does; `Between` asks within a session, between the client's requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from kproxy.client.ask.frames import Frames
from kproxy.net.dial.stream import Stream
from kproxy.proxy.relay.session import Session

# A broker's answer to kproxy has at most so many bytes: a list of ten thousand brokers has one million.
LONGEST = 4 * 1024 * 1024


class Ask(Protocol):
    """Somebody who can be asked. One at a time uses it; several requests may be sent before the first is answered."""

    def send(self, request: bytes) -> None:
        """Have a request, a whole frame, sent by the time that its answer is waited for."""

    async def answer(self, seconds: float | None = None) -> bytes:
        """The response to the next request, without its size; the broker may take so many seconds. Raises TimeoutError,
        EOFError, WireError and OSError."""

    async def __call__(self, request: bytes, seconds: float | None = None) -> bytes:
        """Both."""
        self.send(request)
        return await self.answer(seconds)


class Over(Ask):
    """On a connection of kproxy's own. A response may have `limit` bytes."""

    def __init__(self, stream: Stream, limit: int = LONGEST) -> None:
        self._stream = stream
        self._frames = Frames(stream, limit)
        self._unsent = b""

    def send(self, request: bytes) -> None:
        self._unsent += request

    async def answer(self, seconds: float | None = None) -> bytes:
        if seconds is not None:
            async with asyncio.timeout(seconds):
                return await self.answer()
        if self._unsent:
            unsent, self._unsent = self._unsent, b""
            await self._stream.send(unsent)
        return await self._frames.next()

    def finish(self) -> None:
        """Leave the connection to somebody else. Raises WireError if more has come than was asked for."""
        self._frames.finish()


class Between(Ask):
    """Between the requests of a session's client. With `hold` it holds them from the first question on; without,
    they are held already. Whoever asks releases them."""

    def __init__(self, session: Session, *, hold: bool = False) -> None:
        self._session = session
        self._hold = hold
        self._unasked: deque[bytes] = deque()  # one is asked after the other
        self._answer: asyncio.Future[bytes] | None = None

    def ended(self) -> None:
        """The session has ended: whoever waits for an answer gets EOFError."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(EOFError())

    def send(self, request: bytes) -> None:
        self._unasked.append(request)

    async def answer(self, seconds: float | None = None) -> bytes:
        session = self._session
        if session.closed:
            raise EOFError
        if self._hold:
            self._hold = False
            held = asyncio.Event()
            session.hold(held.set)
            await held.wait()
        answer = self._answer = asyncio.get_running_loop().create_future()
        try:
            return await self._answered(answer, self._unasked.popleft(), seconds)
        finally:
            self._answer = None

    async def _answered(self, answer: asyncio.Future[bytes], request: bytes, seconds: float | None) -> bytes:
        session, conversation = self._session, self._session.conversation
        session.ask(request, answer.set_result)
        while not answer.done():
            # Answers to the client's requests come first, and take as long as they take.
            is_next = conversation.in_flight <= 1
            await asyncio.wait({answer}, timeout=seconds)  # unlike wait_for, it leaves the future alone
            if is_next and not answer.done():
                raise EOFError if session.ended_by == "upstream" else TimeoutError
        return bytes(answer.result())
