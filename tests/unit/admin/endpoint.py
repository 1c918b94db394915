"""An admin endpoint on a thread of its own, asked over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from kproxy.admin.pages import Readiness, Reloaded
from kproxy.admin.routes import TABLE
from kproxy.admin.server import AdminServer
from kproxy.metrics import Metrics

T = TypeVar("T")
PATHS = [route.path for route in TABLE if route.method == "GET"]


async def no_body(most: int) -> bytes:
    raise AssertionError("nobody may ask for a body here")


@dataclass
class Running:
    """An admin endpoint on a thread and an event loop of its own, as in a process of its own."""

    loop: asyncio.AbstractEventLoop
    admin: AdminServer
    metrics: Metrics
    status: dict[str, object] = field(default_factory=dict)
    not_ready: list[str] = field(default_factory=list)
    loop_errors: list[dict[str, Any]] = field(default_factory=list)
    quits: list[str] = field(default_factory=list)

    def set(self, **sources: Any) -> None:
        """Other sources for the pages, from the next connection on."""
        self.admin.pages = replace(self.admin.pages, **sources)

    def enable_reload(self, outcome: Literal["done", "refused", "busy"] = "done") -> None:
        async def reload() -> Reloaded:
            self.quits.append("reload")
            return Reloaded(outcome, ["a line", "another"])

        self.set(reload=reload)

    def enable_quit(self) -> None:
        self.set(quit=lambda: self.quits.append("asked"))

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout=60)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.admin.address.host, self.admin.address.port), timeout=60)

    def client(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.admin.address.host, self.admin.address.port, timeout=60)

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        client = self.client()
        try:
            client.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            response = client.getresponse()
            return response, response.read()
        finally:
            client.close()

    def send_raw(self, data: bytes) -> bytes:
        """What comes back until kproxy closes."""
        with self.connect() as peer:
            peer.sendall(data)
            return read_all(peer)


def source(metrics: Metrics) -> Callable[[], Coroutine[Any, Any, Metrics]]:
    async def get() -> Metrics:
        return metrics

    return get


def read_all(peer: socket.socket) -> bytes:
    received = b""
    while chunk := peer.recv(65536):
        received += chunk
    return received


def readiness(requires: str | None, not_ready: list[str]) -> Readiness:
    if requires not in (None, "all"):
        raise ValueError("allowed: all")
    return Readiness(["node 2 is missing"] if requires == "all" else not_ready, ["node 2 is missing"])
