"""Sources of the credentials of a login, and the source that the options of a cluster name."""

from __future__ import annotations

from typing import Protocol

from kproxy.client.sasl import secrets
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.client.sasl.mechanism import Mechanism, OAuthBearer, Plain, Scram
from kproxy.config import ClusterConfig

# The time limit for a mechanism's token, in seconds. A Kerberos library asks several KDCs, each for a while.
STEP_TIMEOUT = 30.0


class Credentials(Protocol):
    """A source of credentials for logins to the brokers of one cluster. `blocking_calls` runs what may block."""

    blocking_calls: BlockingCalls
    username: str
    """The user name of the last login; "" if it had none, or a token."""

    async def mechanism(self, host: str) -> tuple[Mechanism, str]:
        """Return the mechanism of one login, to the broker that advertises `host`, and the key of its credentials.

        A broker would refuse two logins with the same key alike. Raises UpstreamError.
        """
        ...

    def forget(self) -> None:
        """Fetch the credentials again for the next login, because the broker has refused them."""


async def password_mechanism(blocking_calls: BlockingCalls, name: str, user: str, password: str) -> Mechanism:
    """Return PLAIN or SCRAM with a password."""
    if name == "PLAIN":
        return Plain(user, password)
    return await blocking_calls.run(STEP_TIMEOUT, Scram, name, user, password)


class ConfiguredCredentials:
    """The credentials of a cluster's options: all its clients share them."""

    def __init__(self, config: ClusterConfig, blocking_calls: BlockingCalls) -> None:
        self._config = config
        self.blocking_calls = blocking_calls
        self.username = config.sasl_username or ""
        self._password = secrets.CachedSecret(self._run_password_command)
        self._token = secrets.CachedSecret(self._fetch_token)

    def forget(self) -> None:
        """Fetch the password or token again for the next login."""
        self._password.forget()
        self._token.forget()

    async def mechanism(self, host: str) -> tuple[Mechanism, str]:
        """Return the mechanism of one login, and the key of its credentials."""
        config = self._config
        user, mechanism = config.sasl_username or "", config.sasl
        if mechanism == "OAUTHBEARER":
            extensions = dict(extension.split("=", 1) for extension in config.oauth_extensions)
            if config.oauth_token_file:
                token = await secrets.read_file(self.blocking_calls, config.oauth_token_file)
                return OAuthBearer(token, extensions), token
            # A new token for the same client would be refused as well, for the same reason.
            return OAuthBearer(await self._token.get(), extensions), ""
        if mechanism == "GSSAPI":
            from kproxy.client.sasl.kerberos import Kerberos

            return Kerberos(config.kerberos_service, host, config.sasl_username, config.kerberos_keytab), ""
        if mechanism == "AWS_MSK_IAM":
            from kproxy.client.sasl.aws import MskIam

            return MskIam(host, config.aws_profile), ""
        password = await self._get_password()
        assert mechanism is not None
        return await password_mechanism(self.blocking_calls, mechanism, user, password), password

    async def _get_password(self) -> str:
        if self._config.sasl_password is not None:
            return self._config.sasl_password
        if self._config.sasl_password_file is not None:
            return await secrets.read_file(self.blocking_calls, self._config.sasl_password_file)
        return await self._password.get()

    async def _run_password_command(self) -> tuple[str, float]:
        assert self._config.sasl_password_command is not None
        return await secrets.run_command(self._config.sasl_password_command), float("inf")

    async def _fetch_token(self) -> tuple[str, float]:
        config = self._config
        if config.oauth_token_command is not None:
            token = await secrets.run_command(config.oauth_token_command)
            return token, secrets.refresh_time(token)
        from kproxy.client.sasl.oidc import fetch_token  # few users need it, and it imports a web client

        assert config.oauth_token_url is not None
        client, secret = config.sasl_username or "", await self._get_password()
        return await fetch_token(
            self.blocking_calls, config.oauth_token_url, client, secret, config.oauth_scope, config.oauth_ca
        )
