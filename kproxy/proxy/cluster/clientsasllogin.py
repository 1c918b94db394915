"""The login of one client with SASL at kproxy, and its new logins: what takes time of them.

The order of the messages is in `kproxy.proxy.login.authenticator`.
"""

from __future__ import annotations

import asyncio
from time import time
from typing import TYPE_CHECKING

from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.messages.clientlogins import LOGIN_TOO_SLOW
from kproxy.proxy.cluster.clientconnection import ClientConnection, close_gracefully
from kproxy.proxy.login.authenticator import ClientAuthenticator, Outcome
from kproxy.proxy.login.outcomes import ClientLoginFailed, ServerMechanism, Success
from kproxy.proxy.relay.session import Session

if TYPE_CHECKING:
    from kproxy.proxy.cluster.clientlogins import ClientLogins

# How long a client may take from its first bytes to the end of its login, in seconds. What kproxy takes counts too.
_LOGIN_WITHIN = 30.0


class ClientSaslLogin:
    """The login of the client of one session, and its new logins."""

    def __init__(self, logins: ClientLogins, session: Session, connection: ClientConnection) -> None:
        self._logins, self._session, self._connection = logins, session, connection
        self._config = logins.config
        self._loop = asyncio.get_running_loop()
        self._server: ServerMechanism | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._upstream_lifetime_ms = 0  # of the login to the broker, 0 for ever
        mechanisms = self._config.client_sasl
        self._authenticator = ClientAuthenticator(
            mechanisms, self._begin, self._evaluate, self._refuse, self._changed, self._end_session
        )
        session.conversation.authenticate(self._authenticator)
        self._limit = self._loop.call_later(_LOGIN_WITHIN, self._close_slow)

    def _begin(self, mechanism: str) -> None:
        self._server = self._logins.mechanism(mechanism)

    def _close_slow(self) -> None:
        if not (self._session.closed or self._authenticator.has_logged_in):
            self._close(WireError(*LOGIN_TOO_SLOW.with_reason(seconds=_LOGIN_WITHIN)), "client")

    def _close(self, error: Exception, side: str) -> None:
        if not self._session.closed:
            self._session.ended_by = side
            self._session.close(error)

    def _evaluate(self, token: bytes) -> None:
        self._connection.client_login = self._logins.run(self._run(token))

    def _refuse(self, failure: ClientLoginFailed) -> None:
        self._connection.client_login = self._logins.run(self._wait(failure))

    async def _run(self, token: bytes) -> None:
        assert self._server is not None
        outcome: Outcome
        lifetime_ms = 0
        try:
            await self._logins.ready()
            self._logins.check_address(self._connection.peer.host)
            outcome = await self._server.evaluate(token)
            if isinstance(outcome, Success):
                lifetime_ms = self._lifetime_ms(outcome)
                await self._accept(outcome)
                lifetime_ms = min(filter(None, (lifetime_ms, self._upstream_lifetime_ms)), default=0)
        except ClientLoginFailed as error:
            outcome = error
            await self._logins.refuse(self._connection, self._authenticator.mechanism, error)
        except UpstreamError as error:
            self._close(error, "upstream")
            return
        except (WireError, TimeoutError) as error:
            self._close(error, "client")
            return
        if self._session.closed:
            return
        if isinstance(outcome, Success):
            self._logins.count_success(self._server.name)
            self._start_lifetime(lifetime_ms)
        self._authenticator.resume(outcome, lifetime_ms)
        self._session.release()

    async def _wait(self, failure: ClientLoginFailed) -> None:
        await self._logins.refuse(self._connection, self._authenticator.mechanism, failure)
        self._session.release()

    async def _accept(self, success: Success) -> None:
        """Check that a new login is of the same user; else log in to the broker for this one, and verify the node.

        Raises ClientLoginFailed and UpstreamError.
        """
        connection, session = self._connection, self._session
        if self._authenticator.has_logged_in:
            if success.user != self._authenticator.user:
                before, now = self._authenticator.user, success.user
                text = f"Cannot change principals during re-authentication from User.{before}: User.{now}"
                raise ClientLoginFailed(text, "other-user", "it logs in again as another user", now)
            return
        self._upstream_lifetime_ms = await self._logins.accept(connection, session, success.user)

    def _lifetime_ms(self, success: Success) -> int:
        """Return how long this login lasts (KIP-368); 0 means for ever. Raises ClientLoginFailed if it has expired."""
        lifetimes = []
        if self._config.client_login_lifetime is not None:
            lifetimes.append(self._config.client_login_lifetime)
        if success.expires_at is not None:
            lifetimes.append(success.expires_at - time())
        return max(1, int(min(lifetimes) * 1000)) if lifetimes else 0

    def _start_lifetime(self, lifetime_ms: int) -> None:
        self._limit.cancel()
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = None
        if lifetime_ms:
            self._expiry = self._loop.call_later(lifetime_ms / 1000, self._expire)

    def _expire(self) -> None:
        if not self._session.closed:
            self._authenticator.expire()

    def _changed(self) -> None:
        self._session.conversation.judge_anew()

    def _end_session(self) -> None:
        self._logins.wake()
        self._loop.call_soon(self._end_now)

    def _end_now(self) -> None:
        if not self._session.closed:
            close_gracefully(self._session)
