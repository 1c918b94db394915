"""Connecting through a SOCKS5 proxy (RFC 1928, RFC 1929), by python-socks. The proxy resolves names."""

from __future__ import annotations

import socket
from typing import Any

from python_socks import ProxyError, ProxyType
from python_socks.async_.asyncio import Proxy

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.base.messages.hops import (
    HOP_TIMEOUT,
    HTTP_INSTEAD_OF_SOCKS,
    NOT_SOCKS,
    PROXY_CONNECT_FAILED,
    PROXY_FORBIDS,
    PROXY_NO_ROUTE_OR_NAME,
    PROXY_PASSWORD_REFUSED,
    PROXY_PASSWORD_REQUIRED,
    SOCKS_GREETING_TIMEOUT,
)
from kproxy.base.messages.reachability import CONNECTION_REFUSED
from kproxy.net.dial.connector import Connector, Deadline, DialStepKind, HopSpec, connect_to_hop

# RFC 1928 §6: replies about the address; all others are about the proxy itself.
_REPLIES = {
    3: ("unreachable", "the proxy has no route to that network"),
    5: CONNECTION_REFUSED.with_reason(),
    6: ("timeout", "the proxy got no answer from that address"),
}


class Socks5:
    """One SOCKS5 proxy."""

    def __init__(self, hop: HopSpec, previous: Connector) -> None:
        assert hop.port is not None
        self._name = f"--via {hop}"
        self._previous = previous
        self._address = Address(hop.host, hop.port)
        self._hop = hop

    async def connect(self, address: Address, deadline: Deadline) -> socket.socket:
        """Ask the proxy for a connection to the address. Raises UpstreamError."""
        connection = _RecordingSocket(
            await connect_to_hop(self._name, "proxy", self._previous, self._address, deadline)
        )
        with deadline.step(DialStepKind.HOP, self._name):
            return await self._connect(connection, address, deadline)

    async def _connect(self, connection: _RecordingSocket, address: Address, deadline: Deadline) -> socket.socket:
        open_connection: Any = _OpenConnection(connection)
        proxy = Proxy(
            ProxyType.SOCKS5,
            host=self._address.host,
            port=self._address.port,
            username=self._hop.user,
            password=self._hop.password,
            rdns=True,
            forward=open_connection,
        )
        try:
            async with deadline.timeout():
                await proxy.connect(address.host, address.port, timeout=deadline.seconds)
            return connection.to_plain_socket()
        except TimeoutError:
            if not connection.first_bytes:
                raise ViaError(*SOCKS_GREETING_TIMEOUT.with_reason(name=self._name, seconds=deadline.seconds)) from None
            timeout = HOP_TIMEOUT.with_reason(address=address, seconds=deadline.seconds, name=self._name)
            raise UpstreamError(*timeout) from None
        except ProxyError as error:
            if connection.first_bytes.startswith(b"H"):  # HTTP/1.1 400 Bad Request
                raise ViaError(*HTTP_INSTEAD_OF_SOCKS.with_reason(name=self._name)) from None
            raise self._explain(address, error) from None
        except UnicodeError:
            raise UpstreamError("resolve", f"{address}: '{address.host}' cannot be a host name") from None
        except OSError as error:
            raise ViaError("proxy", f"{self._name}: {error.strerror or error}") from None

    def _explain(self, address: Address, error: ProxyError) -> UpstreamError:
        code = error.error_code
        if code in _REPLIES:
            reason, text = _REPLIES[code]
            return UpstreamError(reason, f"{address}: {text} (through {self._name})")
        if code == 2:
            return UpstreamError(*PROXY_FORBIDS.with_reason(address=address, name=self._name, answer=""))
        if code == 4:
            return UpstreamError(*PROXY_NO_ROUTE_OR_NAME.with_reason(address=address, name=self._name))
        if code is not None:
            return UpstreamError(*PROXY_CONNECT_FAILED.with_reason(address=address, name=self._name, error=error))
        if "uthentication" in str(error):
            message = PROXY_PASSWORD_REFUSED if self._hop.user else PROXY_PASSWORD_REQUIRED
            return ViaError(*message.with_reason(name=self._name, answer="", scheme="socks5"))
        return ViaError(*NOT_SOCKS.with_reason(name=self._name, error=error))

    async def close(self) -> None:
        """Do nothing: nothing is kept open."""


class _OpenConnection:
    """The object that python-socks expects in place of a previous proxy; its connection is open already."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def connect(self, **_: object) -> socket.socket:
        return self._sock


class _RecordingSocket(socket.socket):
    """A socket that keeps the first bytes received, which python-socks does not return."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(fileno=sock.detach())
        self.setblocking(False)
        self.first_bytes = b""

    def recv(self, *args: int) -> bytes:
        data = super().recv(*args)
        self.first_bytes = self.first_bytes or data
        return data

    def to_plain_socket(self) -> socket.socket:
        """Return the same connection as a plain socket; this object is closed."""
        plain = socket.socket(fileno=self.detach())
        plain.setblocking(False)
        return plain
