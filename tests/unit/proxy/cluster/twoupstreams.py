"""A gateway with two upstreams, whose brokers are nowhere."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from kproxy.base.address import Address
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.encryption import ClusterTls
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.portclaims import ProcessClaims
from kproxy.proxy.cluster.reachability import ExplorationState
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.metrics import Metrics
from tests.harness.process import free_window

SERVERS = (Address.parse("nowhere.invalid:1"),)


class Two:
    """A gateway with the upstreams blue, which is active, and green. `dialled`: which upstream, and for whom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sharing: ProcessClaims | None = None, **options: float) -> None:
        listen = Address("127.0.0.1", free_window(100))
        self._listen = listen
        blue = ClusterConfig(bootstrap_servers=SERVERS, listen=listen, upstream="blue", **options)
        green = ClusterConfig(bootstrap_servers=SERVERS, listen=listen, upstream="green", active=False, **options)
        self.changes = 0
        self.tasks = SupervisedTaskGroup("cluster default")
        self.gateway = Gateway(
            blue, Metrics(), self.tasks, ConnectionLimit(), lambda *_: None, partial(self._changed), others=(green,),
            process_claims=sharing,
        )  # fmt: skip
        self.dialled: list[tuple[str, NodeKey | None]] = []
        for name, upstream in self.gateway.upstreams.items():
            monkeypatch.setattr(upstream.dialer, "dial", partial(self._dial, name))

    def reconfigure(self, *names: str, **options: float) -> None:
        """Serve these upstreams, the first of which is active."""
        configs = [
            ClusterConfig(
                bootstrap_servers=SERVERS, listen=self._listen, upstream=name, active=name == names[0], **options
            )
            for name in names
        ]
        ends = {one.upstream: ClusterTls.of(one) for one in configs}
        self.gateway.reconfigure(configs, ends, self.gateway.prepare_upstreams(configs), 0.0)

    def _changed(self) -> None:
        self.changes += 1

    async def _dial(self, name: str, key: NodeKey | None, request: object) -> VerifiedConnection:
        self.dialled.append((name, key))
        return VerifiedConnection(None, key, SERVERS[0])  # type: ignore[arg-type]  # nobody uses it

    def learn(self, name: str, *nodes: int) -> None:
        endpoints = tuple(Endpoint(NodeKind.BROKER, node, Address(f"{name}-{node}.invalid", 9092)) for node in nodes)
        list(self.gateway._learn(self.gateway.upstreams[name], Endpoints(endpoints, complete=True)))
        self.gateway.upstreams[name].dialer.bootstrap_asked.set()

    def answers(self, name: str, cluster_id: str | None) -> None:
        reach = self.gateway.upstreams[name].dialer
        reach.reachability.cluster_id = cluster_id
        reach.note(replace(ExplorationState(), bootstrap_asked=True, answered=True, searched=True, problem=None))

    def ports(self, name: str) -> dict[int, int]:
        return {key.node_id: node.port for key, node in self.gateway.upstreams[name].topology.nodes.items()}

    def named(self, *nodes: tuple[str, int]) -> list[int]:
        """The ports that a client is told when the active upstream names these."""
        endpoints = tuple(
            Endpoint(NodeKind.BROKER, node, Address(f"{name}-{node}.invalid", 9092)) for name, node in nodes
        )
        return [one.port for one in self.gateway.localise("127.0.0.1", Endpoints(endpoints, complete=True))]
