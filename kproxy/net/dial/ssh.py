"""Connecting through an SSH server, as `ssh -J` does: one asyncssh connection, with a channel per upstream connection.

The connection is opened when it is first needed, and again, with growing pauses, after it was lost. `sshfiles` reads
the server's settings from the user's files.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import asyncssh

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.base.messages.hops import (
    HOP_TIMEOUT,
    HOST_KEY_CHANGED,
    HOST_KEY_REVOKED,
    HOST_KEY_UNKNOWN,
    NOT_SSH,
    PROXY_COMMAND_BEHIND_HOP,
    PROXY_JUMP_LOOP,
    SSH_CONFIG_MISTAKE,
    SSH_CONNECT_FAILED,
    SSH_CONNECTION_LOST,
    SSH_FAILED,
    SSH_FORWARDING_FORBIDDEN,
    SSH_KEYS_REFUSED,
    SSH_LOGIN_TIMEOUT,
)
from kproxy.base.repeats import about
from kproxy.net.dial.bridge import BridgeEnd, bridge
from kproxy.net.dial.connector import Connector, Deadline, DialStepKind, HopSpec, connect_to_hop
from kproxy.net.dial.direct import DirectConnector
from kproxy.net.dial.sshfiles import SshServer, parse_proxy_jump, read_ssh_server

log = logging.getLogger(__name__)

# A login may take longer than one upstream connection: slow directories behind the server, name look-ups.
_LOGIN_SECONDS = 30.0
# Unless ServerAliveInterval says otherwise, a dead connection is noticed after 3 * 15 s.
_KEEPALIVE = 15.0
# The pauses between two logins, in seconds, doubled each time. Servers ban clients that they refuse repeatedly.
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_AFTER_REFUSAL = 0.5, 5.0, 60.0
# The most nested ProxyJumps: deeper ones are a loop.
_MAX_JUMPS = 8


class Ssh:
    """One SSH server. A login continues in `tasks` even if no caller waits any longer."""

    def __init__(
        self, hop: HopSpec, previous: Connector, tasks: asyncio.TaskGroup, name: str = "", depth: int = 0
    ) -> None:
        self._hop = hop
        self._name = name or f"--via {hop}"
        self._previous = previous
        self._tasks = tasks
        self._depth = depth
        self._connection: asyncssh.SSHClientConnection | None = None
        self._login: asyncio.Task[None] | None = None
        self._failure = ViaError("ssh", f"{self._name}: not connected")
        self._pause = 0.0
        self._not_before = 0.0  # by the loop's clock; until then the last failure is raised again
        self._jumps: list[Ssh] = []

    async def connect(self, address: Address, deadline: Deadline) -> socket.socket:
        """Open a channel to the address. Raises UpstreamError."""
        with deadline.step(DialStepKind.HOP, self._name):
            return await self._channel(address, deadline)

    async def _channel(self, address: Address, deadline: Deadline) -> socket.socket:
        connection = await self._get_connection(deadline)
        # A task: asyncssh does not close a channel whose opening was cancelled.
        opening = self._tasks.create_task(self._open_channel(connection, address))
        try:
            await asyncio.wait([opening], timeout=deadline.remaining)
        finally:
            if not opening.done():
                opening.add_done_callback(_close_late)
        if not opening.done():
            timeout = HOP_TIMEOUT.with_reason(address=address, seconds=deadline.seconds, name=self._name)
            raise UpstreamError(*timeout)
        opened = opening.result()
        if isinstance(opened, UpstreamError):
            raise opened
        return opened

    async def _open_channel(
        self, connection: asyncssh.SSHClientConnection, address: Address
    ) -> socket.socket | UpstreamError:
        try:
            return await bridge(lambda end: connection.create_connection(_as_session(end), address.host, address.port))
        except Exception as error:  # noqa: BLE001 - nothing that a server makes of asyncssh may end kproxy
            if connection is not self._connection:
                return ViaError("ssh", f"{self._name}: the connection was lost")
            return explain_channel_failure(self._name, address, error)

    async def _get_connection(self, deadline: Deadline) -> asyncssh.SSHClientConnection:
        if self._connection is None:
            if self._login is None and asyncio.get_running_loop().time() >= self._not_before:
                self._login = self._tasks.create_task(self._log_in())
            if (login := self._login) is not None:
                await asyncio.wait([login], timeout=deadline.remaining)
                if not login.done():
                    raise ViaError(*SSH_LOGIN_TIMEOUT.with_reason(name=self._name, seconds=deadline.seconds))
            if self._connection is None:
                raise ViaError(self._failure.reason, str(self._failure))
        return self._connection

    async def _log_in(self) -> None:
        """Set `_connection`, or `_failure` and the time until which it holds."""
        client = _SshClient()
        server = None
        try:
            async with asyncio.timeout(_LOGIN_SECONDS):
                # In a thread: it reads files, and `Match exec` runs programs.
                server = await asyncio.to_thread(read_ssh_server, self._hop)
                connection = await self._connect_to(server, client)
        except Exception as error:  # noqa: BLE001 - likewise
            if isinstance(error, ViaError):
                self._failure = error
            else:
                self._failure = explain_login_failure(self._name, server, error, client.host_key)
            refused = self._failure.reason in ("ssh-auth", "ssh-host-key")
            longest = _LONGEST_AFTER_REFUSAL if refused else _LONGEST_PAUSE
            self._pause = min(max(self._pause * 2, _FIRST_PAUSE), longest)
            self._not_before = asyncio.get_running_loop().time() + self._pause
            await self._close_jumps()
        else:
            self._connection = connection
            self._pause = 0.0
            log.info("%s: logged in as %s", self._name, server.user)
            self._tasks.create_task(self._watch(connection, client))
        finally:
            self._login = None

    async def _connect_to(self, server: SshServer, client: _SshClient) -> asyncssh.SSHClientConnection:
        previous = self._previous
        sock = None
        if server.proxy_command is None:
            for jump in parse_proxy_jump(server.proxy_jump):
                if self._depth >= _MAX_JUMPS:
                    raise ViaError(*PROXY_JUMP_LOOP.with_reason(name=self._name))
                name = f"{self._name.partition(', ')[0]}, ProxyJump {jump}"
                previous = Ssh(jump, previous, self._tasks, name, self._depth + 1)
                self._jumps.append(previous)
            deadline = Deadline.after(_LOGIN_SECONDS)
            sock = await connect_to_hop(self._name, "ssh", previous, Address(server.host, server.port), deadline)
        elif not isinstance(previous, DirectConnector):
            raise ViaError(*PROXY_COMMAND_BEHIND_HOP.with_reason(name=self._name))
        try:
            connection, _ = await asyncssh.create_connection(
                lambda: client,
                self._hop.host,
                sock=sock,
                **server.arguments,
                tunnel=None,
                proxy_command=server.proxy_command,
                connect_timeout=None,
                login_timeout=_LOGIN_SECONDS,
                keepalive_interval=server.keepalive or _KEEPALIVE,
            )
        except BaseException:
            if sock is not None:
                sock.close()
            raise
        return connection

    async def _watch(self, connection: asyncssh.SSHClientConnection, client: _SshClient) -> None:
        """Wait for the end of the connection, and log it."""
        await connection.wait_closed()
        if self._connection is connection:
            self._connection = None
            reason = " ".join(str(client.lost or "the server closed it").split())
            log.warning(SSH_CONNECTION_LOST(name=self._name, reason=reason), extra=about(self._name))
        await self._close_jumps()

    async def _close_jumps(self) -> None:
        while self._jumps:
            await self._jumps.pop().close()

    async def close(self) -> None:
        """End the connection, and with it all channels."""
        if self._login is not None:
            self._login.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
            await connection.wait_closed()
        await self._close_jumps()


class _SshClient(asyncssh.SSHClient):
    """An SSH client that records why a connection ends, and an untrusted host key. It answers no prompts."""

    def __init__(self) -> None:
        self.lost: Exception | None = None
        self.host_key: str | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.host_key = f"{key.get_algorithm()} {key.get_fingerprint()}"
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc


def _as_session(end: BridgeEnd) -> Any:
    """Return a factory for the session.

    A BridgeEnd has all callbacks of asyncssh's session, but not its base class, so that `bridge` does not import
    asyncssh.
    """
    return lambda: end


def _close_late(opening: asyncio.Task[socket.socket | UpstreamError]) -> None:
    if not opening.cancelled() and isinstance(opened := opening.result(), socket.socket):
        opened.close()


# Words in the server's message for an address that it cannot connect to: OpenSSH's are those of its C library.
_WORDS = (
    ("refused", "refused"),
    ("not known", "resolve"),
    ("resol", "resolve"),
    ("timed out", "timeout"),
    ("unreachable", "unreachable"),
    ("no route", "unreachable"),
)


def explain_login_failure(name: str, server: SshServer | None, error: Exception, host_key: str | None) -> ViaError:
    """Return the error for a failed login at the server `name`.

    `host_key` is the server's host key if it is not trusted.
    """
    message = " ".join(str(error).split())
    if server is None:
        return ViaError(*SSH_CONFIG_MISTAKE.with_reason(name=name, message=message))
    if isinstance(error, TimeoutError):
        return ViaError("ssh", f"{name}: the SSH server did not finish the login")
    if isinstance(error, asyncssh.PermissionDenied):
        return ViaError(*SSH_KEYS_REFUSED.with_reason(name=name, user=server.user))
    no_key_in_common = isinstance(error, asyncssh.KeyExchangeFailed) and "host key" in message
    if isinstance(error, asyncssh.HostKeyNotVerifiable) or no_key_in_common:
        return _explain_host_key(name, server, host_key, message)
    if isinstance(
        error, ConnectionError | asyncssh.ConnectionLost | asyncssh.ProtocolError | asyncssh.ProtocolNotSupported
    ):
        return ViaError(*NOT_SSH.with_reason(name=name, message=message))
    return ViaError(*SSH_FAILED.with_reason(name=name, message=message))


def _explain_host_key(name: str, server: SshServer, host_key: str | None, error: str) -> ViaError:
    key = f" ({host_key})" if host_key else ""
    if "revoked" in error:
        return ViaError(*HOST_KEY_REVOKED.with_reason(name=name, host=server.known_as))
    message = HOST_KEY_CHANGED if server.is_known else HOST_KEY_UNKNOWN
    return ViaError(*message.with_reason(name=name, host=server.known_as, key=key))


def explain_channel_failure(name: str, address: Address, error: Exception) -> UpstreamError:
    """Return the error for a channel that the server `name` refuses after a login."""
    message = " ".join(str(error).split())
    if not isinstance(error, asyncssh.ChannelOpenError):
        return ViaError("ssh", f"{name}: {message}")
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return UpstreamError(*SSH_FORWARDING_FORBIDDEN.with_reason(address=address, name=name))
    reason = next((reason for words, reason in _WORDS if words in message.lower()), "other")
    return UpstreamError(reason, SSH_CONNECT_FAILED(address=address, name=name, message=message))
