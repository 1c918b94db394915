"""The channel for kproxy's own requests within a session, between the client's requests."""

from __future__ import annotations

import asyncio
from collections import deque

from kproxy.client.ask.channel import Channel
from kproxy.proxy.relay.session import Session


class InSessionChannel(Channel):
    """kproxy's requests and the broker's responses, between the requests of a session's client.

    With `hold`, the channel holds the client's requests from its first request on; without, they are held already. The
    caller releases them.
    """

    def __init__(self, session: Session, *, hold: bool = False) -> None:
        self._session = session
        self._hold = hold
        self._requests: deque[bytes] = deque()  # one is asked after the other
        self._answer: asyncio.Future[bytes] | None = None

    def session_ended(self) -> None:
        """Raise EOFError where an answer is awaited: the session has ended."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(EOFError())

    def send(self, request: bytes) -> None:
        self._requests.append(request)

    async def receive(self, seconds: float | None = None) -> bytes:
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
            return await self._wait_for_answer(answer, self._requests.popleft(), seconds)
        finally:
            self._answer = None

    async def _wait_for_answer(self, answer: asyncio.Future[bytes], request: bytes, seconds: float | None) -> bytes:
        session, conversation = self._session, self._session.conversation
        session.ask(request, answer.set_result)
        while not answer.done():
            # Answers to the client's requests come first, and take as long as they take.
            is_next = conversation.in_flight <= 1
            await asyncio.wait({answer}, timeout=seconds)  # unlike wait_for, it leaves the future alone
            if is_next and not answer.done():
                raise EOFError if session.ended_by == "upstream" else TimeoutError
        return bytes(answer.result())
