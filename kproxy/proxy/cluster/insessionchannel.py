"""The channel for kproxy's own requests within a session, between the client's requests.

Through it, kproxy logs in again before the broker ends the session (KIP-368).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from typing import TYPE_CHECKING

from kproxy.base.errors import UpstreamError
from kproxy.client.ask.channel import Channel
from kproxy.protocol.rewrite.versionsrequest import read_versions_request
from kproxy.proxy.relay.session import Session

if TYPE_CHECKING:
    from kproxy.client.sasl.login import LoginAttempt, LoginContext
    from kproxy.proxy.cluster.clientconnection import ClientConnection
    from kproxy.proxy.cluster.verifiedconnection import Verify


class InSessionChannel(Channel):
    """kproxy's requests and the broker's responses, between the requests of a session's client.

    With `hold`, the channel holds the client's requests from its first request on; without, they are held already. The
    caller releases them.
    """

    def __init__(self, session: Session, *, hold: bool = False) -> None:
        self._session = session
        self._hold = hold
        self._requests: list[bytes] = []  # which have not been sent
        self._answers: deque[asyncio.Future[bytes]] = deque()  # to those that have
        self._awaited: asyncio.Future[bytes] | None = None

    def session_ended(self) -> None:
        """Raise EOFError where an answer is awaited: the session, or the broker's side of it, has ended."""
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(EOFError())

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
        requests, self._requests = self._requests, []
        for request in requests:
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._answers.append(answer)
            session.ask(request, answer.set_result)
        if session.closed:
            raise EOFError
        self._awaited = self._answers.popleft()
        try:
            return await self._wait_for_answer(self._awaited, seconds)
        finally:
            self._awaited = None

    async def _wait_for_answer(self, answer: asyncio.Future[bytes], seconds: float | None) -> bytes:
        session, conversation = self._session, self._session.conversation
        while not answer.done():
            # Answers to the client's requests come first, and take as long as they take.
            is_next = conversation.in_flight <= 1 + len(self._answers)
            await asyncio.wait({answer}, timeout=seconds)  # unlike wait_for, it leaves the future alone
            if is_next and not answer.done():
                raise EOFError if session.ended_by == "upstream" else TimeoutError
        return bytes(answer.result())


log = logging.getLogger(__name__)

# When kproxy logs in again, in parts of the lifetime, as Java's clients do: at random, to spread the logins.
_EARLIEST, _LATEST = 0.85, 0.95
# If kproxy cannot fetch the password or token, it tries again after _PAUSE seconds, until _LAST_TRY of the lifetime.
_PAUSE, _LAST_TRY = 0.5, 0.98
# A shorter lifetime counts as this one, in seconds. Brokers have hours; one with milliseconds would have every session
# log in all the time.
_SHORTEST = 1.0


async def keep_logged_in(session: Session, logged_in: LoginContext) -> None:
    """Log in again whenever the lifetime nears its end, for as long as the broker sets one.

    The client's requests wait meanwhile, but only for the round trips. A negative lifetime is none, as in Java's
    clients. Raises UpstreamError; then the session cannot be used any more.
    """
    now = asyncio.get_running_loop().time
    result = logged_in.result
    while result.lifetime_ms and not session.closed:
        began, lifetime = now(), max(result.lifetime_ms / 1000, _SHORTEST)
        if result.lifetime_ms < _SHORTEST * 1000:
            logged_in.login.warn_of_lifetime(logged_in.address, result.lifetime_ms, _SHORTEST)
        if result.lifetime_ms < 0:
            return
        await asyncio.sleep(lifetime * random.uniform(_EARLIEST, _LATEST))
        attempt = await _prepare(logged_in, began + lifetime * _LAST_TRY)
        result = await logged_in.login.log_in(InSessionChannel(session, hold=True), attempt, result.versions)
        session.release()
        log.debug("%s: SASL: logged in again, for %g s", logged_in.address, result.lifetime_ms / 1000)


async def _prepare(logged_in: LoginContext, until: float) -> LoginAttempt:
    while True:
        try:
            return await logged_in.login.prepare(logged_in.address, logged_in.name)
        except UpstreamError:
            if asyncio.get_running_loop().time() + _PAUSE > until:
                raise
        await asyncio.sleep(_PAUSE)


async def verify_within(connection: ClientConnection, session: Session, verify: Verify) -> None:
    """Verify the connection within the session; then let the client's requests pass, or close the session.

    If the client asks for ApiVersions after its login, as Java's clients do, its request serves for that. The session
    closes as if the broker had closed it, and the client's next attempt uses another address. Before a login, a broker
    confirms any node, so its confirmation counts only if the client has begun one: brokers answer nothing meanwhile.
    """
    connection.channel = InSessionChannel(session)
    request = read_versions_request(session.conversation.waiting)
    try:
        answer = await verify(connection.channel, request, confirmable=bool(connection.login))
    except UpstreamError as error:
        connection.channel = None
        if not session.closed:
            session.ended_by = "upstream"
            session.close(error)
    else:
        connection.channel = None
        session.release(answer)
