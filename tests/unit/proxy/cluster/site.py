"""Brokers of a cluster on sockets of this machine, and the dialer of their nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

from kproxy.base.address import Address
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoints, NodeKind
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.cluster.explorer import Explorer
from kproxy.proxy.cluster.nodedialer import NodeDialer
from kproxy.proxy.cluster.reachability import Fact
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup
from kproxy.proxy.cluster.topology import LocalPorts, NodeKey, Topology
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.metrics import Metrics
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Behaviour, Peer


def key(node: int) -> NodeKey:
    return NodeKey(NodeKind.BROKER, node)


class Site:
    """Brokers that say where they are, and kproxy's way to them. `facts` are what it has told."""

    def __init__(self, held: ExitStack, tasks: SupervisedTaskGroup) -> None:
        self._held, self.tasks = held, tasks
        self.metrics = Metrics()
        self.topology = Topology(LocalPorts(1, 100))
        self.facts: list[Fact] = []

    def peer(self, behave: Behaviour) -> Address:
        return Address.parse(self._held.enter_context(Peer(behave)).address)

    def broker(self, node: int, cluster_id: str | None = "c", *, tells: bool = True) -> tuple[FakeBroker, Address]:
        """A broker that names itself in a refusal, if it `tells`."""
        made = FakeBroker(
            refusal=f"Unexpected broker id, expected {node} or empty" if tells else "", cluster_id=cluster_id
        )
        made.serves[ApiKey.LIST_GROUPS] = (9, 9)
        return made, self.peer(made)

    def cluster(self, *bootstrap: Address, connect_timeout: float = 5.0, **options: Any) -> NodeDialer:
        """Return the dialer of a cluster. A test with a silent server gives a shorter time, in seconds."""
        config = ClusterConfig(bootstrap_servers=bootstrap, connect_timeout=connect_timeout, **options)
        self.dialer = NodeDialer(config, self.topology, self.metrics, self.tasks, lambda _: False, self.facts.append)
        self.explorer = Explorer(config, self.topology, self.dialer, self.learn)
        return self.dialer

    def one_broker(self) -> tuple[FakeBroker, Address, NodeDialer]:
        """The only broker of a cluster, its address, and kproxy's way there."""
        broker, address = self.broker(1)
        broker.nodes = at((1, address))
        return broker, address, self.cluster(address)

    def learn(self, endpoints: Endpoints) -> Iterator[None]:
        self.topology.learn(endpoints, 0.0)
        self.explorer.notify_change()
        return iter(())

    def dials(self, node: str, reason: str) -> float:
        return self.metrics.dial_failures.get(("default", node, reason), 0)


@asynccontextmanager
async def in_site() -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        held = stack.enter_context(ExitStack())
        yield Site(held, await stack.enter_async_context(SupervisedTaskGroup("a test")))


def at(*nodes: tuple[int, Address]) -> list[tuple[int, str, int]]:
    return [(node, address.host, address.port) for node, address in nodes]


async def reaches(reach: NodeDialer, node: int | None) -> VerifiedConnection:
    upstream = await reach.dial(None if node is None else key(node))
    upstream.sock.close()
    return upstream
