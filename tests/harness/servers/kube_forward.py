"""The part of a Kubernetes API server that forwarding ports needs, over v4.channel.k8s.io or SPDY.

Services, EndpointSlices, pods, and port-forwards to ports of this machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from tests.harness.servers.spdy_server import MultiplexingNode, Node, Receive, Send

TUNNEL, CHANNEL = Subprotocol("SPDY/3.1+portforward.k8s.io"), Subprotocol("v4.channel.k8s.io")

SpdyPeer = Callable[[Send, Receive], Awaitable[None]]


class Forwarding:
    """The objects of the server. `pods` maps namespace/pod:port to a port of this machine.

    `speaks` has the protocols of its WebSockets, and "POST" if it upgrades to SPDY.
    """

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.pods: dict[str, int] = {}
        self.tokens = {"good"}
        self.forbidden: set[str] = set()  # ends of paths
        self.asked: list[str] = []
        self.forwards: list[str] = []  # how they were asked for: GET is a WebSocket, POST an upgrade
        self.speaks: set[str] = {TUNNEL, CHANNEL, "POST"}
        self.without_right: set[str] = set()  # methods that the user may not use for port-forwards
        self.instead: SpdyPeer | None = None  # what speaks SPDY in place of a node
        self.passes_ends = True
        self.authorizations: set[str | None] = set()
        self.port = 0
        self.inner = 0  # where the WebSockets are

    def add_service(self, namespace: str, name: str, ports: dict[str, tuple[int, int]], pods: dict[str, bool]) -> None:
        """Add a Service. `ports`: by name, port and target port. `pods`: by name, whether it is ready."""
        metadata = {"name": name, "namespace": namespace}
        given = [{"name": one, "port": port} for one, (port, _) in ports.items()]
        spec = {"clusterIP": "10.0.0.1", "ports": given}
        self.documents[f"/api/v1/namespaces/{namespace}/services/{name}"] = {"metadata": metadata, "spec": spec}
        endpoints = [
            {"conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}, "hostname": f"host-of-{pod}"}
            for pod, ready in pods.items()
        ]
        targets = [{"name": one, "port": target} for one, (_, target) in ports.items()]
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self.documents[f"{path}?labelSelector=kubernetes.io/service-name={name}"] = {
            "items": [{"ports": targets, "endpoints": endpoints}]
        }

    def serve_kubectl(self, namespace: str, pods: dict[str, tuple[int, int]]) -> None:
        """Let kubectl forward to these pods: their ports, and the port of this machine that each leads to.

        kubectl sends no token without TLS.
        """
        self.tokens.add("")
        kinds = [("pods", "pod", "Pod"), ("services", "service", "Service")]
        resources = [
            {"name": name, "singularName": single, "namespaced": True, "kind": kind, "verbs": ["get", "list"]}
            for name, single, kind in kinds
        ]
        self.documents |= {
            "/api?timeout=32s": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis?timeout=32s": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1?timeout=32s": {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources},
        }
        for pod, (port, target) in pods.items():
            self.pods[f"{namespace}/{pod}:{port}"] = target
            self.documents[f"/api/v1/namespaces/{namespace}/pods/{pod}"] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": pod, "namespace": namespace},
                "spec": {"containers": [{"name": "kafka", "ports": [{"containerPort": port}]}]},
                "status": {"phase": "Running"},
            }

    def kubeconfig(
        self, file: Path, user: dict[str, Any] | None = None, port: int | None = None, proxy: str = ""
    ) -> Path:
        """Write a kubeconfig whose current context leads to this server."""
        cluster = {"server": f"http://127.0.0.1:{port or self.port}", **({"proxy-url": proxy} if proxy else {})}
        said = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "good"} if user is None else user}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "here",
        }
        file.write_text(yaml.safe_dump(said))
        return file

    def _before(self, connection: ServerConnection, request: Request) -> Response | None:
        return self._answer("GET", request.path, request.headers.get("Authorization"))

    def _answer(self, method: str, target: str, authorization: str | None) -> Response | None:
        """Return the answer to a request; None if a port-forward must be opened."""
        url = urlsplit(target)
        query = "&".join(f"{key}={value[0]}" for key, value in parse_qs(url.query).items())
        self.asked.append(url.path)
        self.authorizations.add(authorization)
        if (authorization or "").removeprefix("Bearer ") not in self.tokens:
            return _refusal(401, "Unauthorized")
        if any(url.path.endswith(one) for one in self.forbidden):
            return _refusal(403, f'User "u" cannot use {url.path.rpartition("/")[2]}')
        if url.path.endswith("/portforward"):
            self.forwards.append(method)
            if method in self.without_right:
                return _refusal(403, f'User "u" cannot use portforward by {method}')
            if self._target(url.path, query) is None:
                return _refusal(404, f'pods "{url.path.split("/")[6]}" not found')
            if not (self.speaks - {"POST"} if method == "GET" else "POST" in self.speaks):
                return _refusal(400, "unable to upgrade")
            return None
        document = self.documents.get(url.path + (f"?{query}" if query else ""))
        return _refusal(404, f"{url.path} not found") if document is None else _said(200, document)

    def _target(self, path: str, query: str) -> int | None:
        _, _, _, _, namespace, _, pod, _ = path.split("/")
        if not query:  # kubectl names the port later, in the connection: each pod has one here
            return next((port for name, port in self.pods.items() if name.startswith(f"{namespace}/{pod}:")), None)
        return self.pods.get(f"{namespace}/{pod}:{query.removeprefix('ports=')}")

    def _select(self, connection: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        assert list(offered) in ([TUNNEL, CHANNEL], [TUNNEL]), "kproxy's, or kubectl's"
        return next((one for one in offered if one in self.speaks), None)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept WebSockets and POST on the same port, as the library of WebSockets supports no POST."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST "):
                await self._upgrade(head.decode(), reader, writer)
            else:
                await self._pass_on(head, reader, writer)
        except* (OSError, EOFError):
            pass
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() == 0 else writer.close()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", self.inner)
        outer.write(head)
        async with asyncio.TaskGroup() as both:
            tasks = [both.create_task(_copied(reader, outer)), both.create_task(_copied(inner, writer))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                outer.close()

    async def _upgrade(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines if one)}
        target = line.split()[1]
        answer = self._answer("POST", target, headers.get("authorization"))
        if answer is not None:
            writer.write(answer.serialize())
            return
        assert headers["upgrade"] == "SPDY/3.1"
        assert headers["x-stream-protocol-version"] == "portforward.k8s.io"
        switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        writer.write(f"{switched}X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n".encode())

        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        await self._spdy(send, lambda: reader.read(65536), urlsplit(target).path, urlsplit(target).query)

    async def _tunnel(self, connection: ServerConnection) -> None:
        async def receive() -> bytes:
            message: str | bytes = b""
            try:
                while not message:  # kubectl sends empty ones, which are not the end
                    message = await connection.recv()
            except ConnectionClosed:
                return b""
            assert isinstance(message, bytes)
            return message

        assert connection.request is not None
        url = urlsplit(connection.request.path)
        with suppress(ConnectionClosed):
            await self._spdy(connection.send, receive, url.path, url.query)

    async def _spdy(self, send: Send, receive: Receive, path: str, query: str) -> None:
        if self.instead is not None:
            await self.instead(send, receive)
            return
        target = self._target(path, query)
        assert target is not None
        await (Node if query else MultiplexingNode)(send, receive, target, passes_ends=self.passes_ends).serve()

    async def _forward(self, connection: ServerConnection) -> None:
        if connection.subprotocol == TUNNEL:
            await self._tunnel(connection)
            return
        assert connection.request is not None
        url = urlsplit(connection.request.path)
        asked = url.query.removeprefix("ports=")
        number = int(asked).to_bytes(2, "little")
        await connection.send(b"\0" + number)
        await connection.send(b"\1" + number)
        target = self._target(url.path, url.query)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            await connection.send(b"\1error forwarding port: dial tcp4 127.0.0.1: connect: connection refused")
            return
        async with asyncio.TaskGroup() as both:
            down = both.create_task(_down(reader, connection))
            try:
                async for message in connection:
                    assert isinstance(message, bytes)
                    assert message[0] == 0
                    writer.write(message[1:])
                    await writer.drain()
            finally:
                writer.close()
                down.cancel()


async def _down(reader: asyncio.StreamReader, connection: ServerConnection) -> None:
    while data := await reader.read(32 * 1024):
        await connection.send(b"\0" + data)
    await connection.close()


class _Connection(ServerConnection):
    """A connection with Kubernetes' subprotocols. One name has a slash, which RFC 6455 forbids."""

    def __init__(self, protocol: ServerProtocol, *rest: Any, **options: Any) -> None:
        super().__init__(protocol, *rest, **options)
        protocol.process_subprotocol = lambda headers: protocol.select_subprotocol(  # type: ignore[method-assign]
            [Subprotocol(one.strip()) for one in headers["Sec-WebSocket-Protocol"].split(",")]
        )


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def _refusal(code: int, message: str) -> Response:
    return _said(code, {"kind": "Status", "code": code, "message": message})


def _said(code: int, document: Any) -> Response:
    body = json.dumps(document).encode()
    headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"})
    return Response(code, "", headers, body)


@asynccontextmanager
async def forwarding() -> AsyncIterator[Forwarding]:
    """Run a server on a free port."""
    api = Forwarding()
    async with serve(
        api._forward,
        "127.0.0.1",
        0,
        process_request=api._before,
        select_subprotocol=api._select,
        create_connection=_Connection,
        compression=None,
        close_timeout=1,
    ) as inner:
        api.inner = next(iter(inner.sockets)).getsockname()[1]
        async with asyncio.TaskGroup() as connections:
            tasks: set[asyncio.Task[None]] = set()

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = connections.create_task(api._accepted(reader, writer))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

            outer = await asyncio.start_server(accept, "127.0.0.1", 0)
            api.port = outer.sockets[0].getsockname()[1]
            try:
                yield api
            finally:
                outer.close()
                for task in tasks:
                    task.cancel()
