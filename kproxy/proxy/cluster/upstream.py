"""One Kafka cluster that a cluster of the configuration can lead to: its nodes, the ways to them, who explores it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from kproxy.base.address import Address
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.proxy.cluster.encryption import ClusterTls
from kproxy.proxy.cluster.explorer import Explorer
from kproxy.proxy.cluster.localaddresscache import LocalAddressCache
from kproxy.proxy.cluster.localports import LocalPorts
from kproxy.proxy.cluster.nodedialer import AffectsSession, NodeDialer
from kproxy.proxy.cluster.reachability import Fact
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.metrics import Metrics

Learn = Callable[["Upstream", Endpoints], Iterator[None]]
"""Takes in nodes of an upstream, see `explore.Learn`. Raises WireError."""


class Upstream:
    """Most clusters have one. `on_news` is called when there is something new about reaching its nodes. `agree`
    says, of an upstream's name and a cluster id, which Kafka cluster it is for all kproxies that share the ports."""

    def __init__(
        self,
        config: ClusterConfig,
        ports: LocalPorts,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        is_own: Callable[[Address], bool],
        learn: Learn,
        on_news: Callable[[], None],
        agree: Callable[[str, str], str],
    ) -> None:
        self.config = config
        self._on_news = on_news
        self._agree = agree
        self.topology = Topology(ports.first, ports.last, ports)
        self.told = LocalAddressCache()
        self.reach = NodeDialer(config, self.topology, metrics, tasks, is_own, self._news, self._agreed)
        self.explorer = Explorer(config, self.topology, self.reach, lambda endpoints: learn(self, endpoints))

    def reconfigure(self, config: ClusterConfig, ends: ClusterTls, seconds: float) -> AffectsSession:
        """Reach it so from now on; return which sessions that concerns, which have so many seconds to end."""
        self.config = config
        self.explorer.reconfigure(config)
        return self.reach.reconfigure(config, ends.brokers, seconds)

    def has(self, key: NodeKey) -> bool:
        """Whether the last metadata named the node."""
        node = self.topology.nodes.get(key)
        return node is not None and node.absent_since is None

    def knows(self, key: NodeKey) -> bool:
        """Whether any metadata named the node."""
        return key in self.topology.nodes

    def _agreed(self, cluster_id: str) -> str:
        return self._agree(self.config.upstream, cluster_id)

    def _news(self, fact: Fact) -> None:
        self.explorer.stir()
        self._on_news()
