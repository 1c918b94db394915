"""The logins of one cluster's clients, where clients log in at kproxy (`--client-sasl`).

What the logins share: the users, the verification of passwords and tokens, kproxy's own login to the broker for a user,
and the pauses before the answers to failed logins. `clientsasllogin` and `clientcertificatelogin` have the login of one
client.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kproxy.base.errors import ConfigError, UpstreamError, WireError
from kproxy.base.messages.clientlogins import (
    CLIENT_LOGIN_FAILED,
    TOO_MANY_FAILED_LOGINS,
    USERS_UNREADABLE,
)
from kproxy.base.messages.logins import CLOSED_DURING_LOGIN
from kproxy.base.printable import one_line
from kproxy.base.repeats import about
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.client.sasl.mechanism import LoginRefused, UserLoginRefused
from kproxy.config import ClusterConfig
from kproxy.proxy.cluster.clientconnection import ClientConnection
from kproxy.proxy.cluster.clientsasllogin import ClientSaslLogin
from kproxy.proxy.cluster.insessionchannel import InSessionChannel
from kproxy.proxy.login.failures import LoginFailures
from kproxy.proxy.login.outcomes import ClientLoginFailed, ServerMechanism
from kproxy.proxy.login.plain import PlainServer
from kproxy.proxy.login.scram import ScramServer
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.session import Session
from kproxy.users.decoys import select_verifier
from kproxy.users.usersfile import UsersFile
from kproxy.users.verifier import ScramVerifier

if TYPE_CHECKING:
    from kproxy.client.sasl.login import LoginContext
    from kproxy.proxy.login.principals import PrincipalMapper
    from kproxy.proxy.login.tokens import TokenRules, TokenVerifier

log = logging.getLogger(__name__)

# Passwords of PLAIN that are hashed at a time: each keeps a core busy for milliseconds. The others wait.
_MOST_HASHED = 2
_HASHED_WITHIN = 10.0
_LONGEST_NAME = 100
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
        self._principals: PrincipalMapper | None = None  # where certificates are the login
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
        self._principals = None
        if config.client_tls_principal_rules is not None:
            from kproxy.proxy.login.principals import PrincipalMapper

            self._principals = PrincipalMapper(config.client_tls_principal_rules)
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
        if self._principals is None:
            ClientSaslLogin(self, session, connection)
            return
        from kproxy.proxy.cluster.clientcertificatelogin import ClientCertificateLogin  # few clusters have it

        ClientCertificateLogin(self, self._principals, session, connection)

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
        user, forms = (None, {}) if users is None else (users.user(name), users.forms)
        return select_verifier(user, forms, mechanism, name, self._secret)

    async def _is_of(self, verifier: ScramVerifier, password: str) -> bool:
        return await self._hashing.run(_HASHED_WITHIN, verifier.is_of, password)

    async def accept(self, connection: ClientConnection, session: Session, user: str) -> int:
        """Log in to the broker for a user, verify the node, and let the user's rules judge the session.

        Return the lifetime of the login to the broker in milliseconds, 0 for ever. Raises ClientLoginFailed if the
        broker refuses the login, and UpstreamError.
        """
        upstream, lifetime_ms = connection.node, 0
        channel = connection.channel = InSessionChannel(session)
        # A broker that has refused the login closes the connection. The client must get its answer first.
        session.on_upstream_end = channel.session_ended
        try:
            if upstream.log_in is not None:
                try:
                    logged_in = await upstream.log_in(channel, user)
                except LoginRefused as error:
                    is_of_user = isinstance(error, UserLoginRefused)
                    text = f"kproxy has no login {'for this user ' if is_of_user else ''}that the brokers accept"
                    raise ClientLoginFailed(f"{text}; its log has the reason", "upstream", str(error), user) from None
                if logged_in is not None:
                    lifetime_ms = max(0, logged_in.result.lifetime_ms)
                    self.on_upstream_login(connection, session, logged_in)
            if upstream.verify is not None:
                await upstream.verify(channel)
        finally:
            connection.channel = None
        session.on_upstream_end = None
        if session.upstream.ended:
            raise UpstreamError(*CLOSED_DURING_LOGIN.with_reason())
        connection.user = user
        self.on_login(connection, session)
        return lifetime_ms

    def run(self, coroutine: object) -> asyncio.Task[None]:
        self._wake()
        return self._tasks.create_task(coroutine)  # type: ignore[arg-type]

    def wake(self) -> None:
        """Let the event loop see what the data plane has scheduled."""
        self._wake()

    async def refuse(self, connection: ClientConnection, mechanism: str, failure: ClientLoginFailed) -> None:
        """Count and log a failure, and wait for as long as its answer takes."""
        host, name = connection.peer.host, self._config.name
        self._metrics.count_client_login(name, mechanism, failure.outcome)
        user = f" ({one_line(failure.user, _LONGEST_NAME)})" if failure.user else ""
        text = CLIENT_LOGIN_FAILED(
            cluster=name, client=host, user=user, mechanism=mechanism or "no mechanism", problem=failure.problem
        )
        log.warning(text, extra=about(name, "client-login", host))
        seconds = self._failures.begin(host, asyncio.get_running_loop().time())
        try:
            await asyncio.sleep(seconds)
        finally:
            self._failures.end(host)

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
