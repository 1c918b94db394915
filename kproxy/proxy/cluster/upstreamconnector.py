"""The connector to one upstream: it opens a connection that is ready for requests: connect, TLS, login."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.client.ask.channel import Channel, ConnectionChannel
from kproxy.config import ClusterConfig
from kproxy.config.sasl import SaslOptions
from kproxy.config.sources import environment_of_commands
from kproxy.net.dial.connector import Deadline, DialStepKind, OnStep
from kproxy.net.dial.dialer import Dialer
from kproxy.net.dial.forwardcommands import ForwardCommands
from kproxy.net.dial.stream import Stream
from kproxy.net.tls.handshakes import BrokerTls
from kproxy.net.tls.tlssocket import TlsSocket
from kproxy.proxy.cluster.encryption import broker_tls

if TYPE_CHECKING:
    from kproxy.client.sasl.exchange import Versions
    from kproxy.client.sasl.login import LoginContext, SaslLogin
    from kproxy.client.sasl.userlogins import UserLogins


@dataclass(slots=True, eq=False)
class UpstreamConnection:
    """An open upstream connection. It is not known yet which node it leads to. Nothing of it changes."""

    sock: socket.socket
    channel: ConnectionChannel
    """The channel for kproxy's own requests, before any of a client."""
    login: LoginContext | None = None
    """The result of kproxy's own login to the broker, if it made one."""
    names: tuple[str, ...] = ()
    """The names in the broker's certificate, if each broker must have its own."""


class UpstreamConnector:
    """The connector of one upstream, with its hops, TLS and login."""

    def __init__(
        self,
        config: ClusterConfig,
        tasks: asyncio.TaskGroup,
        is_own: Callable[[Address], bool],
        is_present: Callable[[str], bool] = lambda label: True,
        on_forward_end: Callable[[str], None] = lambda label: None,
    ) -> None:
        """Open nothing yet. `is_present` and `on_forward_end` are for `ForwardCommands`."""
        self._config = config
        self._tasks = tasks
        self._is_own = is_own
        self._is_present = is_present
        self._on_forward_end = on_forward_end
        self.forwards = self._new_forwards(config)
        self._dialer = Dialer(config.via, config.connect_timeout, tasks, is_own)
        self._former: set[Dialer | ForwardCommands] = set()  # those whose connections are still in use
        self._tls = broker_tls(config)
        self._login = _login(config)
        self._user_logins = _user_logins(config)
        self._versions: dict[Address, Versions] = {}  # of the login APIs, from the last login at each address

    def reconfigure(self, config: ClusterConfig, tls: BrokerTls | None, seconds: float) -> None:
        """Use this configuration and TLS for the next connections.

        What is kept open for present connections, such as one to an SSH server, is closed after this many seconds if it
        is no longer used.
        """
        before, self._config = self._config, config
        self._tls = tls
        if config.forward_command != before.forward_command:
            self._close_later(self.forwards, seconds)
            self.forwards = self._new_forwards(config)
        if config.via != before.via:
            self._close_later(self._dialer, seconds)
            self._dialer = Dialer(config.via, config.connect_timeout, self._tasks, self._is_own)
        else:
            self._dialer.set_timeout(config.connect_timeout)
        of_login = (*(option.name for option in fields(SaslOptions)), "connect_timeout", "users_file")
        if any(getattr(config, name) != getattr(before, name) for name in of_login):
            # Sessions that log in again do so with theirs.
            self._login, self._user_logins = _login(config), _user_logins(config)
        self._versions.clear()

    def end(self, seconds: float) -> None:
        """Open no further connections. What is kept open is closed after this many seconds."""
        self._close_later(self._dialer, seconds)
        self._close_later(self.forwards, seconds)

    def _new_forwards(self, config: ClusterConfig) -> ForwardCommands:
        return ForwardCommands(
            config.forward_command,
            self._tasks,
            environment_of_commands(os.environ),
            config.title,
            self._is_present,
            self._on_forward_end,
        )

    def _close_later(self, former: Dialer | ForwardCommands, seconds: float) -> None:
        self._former.add(former)
        self._tasks.create_task(self._close_former(former, seconds))

    async def _close_former(self, former: Dialer | ForwardCommands, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._former.discard(former)
        await former.close()

    @property
    def logs_in(self) -> bool:
        """True if kproxy logs in on the clients' behalf."""
        return self._login is not None

    def login_for(self, user: str | None) -> SaslLogin | None:
        """Return the login to the brokers for a user who has logged in at kproxy, or, for None, for kproxy itself.

        None: kproxy does not log in. Users share the login of the cluster, unless each has a login (`--login-as user`).
        """
        if user is None or self._user_logins is None:
            return self._login
        return self._user_logins.login_of(user)

    async def log_in(self, channel: Channel, user: str, address: Address, name: str) -> LoginContext | None:
        """Log in within a session for a user who has logged in at kproxy. Raises UpstreamError.

        A broker answers one ApiVersions request before a login: the client's. So the versions must be known.
        """
        login = self.login_for(user)
        if login is None:
            return None
        from kproxy.client.sasl.login import LoginContext  # few need it

        if address not in self._versions:
            (await self.open(address, name)).sock.close()
        attempt = await login.prepare(address, name)
        try:
            result = await login.log_in(channel, attempt, self._versions[address])
        except UpstreamError:
            self._versions.pop(address, None)
            raise
        return LoginContext(login, address, name, result)

    async def connect(self, address: Address) -> socket.socket:
        """Connect through the hops, without TLS and login. Raises UpstreamError."""
        await self.forwards.prepare(address)
        return await self._dialer.connect(address)

    async def open(
        self, address: Address, name: str, on_step: OnStep | None = None, *, logs_in: bool = True
    ) -> UpstreamConnection:
        """Connect, do the TLS handshake, log in. Raises UpstreamError.

        `name` is the broker's own host name, which its certificate must have. `on_step` is called when each step has
        ended. Without `logs_in`, the login follows within a session (`log_in`).
        """
        await self.forwards.prepare(address)
        login = self.login_for(None) if logs_in else None
        attempt = await login.prepare(address, name) if login else None
        config = self._config
        limit = Deadline.after(config.connect_timeout, on_step)
        connect = partial(self._dialer.connect, address, limit)
        sock = await (connect() if self._tls is None else self._tls.open(connect, address, name, limit))
        names = tuple(sock.peer_names()) if config.tls_server_name is None and isinstance(sock, TlsSocket) else ()
        channel = ConnectionChannel(Stream(sock))
        if login is None or attempt is None:
            return UpstreamConnection(sock, channel, None, names)
        from kproxy.client.sasl.login import LoginContext  # few need it

        try:
            with limit.step(DialStepKind.LOGIN, address):
                result = await login.log_in(channel, attempt)
            self._versions[address] = result.versions
            return UpstreamConnection(sock, channel, LoginContext(login, address, name, result), names)
        except BaseException:
            sock.close()
            raise

    async def close(self) -> None:
        """Close what is kept open for later connections."""
        for opened in (self._dialer, self.forwards, *self._former):
            await opened.close()


def _login(config: ClusterConfig) -> SaslLogin | None:
    if config.sasl is None:
        return None
    from kproxy.client.sasl.login import SaslLogin  # few need it

    return SaslLogin(config)


def _user_logins(config: ClusterConfig) -> UserLogins | None:
    if config.login_as != "user" or config.sasl is None:
        return None
    from kproxy.client.sasl.userlogins import UserLogins  # few need it

    return UserLogins(config)
