"""An admin endpoint on a thread of its own, asked over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from kproxy.base.address import Address
from kproxy.net.tls.handshakes import AdminTls
from kproxy.proxy.admin.handlers import AdminSources, Readiness, ReloadResult, SwitchCommandResult
from kproxy.proxy.admin.routes import TABLE, TokenRule
from kproxy.proxy.admin.server import AdminServer, start_admin
from kproxy.proxy.metrics import Metrics

T = TypeVar("T")
# Those that are answered without a token.
PATHS = [route.path for route in TABLE if route.method == "GET" and route.token_rule is not TokenRule.ALWAYS]


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
    trust: ssl.SSLContext | None = None
    """With which clients ask, if it speaks TLS."""

    def set(self, **sources: Any) -> None:
        """Other sources for the pages, from the next connection on."""
        self.admin.pages = replace(self.admin.pages, **sources)

    def enable_reload(self, outcome: Literal["done", "refused", "busy"] = "done") -> None:
        async def reload(accept: str | None) -> ReloadResult:
            self.quits.append("reload" if accept is None else f"reload, accept {accept}")
            return ReloadResult(outcome, ["a line", "another"])

        self.set(reload=reload)

    def enable_switch(self, outcome: Literal["done", "refused", "nonsense"] = "done") -> None:
        def switches() -> bytes:
            return b"{}\n"

        def switch(body: object) -> SwitchCommandResult:
            self.quits.append("switch")
            return SwitchCommandResult(outcome, json.dumps(body).encode())

        async def logins(body: object) -> SwitchCommandResult:
            return switch(body)

        self.set(switches=switches, switch=switch, switch_logins=logins)

    def enable_quit(self) -> None:
        self.set(quit=lambda: self.quits.append("asked"))

    def enable_tap(self) -> None:
        """What shows clients and their requests."""

        async def lines() -> AsyncGenerator[bytes, None]:
            yield b"{}\n"

        def sessions() -> bytes:
            return b"[]\n"

        self.set(tap=lambda query: lines(), live=lines, sessions=sessions, frames=lambda query: lines())
        self.set(observation=lines, observe=self._observe)

    def _observe(self, body: object) -> bytes:
        self.quits.append("observe")
        return b"{}"

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout=60)

    def plain(self) -> socket.socket:
        return socket.create_connection((self.admin.address.host, self.admin.address.port), timeout=60)

    def connect(self) -> socket.socket:
        return self.secure(self.plain()) if self.trust else self.plain()

    def secure(self, peer: socket.socket, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """Do the handshake."""
        context = context or self.trust
        assert context is not None
        return context.wrap_socket(peer, server_hostname=self.admin.address.host, suppress_ragged_eofs=False)

    def client(self) -> http.client.HTTPConnection:
        if self.trust:
            host, port = self.admin.address.host, self.admin.address.port
            return http.client.HTTPSConnection(host, port, timeout=60, context=self.trust)
        return http.client.HTTPConnection(self.admin.address.host, self.admin.address.port, timeout=60)

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, via: str = "", **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """The answer; `via` is another address of this machine to ask at, and from."""
        client = self.client()
        if via:
            client = http.client.HTTPConnection(via, self.admin.address.port, timeout=60)
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


def own_address() -> str:
    """An address of this machine that is not loopback; "" if it has none. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(sock.getsockname()[0])


def read_all(peer: socket.socket) -> bytes:
    received = b""
    while chunk := peer.recv(65536):
        received += chunk
    return received


def readiness(requires: str | None, not_ready: list[str]) -> Readiness:
    if requires not in (None, "all"):
        raise ValueError("allowed: all")
    return Readiness(["node 2 is missing"] if requires == "all" else not_ready, ["node 2 is missing"])


@contextmanager
def endpoint(host: str, tls: AdminTls | None = None) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    metrics, status, not_ready, loop_errors = Metrics(), dict[str, object](), list[str](), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: loop_errors.append(context))

    async def start() -> AdminServer:
        return await start_admin(
            Address(host, 0),
            AdminSources(
                metrics,
                lambda: json.dumps(status, ensure_ascii=False).encode(),
                lambda asked: readiness(asked, not_ready),
            ),
            tls,
        )

    admin = asyncio.run_coroutine_threadsafe(start(), loop).result(timeout=60)
    here = Running(loop, admin, metrics, status, not_ready, loop_errors)
    yield here
    here.do(admin.close())
    here.do(loop.shutdown_default_executor())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert loop_errors == []
