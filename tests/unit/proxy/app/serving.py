"""A kproxy in the test's own process, served from a configuration file that a test writes anew."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kproxy.proxy.app.main import App
from kproxy.proxy.app.reload import ConfigSource
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.unit.proxy.cluster.doorway import API_VERSIONS, in_loop


def put(file: Path, text: str) -> None:
    """Write the configuration anew."""
    file.write_text(text)


def served(file: Path, scenario: Callable[[App], Awaitable[None]]) -> None:
    source = ConfigSource.of({}, {}, file)

    async def errand(running: App) -> int:
        await scenario(running)
        return 0

    async def run(selector: RelaySelector) -> None:
        app = App(source.read()[0], selector, ConnectionLimit(), None, source)
        assert await app.run(errand) == 0

    in_loop(run)()


def client_of(running: App, name: str, node: int | None = None) -> socket.socket:
    cluster = next(cluster for cluster in running.status().clusters if cluster.name == name)
    local = cluster.bootstrap if node is None else next(one.local for one in cluster.nodes if one.id == node)
    assert local is not None
    host, port = local.rsplit(":", 1)
    client = socket.create_connection((host, int(port)), 30)
    client.setblocking(False)
    return client


async def works(client: socket.socket) -> None:
    client.send(API_VERSIONS)
    async with asyncio.timeout(30):
        assert len(await asyncio.get_running_loop().sock_recv(client, 4096)) > 4


def broker(peer: Peer, behave: FakeBroker, node: int = 1) -> None:
    host, port = peer.address.split(":")
    behave.nodes = [(node, host, int(port))]


async def reload(running: App, text: str, file: Path) -> Any:
    put(file, text)
    answer = await running._reload()
    assert answer.outcome == "done", answer.lines
    return answer
