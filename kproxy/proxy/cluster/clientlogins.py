"""The logins of one cluster's clients, where clients log in at kproxy (`--client-sasl`).

The order of the messages is in `kproxy.proxy.login.authenticator`. Here is what takes time: verifying a token, kproxy's
own login to the broker for the user, the pause before the answer to a failed login, and the lifetime of a login.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial
from time import time
from typing import TYPE_CHECKING

from kproxy.base.errors import ConfigError, UpstreamError, WireError
from kproxy.base.messages.clientlogins import (
    CLIENT_LOGIN_FAILED,
    LOGIN_TOO_SLOW,
    TOO_MANY_FAILED_LOGINS,
    USERS_UNREADABLE,
)
from kproxy.base.printable import one_line
from kproxy.base.repeats import about
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.client.sasl.mechanism import UserLoginRefused
from kproxy.config import ClusterConfig
from kproxy.proxy.cluster.clientconnection import ClientConnection, close_gracefully
from kproxy.proxy.cluster.insessionchannel import InSessionChannel
from kproxy.proxy.login.authenticator import ClientAuthenticator, Outcome
from kproxy.proxy.login.failures import LoginFailures
from kproxy.proxy.login.outcomes import ClientLoginFailed, ServerMechanism, Success
from kproxy.proxy.login.plain import PlainServer
from kproxy.proxy.login.scram import ScramServer
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.session import Session
from kproxy.users.decoys import VerifierForm, decoy
from kproxy.users.usersfile import UsersFile
from kproxy.users.verifier import HASHES, ScramVerifier

if TYPE_CHECKING:
    from kproxy.client.sasl.login import LoginContext
    from kproxy.proxy.login.tokens import TokenRules, TokenVerifier

log = logging.getLogger(__name__)

# How long a client may take from its first bytes to the end of its login, in seconds. What kproxy takes counts too.
_LOGIN_WITHIN = 30.0
# Passwords of PLAIN that are hashed at a time: each keeps a core busy for milliseconds. The others wait.
_MOST_HASHED = 2
_HASHED_WITHIN = 10.0
_LONGEST_NAME = 100
_STRONGEST_FIRST = tuple(HASHES)[::-1]
_PLAIN, _OAUTHBEARER = "PLAIN", "OAUTHBEARER"


class ClientLogins:
    """The logins of one cluster's clients. `on_login` receives each connection whose client has logged in."""

    def __init__(
        self,
        config: ClusterConfig,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        wake: Callable[[], None],
        on_upstream_login: Callable[[ClientConnection, Session, LoginContext], None],
        on_login: Callable[[ClientConnection, Session], None],
    ) -> None:
        self._metrics = metrics
        self._tasks = tasks
        self._wake = wake
        self.on_upstream_login, self.on_login = on_upstream_login, on_login
        self._failures = LoginFailures()
        self._hashing = BlockingCalls(_MOST_HASHED)
        self._secret = secrets.token_bytes(32)
        self._users: UsersFile | None = None
        self._loaded = asyncio.Event()
        self._config = config
        self._token_rules: TokenRules | None = None
        self._tokens: TokenVerifier | None = None
        self.configure(config)

    def configure(self, config: ClusterConfig) -> None:
        """Use this configuration for the logins that begin from now on."""
        before, self._config = self._config, config
        rules = _token_rules(config)
        if rules != self._token_rules:
            self._token_rules, self._tokens = rules, None
            if rules is not None:
                from kproxy.proxy.login.tokens import TokenVerifier  # few clusters have it

                self._tokens = TokenVerifier(rules)
        if self._users is None or config.users_file != before.users_file:
            self._loaded.clear()
            self._tasks.create_task(self._load(config))

    async def _load(self, config: ClusterConfig) -> None:
        users = None
        if config.users_file is not None:
            try:
                users = await asyncio.to_thread(UsersFile, config.users_file)
            except ConfigError as error:
                log.error(USERS_UNREADABLE(cluster=config.name, problem=error))  # one line
        if config.users_file == self._config.users_file:
            self._users = users
            self._loaded.set()

    def check_address(self, host: str) -> None:
        """Raise WireError if no client of this address may log in now."""
        if self._failures.must_wait(host):
            raise WireError(*TOO_MANY_FAILED_LOGINS.with_reason(host=host))

    def session_opened(self, session: Session, connection: ClientConnection) -> None:
        """Let the client of a new session log in. No byte has passed in it yet, and its access rules are in use."""
        _ClientLogin(self, session, connection)

    # For the logins

    @property
    def config(self) -> ClusterConfig:
        return self._config

    def mechanism(self, name: str) -> ServerMechanism:
        """Return the server of one login."""
        if name == _PLAIN:
            return PlainServer(partial(self._verifier_of, None), self._is_of)
        if self._tokens is not None and name == _OAUTHBEARER:
            from kproxy.proxy.login.oauthbearer import OAuthBearerServer

            return OAuthBearerServer(self._tokens.verify)
        return ScramServer(name, partial(self._verifier_of, name))

    async def ready(self) -> None:
        """Wait until the users file has been read."""
        await self._loaded.wait()

    def _verifier_of(self, mechanism: str | None, name: str) -> tuple[ScramVerifier, bool]:
        """Return a verifier of this user for a mechanism, or for any, and whether there is one.

        For an unknown user, it is a decoy.
        """
        users = self._users
        user = None if users is None else users.user(name)
        forms = {} if users is None else users.forms
        allowed = _STRONGEST_FIRST if mechanism is None else (mechanism,)
        for wanted in allowed:
            if user is not None and wanted in user.verifiers:
                return user.verifiers[wanted], True
        wanted = next((each for each in allowed if each in forms), allowed[0])
        return decoy(wanted, name, self._secret, forms.get(wanted, VerifierForm())), False

    async def _is_of(self, verifier: ScramVerifier, password: str) -> bool:
        return await self._hashing.run(_HASHED_WITHIN, verifier.is_of, password)

    def run(self, coroutine: object) -> asyncio.Task[None]:
        self._wake()
        return self._tasks.create_task(coroutine)  # type: ignore[arg-type]

    def wake(self) -> None:
        """Let the event loop see what the data plane has scheduled."""
        self._wake()

    def begin_failure(self, connection: ClientConnection, mechanism: str, failure: ClientLoginFailed) -> float:
        """Count and log a failure; return how long its answer takes, in seconds. `end_failure` must follow."""
        host, name = connection.peer.host, self._config.name
        self._metrics.count_client_login(name, mechanism, failure.outcome)
        user = f" ({one_line(failure.user, _LONGEST_NAME)})" if failure.user else ""
        text = CLIENT_LOGIN_FAILED(
            cluster=name, client=host, user=user, mechanism=mechanism or "no mechanism", problem=failure.problem
        )
        log.warning(text, extra=about(name, "client-login", host))
        return self._failures.begin(host, asyncio.get_running_loop().time())

    def end_failure(self, connection: ClientConnection) -> None:
        self._failures.end(connection.peer.host)

    def count_success(self, mechanism: str) -> None:
        self._metrics.count_client_login(self._config.name, mechanism, "success")


def _token_rules(config: ClusterConfig) -> TokenRules | None:
    if _OAUTHBEARER not in config.client_sasl:
        return None
    from kproxy.proxy.login.tokens import TokenRules

    return TokenRules(
        config.client_oauth_jwks_url,
        config.client_oauth_jwks_file,
        config.client_oauth_ca,
        config.client_oauth_issuer or "",
        config.client_oauth_audience or "",
        config.client_oauth_user_claim,
    )


class _ClientLogin:
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
            await self._pause(error)
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
        await self._pause(failure)
        self._session.release()

    async def _pause(self, failure: ClientLoginFailed) -> None:
        mechanism = self._authenticator.mechanism
        seconds = self._logins.begin_failure(self._connection, mechanism, failure)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._logins.end_failure(self._connection)

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
        upstream = connection.node
        channel = connection.channel = InSessionChannel(session)
        try:
            if upstream.log_in is not None:
                try:
                    logged_in = await upstream.log_in(channel, success.user)
                except UserLoginRefused as error:
                    text = "kproxy has no login for this user that the brokers accept; its log has the reason"
                    raise ClientLoginFailed(text, "upstream", str(error), success.user) from None
                if logged_in is not None:
                    self._upstream_lifetime_ms = max(0, logged_in.result.lifetime_ms)
                    self._logins.on_upstream_login(connection, session, logged_in)
            if upstream.verify is not None:
                await upstream.verify(channel)
        finally:
            connection.channel = None
        connection.user = success.user
        self._logins.on_login(connection, session)

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
