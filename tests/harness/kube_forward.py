"""As much of a Kubernetes API server as forwarding ports needs: Services, EndpointSlices, pods, and port-forwards to
ports of this machine, over v4.channel.k8s.io."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol


class Forwarding:
    """What it answers. `pods` are the ports of this machine to which those of a pod lead, by namespace/pod:port."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.pods: dict[str, int] = {}
        self.tokens = {"good"}
        self.forbidden: set[str] = set()  # ends of paths
        self.asked: list[str] = []
        self.authorizations: set[str | None] = set()
        self.port = 0
        self.server: Server | None = None

    def add_service(self, namespace: str, name: str, ports: dict[str, tuple[int, int]], pods: dict[str, bool]) -> None:
        """`ports`: name → port and target port. `pods`: name → whether it is ready."""
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

    def kubeconfig(
        self, file: Path, user: dict[str, Any] | None = None, port: int | None = None, proxy: str = ""
    ) -> Path:
        """Writes one whose current context leads here."""
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
        url = urlsplit(request.path)
        query = "&".join(f"{key}={value[0]}" for key, value in parse_qs(url.query).items())
        self.asked.append(url.path)
        self.authorizations.add(request.headers.get("Authorization"))
        if (request.headers.get("Authorization") or "").removeprefix("Bearer ") not in self.tokens:
            return _refusal(401, "Unauthorized")
        if any(url.path.endswith(one) for one in self.forbidden):
            return _refusal(403, f'User "u" cannot use {url.path.rpartition("/")[2]}')
        if url.path.endswith("/portforward"):
            return (
                None if self._target(url.path, query) else _refusal(404, f'pods "{url.path.split("/")[6]}" not found')
            )
        document = self.documents.get(url.path + (f"?{query}" if query else ""))
        return _refusal(404, f"{url.path} not found") if document is None else _answer(200, document)

    def _target(self, path: str, query: str) -> int | None:
        _, _, _, _, namespace, _, pod, _ = path.split("/")
        return self.pods.get(f"{namespace}/{pod}:{query.removeprefix('ports=')}")

    async def _forward(self, connection: ServerConnection) -> None:
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


def _refusal(code: int, message: str) -> Response:
    return _answer(code, {"kind": "Status", "code": code, "message": message})


def _answer(code: int, document: Any) -> Response:
    body = json.dumps(document).encode()
    headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"})
    return Response(code, "", headers, body)


@asynccontextmanager
async def forwarding() -> AsyncIterator[Forwarding]:
    """One on a free port."""
    api = Forwarding()
    subprotocols = [Subprotocol("v4.channel.k8s.io")]
    async with serve(
        api._forward,
        "127.0.0.1",
        0,
        process_request=api._before,
        subprotocols=subprotocols,
        compression=None,
        close_timeout=1,
    ) as server:
        api.server = server
        api.port = next(iter(server.sockets)).getsockname()[1]
        yield api
