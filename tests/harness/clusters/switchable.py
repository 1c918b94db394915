"""Two Kafka clusters of one broker each behind the sessions of a kproxy, on one local port.

The brokers advertise that port, and `AllSessions` serves the sessions as in a kproxy. There is no verification of the
cluster and node behind an address, so that a test can apply a switch to the sessions step by step.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.config import ClusterConfig, Config
from kproxy.protocol.rewrite.endpoints import Endpoints, NodeKind
from kproxy.proxy.cluster.allsessions import AllSessions
from kproxy.proxy.cluster.clientconnection import ClientConnection
from kproxy.proxy.cluster.clientroute import ClusterUpdate
from kproxy.proxy.cluster.connectionslots import ConnectionLimit, ConnectionSlots
from kproxy.proxy.cluster.listeners import Listener
from kproxy.proxy.cluster.switchableunit import SwitchableUnit
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.loop import RelayLoop
from kproxy.proxy.relay.selector import RelaySelector

T = TypeVar("T")

NAME = "default"
NODE = NodeKey(NodeKind.BROKER, 1)


class Switchable:
    """Listens at `address`; routes clients to `upstream`. `switches` is false for a cluster that is never switched."""

    def __init__(self, listener: socket.socket, upstream: Address, *, switches: bool = True) -> None:
        self.address = Address(*listener.getsockname()[:2])
        self.upstream = upstream
        self.metrics = Metrics()
        self._listener = listener
        self._switches = switches
        self._selector = RelaySelector()
        self._loop = RelayLoop(self._selector)
        self._ending: asyncio.Event
        self.here: AllSessions
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    async def _run(self) -> None:
        self._ending = asyncio.Event()
        self._listener.setblocking(False)
        async with asyncio.TaskGroup() as tasks:
            self.here = AllSessions(self._selector, self.metrics, tasks)
            self._config = ClusterConfig(name=NAME, bootstrap_servers=(self.upstream,))
            self.here.add_cluster(self._config, self._dial, self._localise, switches=self._switches)
            self._slots = ConnectionSlots(self._config, ConnectionLimit(), self.metrics)
            self._loop.add_reader(self._listener, self._accept)
            self._ready.set()
            await self._ending.wait()
            self._loop.remove_reader(self._listener)
            self.here.clusters[NAME].flip(self._config)

    def _accept(self) -> None:
        client, peer = self._listener.accept()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener = Listener(NODE, self.address.port, [])
        connection = ClientConnection(self._slots, listener, client, Address(*peer[:2]), self._loop.time(), "127.0.0.1")
        self.here.handle_client(NAME, connection, b"")

    async def _dial(self, key: NodeKey | None, request: object) -> VerifiedConnection:
        sock = socket.socket()
        sock.setblocking(False)
        try:
            await self._loop.sock_connect(sock, (self.upstream.host, self.upstream.port))
        except OSError as error:
            sock.close()
            raise UpstreamError("refused", str(error)) from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return VerifiedConnection(sock, key, self.upstream)

    def _localise(self, host: str, endpoints: Endpoints) -> list[Address]:
        return [self.address for _ in endpoints.nodes]

    @property
    def unit(self) -> SwitchableUnit:
        unit = self.here.unit(NAME)
        assert unit is not None, "it can be switched"
        return unit

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the loop's thread."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001  # whatever it is, the caller's thread is to see it
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(60)

    def hold(self, seconds: float = 60) -> None:
        """Hold writes and wait until all is settled."""
        settled = threading.Event()
        self.call(lambda: self.unit.write_hold.begin_hold(settled.set))
        assert settled.wait(seconds), self.call(lambda: self.unit.write_hold.status)

    def flip(self, upstream: Address) -> None:
        """Route to this upstream from now on, in one step."""

        def flip() -> None:
            self.upstream = upstream
            self.here.clusters[NAME].flip(self._config)

        self.call(flip)

    def release(self) -> None:
        self.call(lambda: self.unit.release_writes())

    def begin_to_switch(self) -> None:
        """Do what a reload does that adds a second upstream."""

        def begin() -> None:
            config = Config(clusters=(self._config,))
            self.here.reconfigure(config, [ClusterUpdate(self._config, None, lambda key, dial: False, switches=True)])

        self.call(begin)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(30)
        self._loop.close()
        self._listener.close()


@contextmanager
def listening() -> Iterator[socket.socket]:
    """Return a socket that listens at a free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield listener
