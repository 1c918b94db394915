"""Clusters of a process whose brokers and clients are the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar
from unittest.mock import patch

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoints, NodeKind
from kproxy.proxy.cluster import clientroute
from kproxy.proxy.cluster.allsessions import AllSessions
from kproxy.proxy.cluster.clientconnection import ClientConnection
from kproxy.proxy.cluster.connectionslots import ConnectionLimit, ConnectionSlots
from kproxy.proxy.cluster.listeners import Listener
from kproxy.proxy.cluster.sessions import Sessions
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.pump import Pump
from kproxy.proxy.relay.selector import RelaySelector
from tests.harness.tls import connected
from tests.unit.proxy.cluster.doorway import in_loop, shown_without_first, until
from tests.unit.proxy.relay.talking import FETCH_V4, request, response

NODE = NodeKey(NodeKind.BROKER, 1)
NOBODY = Address("kafka", 9092)
T = TypeVar("T")
LONG = 30.0  # a deadline that no test waits for


class End:
    """The far end of a connection that kproxy has."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)

    async def say(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.sock, data)

    async def hear(self, expected: bytes) -> None:
        heard = b""
        async with asyncio.timeout(LONG):
            while len(heard) < len(expected):
                more = await self._loop.sock_recv(self.sock, len(expected) - len(heard))
                assert more, f"the connection ended after {heard!r}"
                heard += more
        assert heard == expected

    async def ended(self) -> None:
        async with asyncio.timeout(LONG):
            assert await self._loop.sock_recv(self.sock, 1) == b""

    def has_heard_nothing(self) -> bool:
        try:
            return not self.sock.recv(1)
        except BlockingIOError:
            return True


async def passes(client: End, far: End, number: int = 1) -> None:
    """A request and its response."""
    await client.say(request(FETCH_V4, number))
    await far.hear(request(FETCH_V4, number))
    await far.say(response(number, b"answer"))
    await client.hear(response(number, b"answer"))


class Running:
    """`Sessions` of a cluster whose broker is this test. `dial` may be replaced."""

    def __init__(self, here: AllSessions, metrics: Metrics, name: str, *, switches: bool, **options: Any) -> None:
        self.dial: Callable[[NodeKey | None], Coroutine[Any, Any, VerifiedConnection]] = self._dial
        self.upstreams: list[End] = []
        self.ends: list[End] = []
        self.metrics = metrics
        self.config = ClusterConfig(name=name, bootstrap_servers=(NOBODY,), **options)
        self.slots = ConnectionSlots(self.config, ConnectionLimit(), metrics)
        self.sessions: Sessions = here.add_cluster(
            self.config, lambda key, request: self.dial(key), self._localise, switches=switches
        )

    def _localise(self, host: str, endpoints: Endpoints) -> Sequence[Address]:
        raise WireError("not-localised", "none is expected")

    async def _dial(self, key: NodeKey | None) -> VerifiedConnection:
        return self.upstream(key)

    async def bootstrap(self, key: NodeKey | None) -> VerifiedConnection:
        """As for a node that is not there."""
        return self.upstream(None)

    def upstream(self, key: NodeKey | None = NODE, **more: Any) -> VerifiedConnection:
        far, near = connected()
        near.setblocking(False)
        self.upstreams.append(End(far))
        self.ends.append(self.upstreams[-1])
        return VerifiedConnection(near, key, NOBODY, **more)

    def accept(self) -> tuple[End, ClientConnection]:
        """A client that has sent nothing yet, and its connection."""
        far, near = connected()
        near.setblocking(False)
        self.ends.append(End(far))
        now, peer = asyncio.get_running_loop().time(), Address("127.0.0.1", 1)
        return self.ends[-1], ClientConnection(self.slots, Listener(NODE, 0, []), near, peer, now, "127.0.0.1")

    def carry(self) -> End:
        """A client that has spoken; its session begins when the loop turns."""
        client, connection = self.accept()
        self.sessions.handle_client(connection, b"")
        return client

    async def session(self) -> tuple[End, End]:
        """The ends of a new session: client, broker."""
        count = self.open
        client = self.carry()
        await until(lambda: self.open > count, "the session is open")
        return client, self.upstreams[-1]

    @property
    def open(self) -> int:
        return len(self.sessions._open())

    @property
    def held(self) -> int:
        """The slots that are in use."""
        return len(self.slots._connections)


class House:
    """A process with clusters."""

    def __init__(self, selector: RelaySelector) -> None:
        self.selector = selector
        self.metrics = Metrics()
        self.tasks = SupervisedTaskGroup("a test")
        self.here = AllSessions(selector, self.metrics, self.tasks)
        self.clusters: list[Running] = []

    def cluster(self, name: str = "default", *, switches: bool = False, **options: Any) -> Running:
        self.clusters.append(Running(self.here, self.metrics, name, switches=switches, **options))
        return self.clusters[-1]

    @property
    def pump(self) -> Pump:
        return self.here._pump

    async def begin(self, what: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run this beside the test, which goes on once it waits for the first time."""
        task = self.tasks.create_task(what)
        await asyncio.sleep(0)
        return task

    async def close(self) -> None:
        await self.here.drain(0)
        await self.tasks.__aexit__(None, None, None)
        for cluster in self.clusters:
            for end in cluster.ends:
                end.sock.close()
            assert not cluster.sessions._connections
            assert cluster.held == 0


def in_house(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test with a process, which is its first argument."""

    async def run(selector: RelaySelector, *args: Any, **kwargs: Any) -> None:
        house = House(selector)
        try:
            with patch.object(clientroute, "_SHORT_TIMEOUT", 0.0):  # what its clients have sent is not read again
                await test(house, *args, **kwargs)
        finally:
            await house.close()

    return shown_without_first(in_loop(run), test)
