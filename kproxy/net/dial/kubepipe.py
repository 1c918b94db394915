"""Connections that an API server opens for a port-forward: a WebSocket, or a connection upgraded to SPDY.

A WebSocket is the current protocol, and proxies let it through. Servers before 1.31 do not support SPDY in it. If such
a server refuses WebSockets, or the user may only `create` port-forwards, kproxy uses the upgrade.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket
from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, NegotiationError
from websockets.http11 import Request
from websockets.typing import Subprotocol

from kproxy.net.dial.kubehttp import KubeHttp
from kproxy.net.dial.kubelogin import KubeLogin

# Servers since 1.31 carry SPDY in it (KEP-4006). Older ones support only the second; a server takes the first it can.
_TUNNEL, _CHANNEL = Subprotocol("SPDY/3.1+portforward.k8s.io"), Subprotocol("v4.channel.k8s.io")
# Kubelets write what they read from the pod, 32 KiB at most; API servers make two frames of it in a tunnel.
_LARGEST_MESSAGE, _FRAMES, _WRITE_AHEAD = 1024 * 1024, 8, 256 * 1024
_CHUNK = 256 * 1024
_PING_SECONDS = 30.0
# The debug lines of websockets contain the Authorization header.
_SILENT = logging.getLogger("kproxy.net.dial.kubepipe.silent")
_SILENT.setLevel(logging.CRITICAL + 1)


class Pipe(Protocol):
    """A duplex connection of bytes (`spdy`), or of messages."""

    spdy: bool

    async def send(self, data: bytes) -> None:
        """Send bytes or a message; wait while the server takes no more. Raises OSError."""
        ...

    async def receive(self) -> bytes:
        """Return the next bytes or message, b"" at the end. Raises OSError and ValueError."""
        ...

    def close(self) -> None: ...


OpenPipe = Callable[[socket.socket, KubeLogin, str], Awaitable[Pipe]]


class _Handshake(ClientProtocol):
    """A handshake with Kubernetes' protocol names, which have a slash and so are refused by websockets (RFC 6455)."""

    def connect(self) -> Request:
        request = super().connect()
        request.headers["Sec-WebSocket-Protocol"] = f"{_TUNNEL}, {_CHANNEL}"
        return request

    def process_subprotocol(self, headers: Headers) -> Subprotocol:
        chosen = headers.get_all("Sec-WebSocket-Protocol")
        for protocol in (_TUNNEL, _CHANNEL):
            if chosen == [protocol]:
                return protocol
        raise NegotiationError("a WebSocket without a protocol for port-forwards")


class _WebSocketConnection(ClientConnection):
    def __init__(self, protocol: ClientProtocol, **options: Any) -> None:
        super().__init__(_Handshake(protocol.uri, max_size=_LARGEST_MESSAGE, logger=_SILENT), **options)


class _WebSocketPipe:
    """A pipe of messages over a WebSocket."""

    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket
        self.spdy = websocket.subprotocol == _TUNNEL

    async def send(self, data: bytes) -> None:
        try:
            await self._websocket.send(data)
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from None

    async def receive(self) -> bytes:
        try:
            while not (message := await self._websocket.recv()):
                pass  # nothing
        except ConnectionClosedOK:
            return b""
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from None
        if isinstance(message, str):
            raise ValueError("a message of text")
        return message

    def close(self) -> None:
        _close(self._websocket.transport)


class _SpdyPipe:
    """A pipe of bytes over an upgraded connection."""

    spdy = True

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, early: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._early = early

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes:
        early, self._early = self._early, b""
        return early or await self._reader.read(_CHUNK)

    def close(self) -> None:
        _close(self._writer.transport)


def _close(transport: asyncio.WriteTransport) -> None:
    transport.abort() if transport.get_write_buffer_size() == 0 else transport.close()


async def open_websocket(sock: socket.socket, login: KubeLogin, path: str) -> Pipe:
    """Open a WebSocket. Raises WebSocketException, ValueError, OSError, EOFError."""
    websocket = await connect_websocket(
        f"{'wss' if login.tls else 'ws'}://{login.server.address}{login.server.prefix}{path}",
        sock=sock,
        ssl=login.tls,
        server_hostname=login.tls_name,
        additional_headers={"Authorization": login.authorization} if login.authorization else {},
        create_connection=_WebSocketConnection,
        compression=None,
        proxy=None,
        open_timeout=None,
        # Pings keep proxies from dropping the connection. Their replies may wait behind data for a slow pod, for ever.
        ping_interval=_PING_SECONDS,
        ping_timeout=None,
        close_timeout=1,
        max_queue=_FRAMES,
        write_limit=_WRITE_AHEAD,
    )
    return _WebSocketPipe(websocket)


async def open_upgraded(sock: socket.socket, login: KubeLogin, path: str) -> Pipe:
    """Upgrade an HTTP connection.

    Raises KubeStatusError, UpgradeRefused, h11.RemoteProtocolError, ValueError, OSError, EOFError.
    """
    reader, writer = await asyncio.open_connection(
        sock=sock, ssl=login.tls, server_hostname=login.tls_name, limit=_CHUNK // 2
    )
    try:
        return _SpdyPipe(reader, writer, await KubeHttp(reader, writer, login).upgrade(path))
    except BaseException:
        writer.transport.abort()
        raise
