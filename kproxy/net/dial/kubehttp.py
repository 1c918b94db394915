"""One HTTP request to a Kubernetes API server, by h11: for a document, or for an upgrade to SPDY.

It needs no websockets, so `kproxy migrate switch` finds pods with it too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import h11

from kproxy.base.printable import one_line
from kproxy.net.dial.kubelogin import KubeLogin

# A list of a namespace's pods with one IP address is short; that of pods with labels has some KiB for each.
_MOST = 64 * 1024 * 1024
_SPDY, _PORT_FORWARD = "SPDY/3.1", "portforward.k8s.io"


class KubeStatusError(Exception):
    """An HTTP status that refuses the request; `str()` is the server's message."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        try:
            message = json.loads(body)["message"]
        except (ValueError, KeyError, TypeError, RecursionError):
            message = body.decode(errors="replace")
        super().__init__(one_line(str(message).strip() or f"HTTP {status}", 300))


class UpgradeRefused(ValueError):
    """The server answers, but not with the protocol that kproxy asked for."""


class KubeHttp:
    """A connection for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, login: KubeLogin) -> None:
        self._reader = reader
        self._writer = writer
        self._login = login
        self._http = h11.Connection(h11.CLIENT)

    async def get(self, path: str) -> bytes:
        """Return the document at the path.

        Raises KubeStatusError, h11.RemoteProtocolError, ValueError, OSError, EOFError.
        """
        response = await self._send("GET", path, [("Accept", "application/json"), ("Connection", "close")])
        body = await self._body()
        if response.status_code != 200:
            raise KubeStatusError(response.status_code, body)
        return body

    async def upgrade(self, path: str) -> bytes:
        """Upgrade the connection to SPDY, and return its first bytes. Raises UpgradeRefused and what `get` raises."""
        headers = [("Connection", "Upgrade"), ("Upgrade", _SPDY), ("X-Stream-Protocol-Version", _PORT_FORWARD)]
        response = await self._send("POST", path, [*headers, ("Content-Length", "0")])
        if isinstance(response, h11.Response):
            body = await self._body()
            if response.status_code >= 400:
                raise KubeStatusError(response.status_code, body)
            raise UpgradeRefused(f"HTTP {response.status_code} instead of {_SPDY}")
        response_headers = {name: value.decode(errors="replace").lower() for name, value in response.headers}
        if (
            response_headers.get(b"upgrade") != _SPDY.lower()
            or response_headers.get(b"x-stream-protocol-version") != _PORT_FORWARD
        ):
            raise UpgradeRefused(f"another protocol than {_SPDY} with {_PORT_FORWARD}")
        return self._http.trailing_data[0]

    async def _send(
        self, method: str, path: str, headers: Sequence[tuple[str, str]]
    ) -> h11.Response | h11.InformationalResponse:
        """Send the request, and return the head of the response."""
        all_headers = [("Host", str(self._login.server.address)), *headers]
        if self._login.authorization:
            all_headers.append(("Authorization", self._login.authorization))
        request = h11.Request(method=method, target=self._login.server.prefix + path, headers=all_headers)
        self._writer.write((self._http.send(request) or b"") + (self._http.send(h11.EndOfMessage()) or b""))
        await self._writer.drain()
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                return event

    async def _body(self) -> bytes:
        body = bytearray()
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body += event.data
            if len(body) > _MOST:
                raise ValueError("an answer of more than 64 MiB")
        return bytes(body)

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = await self._reader.read(65536)
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise EOFError
            self._http.receive_data(data)
        if isinstance(event, h11.ConnectionClosed):
            raise EOFError
        return event
