"""Asking a Kubernetes API server, each time on a connection of its own along the way before the hop.

A library of Kubernetes' would open its connections itself, and so could not go through another hop. h11 speaks HTTP,
websockets the rest; what the server says is believed of nothing but the address that was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import h11
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from kproxy.dial.hops import Limit, Way, reach_hop
from kproxy.dial.httpconnect import HttpConnect
from kproxy.dial.kubeconfig import Proxy
from kproxy.dial.kubelogin import Login, Logins
from kproxy.dial.socks import Socks5
from kproxy.errors import ViaError
from kproxy.printable import one_line

T = TypeVar("T")

# A list of a namespace's pods with one IP address is short; that of a Service's endpoints has some KiB for each pod.
_MOST = 16 * 1024 * 1024
# Kubelets write what they read from the pod, 32 KiB at most.
_LARGEST_MESSAGE, _MESSAGES, _WRITE_AHEAD = 1024 * 1024, 4, 256 * 1024
_PING_SECONDS = 30.0
# Its debug lines have the Authorization header.
_SILENT = logging.getLogger("kproxy.dial.kubeapi.silent")
_SILENT.setLevel(logging.CRITICAL + 1)


class Refusal(Exception):
    """The server's no: `status` is HTTP's, `str()` what it says."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        try:
            said = json.loads(body)["message"]
        except (ValueError, KeyError, TypeError, RecursionError):
            said = body.decode(errors="replace")
        super().__init__(one_line(str(said).strip() or f"HTTP {status}", 300))


class Api:
    """One API server."""

    def __init__(self, name: str, context: str | None, before: Way, tasks: asyncio.TaskGroup) -> None:
        self._name = name
        self._before = before
        self._through: dict[Proxy, Way] = {}
        self._logins = Logins(name, context, tasks)

    async def get(self, path: str, limit: Limit) -> Any:
        """A document. Raises Refusal, and ViaError."""
        return await self._logged_in(lambda login: self._fetched(login, path, limit), limit)

    async def websocket(self, path: str, subprotocol: str, limit: Limit) -> ClientConnection:
        """Raises Refusal, and UpstreamError."""
        return await self._logged_in(lambda login: self._opened(login, path, subprotocol, limit), limit)

    async def close(self) -> None:
        await self._logins.close()

    async def _logged_in(self, ask: Callable[[Login], Awaitable[T]], limit: Limit) -> T:
        login = await self._logins.current(limit)
        try:
            return await ask(login)
        except Refusal as error:
            if error.status != 401:
                raise
        # The token may have ended before its time, or the file has another one by now.
        self._logins.refused(login)
        login = await self._logins.current(limit)
        try:
            return await ask(login)
        except Refusal as error:
            if error.status != 401:
                raise
            self._logins.refused(login)
            text = f"the API server does not accept the login of context '{login.server.context}' ({error})"
            raise ViaError("kubernetes-auth", f"{self._name}: {text}: log in again; try 'kubectl get pods'") from None

    async def _socket(self, login: Login, limit: Limit) -> socket.socket:
        before = self._before if login.server.proxy is None else self._way(login.server.proxy)
        return await reach_hop(f"{self._name}: the API server", "kubernetes", before, login.server.address, limit)

    def _way(self, proxy: Proxy) -> Way:
        if proxy not in self._through:  # the kubeconfig may have another one by now
            kind = Socks5 if proxy.scheme == "socks5" else HttpConnect
            self._through = {proxy: kind(proxy, self._before)}
        return self._through[proxy]

    @contextlib.contextmanager
    def _errors(self, login: Login, sock: socket.socket, limit: Limit) -> Iterator[None]:
        server = f"{self._name}: the API server {login.server.address}"
        try:
            yield
        except TimeoutError:
            raise ViaError("kubernetes", f"{server} gave no answer within {limit.seconds:g} s") from None
        except ssl.SSLCertVerificationError as error:
            text = f"has a certificate that the kubeconfig does not trust: {error.verify_message}"
            raise ViaError("kubernetes", f"{server} {text}") from None
        except (h11.RemoteProtocolError, WebSocketException, ValueError, RecursionError) as error:
            if isinstance(error, InvalidStatus) and error.response.status_code >= 400:
                body = error.response.body or b""
                raise Refusal(error.response.status_code, bytes(body)) from None
            text = one_line(str(error), 200)
            raise ViaError("kubernetes", f"{server} does not answer as Kubernetes does ({text})") from None
        except (OSError, EOFError) as error:
            text = f"broke the connection off ({getattr(error, 'strerror', None) or type(error).__name__})"
            raise ViaError("kubernetes", f"{server} {text}") from None
        except BaseException:
            sock.close()
            raise

    async def _fetched(self, login: Login, path: str, limit: Limit) -> Any:
        sock = await self._socket(login, limit)
        with contextlib.closing(sock), self._errors(login, sock, limit):
            async with limit.timeout():
                reader, writer = await asyncio.open_connection(
                    sock=sock, ssl=login.tls, server_hostname=_server_name(login)
                )
                try:
                    status, body = await _asked(reader, writer, login, path)
                finally:
                    writer.transport.abort()
            if status == 200:
                return json.loads(body)
        raise Refusal(status, body)

    async def _opened(self, login: Login, path: str, subprotocol: str, limit: Limit) -> ClientConnection:
        sock = await self._socket(login, limit)
        headers = {"Authorization": login.authorization} if login.authorization else {}
        scheme = "wss" if login.tls else "ws"
        try:
            with self._errors(login, sock, limit):
                async with limit.timeout():
                    opened = await connect_websocket(
                        f"{scheme}://{login.server.address}{login.server.prefix}{path}",
                        sock=sock,
                        ssl=login.tls,
                        server_hostname=_server_name(login),
                        additional_headers=headers,
                        subprotocols=[Subprotocol(subprotocol)],
                        compression=None,
                        proxy=None,
                        open_timeout=None,
                        # Pings keep what is between alive. Their answers wait behind data for a slow pod, for ever.
                        ping_interval=_PING_SECONDS,
                        ping_timeout=None,
                        close_timeout=1,
                        max_size=_LARGEST_MESSAGE,
                        max_queue=_MESSAGES,
                        write_limit=_WRITE_AHEAD,
                        logger=_SILENT,
                    )
            if opened.subprotocol != subprotocol:
                opened.transport.abort()
                text = f"does not speak {subprotocol} for port-forwards over WebSocket"
                raise ViaError("kubernetes", f"{self._name}: the API server {login.server.address} {text}")
        except BaseException:
            sock.close()
            raise
        return opened


async def _asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, login: Login, path: str
) -> tuple[int, bytes]:
    http = h11.Connection(h11.CLIENT)
    headers = [("Host", str(login.server.address)), ("Accept", "application/json"), ("Connection", "close")]
    if login.authorization:
        headers.append(("Authorization", login.authorization))
    request = h11.Request(method="GET", target=login.server.prefix + path, headers=headers)
    writer.write((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
    await writer.drain()
    status, body = 0, bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            if not (data := await reader.read(65536)) and not status:
                raise EOFError
            http.receive_data(data)
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _MOST:
                raise ValueError("an answer of more than 16 MiB")
        elif isinstance(event, h11.EndOfMessage):
            return status, bytes(body)
        elif isinstance(event, h11.ConnectionClosed):
            raise EOFError


def _server_name(login: Login) -> str | None:
    return None if login.tls is None else login.server.tls_name or login.server.address.host
