"""The credentials of each user who logs in at kproxy, for one upstream: from the users file, or from a command.

A login in the users file comes first, then that of the command. If there is neither, `default-login` names the user
whose login counts. Without it, the user is refused. A command that fails is no missing login: then the user is refused,
although there may be a default.

A command gets the names of the user and of the upstream, without a shell. Clients choose their names, so a name that
could be a path, an option or a part of a URL is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.messages.users import CREDENTIALS_UNUSABLE, NO_USER_LOGIN, UNSAFE_USER
from kproxy.base.printable import one_line
from kproxy.client.ask.channel import Channel
from kproxy.client.sasl import secrets
from kproxy.client.sasl.blockingcalls import BlockingCalls
from kproxy.client.sasl.credentials import password_mechanism
from kproxy.client.sasl.exchange import SaslSession, Versions
from kproxy.client.sasl.login import LoginAttempt, SaslLogin
from kproxy.client.sasl.mechanism import LoginRefused, Mechanism, OAuthBearer, UserLoginRefused
from kproxy.config import ClusterConfig
from kproxy.users.document import UpstreamLogin, login_problem
from kproxy.users.usersfile import UsersFile

# The most users whose credentials are remembered; those of further users are fetched again.
_MOST_USERS = 10_000
# The most commands at a time. Each is a process, and asks a service that has limits.
_MOST_COMMANDS = 8
# The time limit of reading the users file, in seconds: 10,000 users take some.
_READ_TIMEOUT = 60.0
_LONGEST_SHOWN = 100
# No path, option, URL or header: a user name is what a client sends, or what a certificate or token says.
_SAFE_USER = re.compile(r"(?![.-])(?!.*\.\.)[A-Za-z0-9_.@=,+ -]{1,255}")
_PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Where Vault, AWS Secrets Manager and Azure Key Vault have the secret in what they print.
_AROUND = ("data", "SecretString", "value")
_DEEPEST = 4


class NoUserLogin(UserLoginRefused):
    """A user has no login for the upstream."""


class UserLogin(SaslLogin):
    """The logins of one user to the brokers of one upstream. A refusal is a UserLoginRefused."""

    is_of_user = True

    async def prepare(self, address: Address, name: str) -> LoginAttempt:
        """Return the attempt to log in. Raises UserLoginRefused and UpstreamError."""
        with _of_user():
            return await super().prepare(address, name)

    async def log_in(self, channel: Channel, attempt: LoginAttempt, versions: Versions | None = None) -> SaslSession:
        """Log in on a new connection, or within a session. Raises UserLoginRefused and UpstreamError."""
        with _of_user():
            return await super().log_in(channel, attempt, versions)


@contextlib.contextmanager
def _of_user() -> Iterator[None]:
    try:
        yield
    except UserLoginRefused:
        raise
    except LoginRefused as error:
        raise UserLoginRefused(str(error)) from None


class UserLogins:
    """The logins of users to the brokers of one upstream."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._blocking_calls = BlockingCalls()
        self._file: UsersFile | None = None
        self._reading = asyncio.Lock()
        self._commands = asyncio.Semaphore(_MOST_COMMANDS)
        self._outputs: OrderedDict[str, secrets.CachedSecret] = OrderedDict()
        self._logins: OrderedDict[str, UserLogin] = OrderedDict()

    def login_of(self, user: str) -> UserLogin:
        """Return the login of a user, whose `prepare` raises NoUserLogin if there is none."""
        login = self._logins.pop(user, None) or UserLogin(self._config, _UserCredentials(self, user))
        _remember(self._logins, user, login)
        return login

    @property
    def blocking_calls(self) -> BlockingCalls:
        return self._blocking_calls

    async def find(self, user: str) -> UpstreamLogin:
        """Return the credentials of a user. Raises NoUserLogin and UpstreamError."""
        for name in (user, self._config.default_login):
            login = None if name is None else await self._find(name)
            if login is not None:
                return login
        shown = one_line(user, _LONGEST_SHOWN)
        raise NoUserLogin(NO_USER_LOGIN(user=shown, upstream=self._upstream))

    def forget(self, user: str) -> None:
        """Run the command again for the next login of a user."""
        for name in (user, self._config.default_login):
            if name is not None and name in self._outputs:
                self._outputs[name].forget()

    def mechanism_of(self, login: UpstreamLogin, user: str) -> str:
        """Return the name of the mechanism of a login. Raises UpstreamError."""
        mechanism = login.mechanism or ("OAUTHBEARER" if login.token is not None else self._config.sasl)
        if login.password is not None and mechanism not in _PASSWORDS:
            raise self._unusable(user, f"it needs a mechanism; allowed: {', '.join(_PASSWORDS)}")
        assert mechanism is not None
        return mechanism

    async def _find(self, name: str) -> UpstreamLogin | None:
        users = await self._users()
        user = None if users is None else users.user(name)
        if user is not None and self._upstream in user.logins:
            return user.logins[self._upstream]
        if self._config.credentials_command is None:
            return None
        if not _SAFE_USER.fullmatch(name):
            raise NoUserLogin(UNSAFE_USER(user=one_line(name, _LONGEST_SHOWN)))
        output = self._outputs.pop(name, None) or secrets.CachedSecret(lambda: self._run(name))
        _remember(self._outputs, name, output)
        return self._parse(name, await output.get())[0]

    async def _users(self) -> UsersFile | None:
        if self._config.users_file is None:
            return None
        async with self._reading:
            if self._file is None:
                try:
                    self._file = await self._blocking_calls.run(_READ_TIMEOUT, UsersFile, self._config.users_file)
                except (ConfigError, TimeoutError) as error:
                    raise UpstreamError("sasl", f"the users file cannot be read: {error}") from None
            return self._file

    async def _run(self, name: str) -> tuple[str, float]:
        """Run the command for a user. Return its output, and when it expires. Raises UpstreamError."""
        assert self._config.credentials_command is not None
        names = {"{user}": name, "{upstream}": self._upstream}
        words = [
            re.sub(r"\{user\}|\{upstream\}", lambda match: names[match[0]], word)
            for word in secrets.split_command(self._config.credentials_command)
        ]
        async with self._commands:
            output = await secrets.run_program(words, shows_errors=False)
        _, seconds = self._parse(name, output)
        lifetime = self._config.credentials_lifetime
        return output, time.monotonic() + (lifetime if seconds is None else min(seconds, lifetime))

    def _parse(self, name: str, output: str) -> tuple[UpstreamLogin | None, float | None]:
        """Return the login that a command has printed, None for no login, and its lifetime in seconds, None if unknown.

        Raises UpstreamError.
        """
        value = _unwrapped(output)
        if value is None:
            raise self._unusable(name, "it is no JSON object with username and password, or token")
        if not value:
            return None, None
        known = {field.name for field in fields(UpstreamLogin)} & value.keys()
        texts: dict[str, Any] = {key: value[key] for key in known if value[key] is not None}
        if not all(isinstance(text, str) and text for text in texts.values()):
            raise self._unusable(name, "it has a value that is no text")
        login = UpstreamLogin(**{"username": "", **texts})
        if problem := login_problem(login):
            raise self._unusable(name, f"it {problem}")
        seconds = value.get("expires_in")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            return login, None
        return login, max(0.0, float(seconds))

    def _unusable(self, user: str, problem: str) -> UpstreamError:
        shown = one_line(user, _LONGEST_SHOWN)
        return UpstreamError("sasl", CREDENTIALS_UNUSABLE(user=shown, upstream=self._upstream, problem=problem))

    @property
    def _upstream(self) -> str:
        return self._config.upstream or self._config.name


class _UserCredentials:
    """The credentials of one user."""

    def __init__(self, logins: UserLogins, user: str) -> None:
        self._logins, self._user = logins, user
        self.blocking_calls = logins.blocking_calls
        self.username = ""

    async def mechanism(self, host: str) -> tuple[Mechanism, str]:
        """Return the mechanism of one login, and its credentials."""
        login = await self._logins.find(self._user)
        self.username = login.username
        name = self._logins.mechanism_of(login, self._user)
        if login.token is not None:
            return OAuthBearer(login.token, {}), login.token
        assert login.password is not None
        credentials = json.dumps((name, login.username, login.password))
        return await password_mechanism(self.blocking_calls, name, login.username, login.password), credentials

    def forget(self) -> None:
        """Fetch the credentials again for the next login."""
        self._logins.forget(self._user)


def _remember(cache: OrderedDict[str, Any], name: str, value: object) -> None:
    """Put the value last, and drop the one that was used the longest ago if there are too many."""
    cache[name] = value
    if len(cache) > _MOST_USERS:
        cache.popitem(last=False)


def _unwrapped(output: str) -> dict[str, Any] | None:
    """Return the JSON object with the credentials; {} for no login, and None if there is no object."""
    value: Any = output
    for _ in range(_DEEPEST):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None
        if value is None:
            return {}
        if isinstance(value, dict):
            around = next((key for key in _AROUND if key in value), None)
            if around is None or not {"password", "token"}.isdisjoint(value):
                return value
            value = value[around]
        elif not isinstance(value, str):
            return None
    return None
