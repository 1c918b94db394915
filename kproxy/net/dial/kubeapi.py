"""Requests to a Kubernetes API server, each on a connection of its own through the hops before it.

A library of Kubernetes' would open its connections itself, and so could not use another hop. h11 speaks HTTP,
websockets the rest. A response is trusted only for the address that was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import h11
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, WebSocketException

from kproxy.base.errors import ViaError
from kproxy.base.messages.hops import KUBERNETES_LOGIN_REFUSED
from kproxy.base.printable import one_line
from kproxy.net.dial.connector import Connector, Deadline, connect_to_hop
from kproxy.net.dial.httpconnect import HttpConnect
from kproxy.net.dial.kubeconfig import KubeProxy
from kproxy.net.dial.kubehttp import KubeHttp, KubeStatusError, UpgradeRefused
from kproxy.net.dial.kubelogin import KubeLogin, KubeLogins
from kproxy.net.dial.kubepipe import OpenPipe, Pipe, open_upgraded, open_websocket
from kproxy.net.dial.socks import Socks5

T = TypeVar("T")

# Refusals because of the login, the pod or the server's load: the other protocol would be refused as well.
_FINAL_STATUSES = (401, 404, 409, 429, 503)
# Refusals by the API server itself; proxies refuse an upgrade with other statuses.
_SERVER_STATUSES = (401, 403, 404, 409)


class KubeApi:
    """One API server."""

    def __init__(self, name: str, context: str | None, previous: Connector, tasks: asyncio.TaskGroup) -> None:
        self._name = name
        self._previous = previous
        self._proxies: dict[KubeProxy, Connector] = {}
        self._logins = KubeLogins(name, context, tasks)
        self._openings: tuple[OpenPipe, OpenPipe] = (
            open_websocket,
            open_upgraded,
        )  # the one that worked last comes first

    async def get(self, path: str, deadline: Deadline) -> Any:
        """Return a JSON document. Raises KubeStatusError and ViaError."""
        return await self._with_login(lambda login: self._fetch(login, path, deadline), deadline)

    async def open_forward(self, path: str, deadline: Deadline) -> Pipe:
        """Return a connection for a port-forward. Raises KubeStatusError and UpstreamError."""
        return await self._with_login(lambda login: self._open_either_way(login, path, deadline), deadline)

    async def close(self) -> None:
        await self._logins.close()

    async def _with_login(self, ask: Callable[[KubeLogin], Awaitable[T]], deadline: Deadline) -> T:
        refused: KubeStatusError | None = None
        for _ in range(2):  # the token may have been revoked, or the file may have another one by now
            login = await self._logins.current(deadline)
            try:
                return await ask(login)
            except KubeStatusError as error:
                if error.status != 401:
                    raise
                refused = error
            self._logins.discard(login)
        raise ViaError(
            *KUBERNETES_LOGIN_REFUSED.with_reason(name=self._name, context=login.server.context, error=refused)
        )

    async def _socket(self, login: KubeLogin, deadline: Deadline) -> socket.socket:
        previous = self._previous if login.server.proxy is None else self._proxy_connector(login.server.proxy)
        return await connect_to_hop(
            f"{self._name}: the API server", "kubernetes", previous, login.server.address, deadline
        )

    def _proxy_connector(self, proxy: KubeProxy) -> Connector:
        if proxy not in self._proxies:  # the kubeconfig may have another one by now
            kind = Socks5 if proxy.scheme == "socks5" else HttpConnect
            self._proxies = {proxy: kind(proxy, self._previous)}
        return self._proxies[proxy]

    @contextlib.contextmanager
    def _errors(self, login: KubeLogin, sock: socket.socket, deadline: Deadline) -> Iterator[None]:
        server = f"{self._name}: the API server {login.server.address}"
        try:
            yield
        except TimeoutError:
            raise ViaError("kubernetes", f"{server} gave no answer within {deadline.seconds:g} s") from None
        except ssl.SSLCertVerificationError as error:
            text = f"has a certificate that the kubeconfig does not trust: {error.verify_message}"
            raise ViaError("kubernetes", f"{server} {text}") from None
        except (h11.RemoteProtocolError, WebSocketException, ValueError, RecursionError) as error:
            if isinstance(error, InvalidStatus) and error.response.status_code >= 400:
                body = error.response.body or b""
                raise KubeStatusError(error.response.status_code, bytes(body)) from None
            text = f"does not answer as Kubernetes does ({one_line(str(error), 200)})"
            # As in kubectl: any HTTP response that is not the upgrade.
            if isinstance(error, UpgradeRefused | InvalidHandshake) and not isinstance(error, InvalidMessage):
                raise UpgradeRefused(f"{server} {text}") from None
            raise ViaError("kubernetes", f"{server} {text}") from None
        except (OSError, EOFError) as error:
            text = f"closed the connection ({getattr(error, 'strerror', None) or type(error).__name__})"
            raise ViaError("kubernetes", f"{server} {text}") from None
        except BaseException:
            sock.close()
            raise

    async def _fetch(self, login: KubeLogin, path: str, deadline: Deadline) -> Any:
        sock = await self._socket(login, deadline)
        with contextlib.closing(sock), self._errors(login, sock, deadline):
            async with deadline.timeout():
                reader, writer = await asyncio.open_connection(sock=sock, ssl=login.tls, server_hostname=login.tls_name)
                try:
                    return json.loads(await KubeHttp(reader, writer, login).get(path))
                finally:
                    writer.transport.abort()

    async def _open_either_way(self, login: KubeLogin, path: str, deadline: Deadline) -> Pipe:
        """Open a WebSocket, or upgrade HTTP if the server, a proxy before it or a role refuses WebSockets."""
        first, second = self._openings
        refused: KubeStatusError | ViaError
        try:
            return await self._open(first, login, path, deadline)
        except KubeStatusError as error:
            if error.status in _FINAL_STATUSES:
                raise
            refused = error
        except UpgradeRefused as error:
            refused = ViaError("kubernetes", str(error))
        try:
            opened = await self._open(second, login, path, deadline)
        except KubeStatusError as error:
            raise error if error.status in _SERVER_STATUSES else refused from None
        except (UpgradeRefused, ViaError):
            raise refused from None
        self._openings = second, first
        return opened

    async def _open(self, opening: OpenPipe, login: KubeLogin, path: str, deadline: Deadline) -> Pipe:
        """Open a connection in one of the two ways. Raises KubeStatusError, UpgradeRefused and ViaError."""
        sock = await self._socket(login, deadline)
        try:
            with self._errors(login, sock, deadline):
                async with deadline.timeout():
                    return await opening(sock, login, path)
        except BaseException:
            sock.close()
            raise
