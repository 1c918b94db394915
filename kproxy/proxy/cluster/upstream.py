"""One Kafka cluster to which clients can be routed: its nodes, their dialer, their explorer, their local addresses.

A response that is equal to an earlier one brings the same `Endpoints`, the very object
(`kproxy.protocol.rewrite.prefixcache`). If nothing has changed on which its local addresses depend, they are the same,
and the response teaches nothing new.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from kproxy.base.address import Address
from kproxy.base.messages.message import Message
from kproxy.base.messages.runtime import NODE_MOVED, NODE_REMOVED, NODE_RETURNED
from kproxy.base.repeats import about
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.protocol.rewrite.prefixcache import MAX_PREFIX_ENDPOINTS
from kproxy.proxy.cluster.clusterwatch import ClusterWatch
from kproxy.proxy.cluster.encryption import ClusterTls
from kproxy.proxy.cluster.explorer import Explorer
from kproxy.proxy.cluster.nodedialer import AffectsSession, NodeDialer
from kproxy.proxy.cluster.reachability import Fact, OtherCluster
from kproxy.proxy.cluster.topology import LocalPorts, NodeKey, Topology, TopologyChange
from kproxy.proxy.metrics import Metrics

log = logging.getLogger(__name__)

# If more nodes come, go or move together, there is one line for all of them.
_LINES_AT_ONCE = 20
# Answers to be found again: of each listener, version and local host one.
_MOST = 32


class LocalAddressCache:
    """Local addresses, by the client's host and the endpoints.

    All of them depend on one basis: everything else that they are derived from. A different basis clears the cache.
    """

    def __init__(self) -> None:
        self._basis: object = None
        # By the host and the identity of the endpoints, which are kept so that no others can have it.
        self._answers: dict[tuple[str, int], tuple[Endpoints, Sequence[Address]]] = {}

    def get(self, host: str, endpoints: Endpoints, basis: object) -> Sequence[Address] | None:
        """Return the addresses for this object and clients that use kproxy at the host; None if not cached."""
        if basis != self._basis:
            return None
        answer = self._answers.get((host, id(endpoints)))
        return None if answer is None else answer[1]

    def put(self, host: str, endpoints: Endpoints, basis: object, local: Sequence[Address]) -> None:
        """Cache the local addresses for as long as the basis is the same."""
        if basis != self._basis or len(self._answers) >= _MOST:
            self._answers.clear()
            self._basis = basis
        if (
            endpoints.complete and len(endpoints.nodes) <= MAX_PREFIX_ENDPOINTS
        ):  # others do not come again as the same object
            self._answers[host, id(endpoints)] = endpoints, local


Learn = Callable[["Upstream", Endpoints], Iterator[None]]
"""Takes in nodes of an upstream, see `explorer.Learn`. Raises WireError."""


class Upstream:
    """One upstream of a cluster; most clusters have one.

    `on_news` is called when there is something new about reaching its nodes. `agree` receives the upstream's name and a
    cluster id, and returns the id of the Kafka cluster that all kproxies which share the ports serve under this name.
    """

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
        self.topology = Topology(ports)
        self.local_addresses = LocalAddressCache()
        self.dialer = NodeDialer(
            config,
            self.topology,
            metrics,
            tasks,
            is_own,
            self._on_fact,
            lambda cluster_id: agree(self.config.upstream, cluster_id),
        )
        self.explorer = Explorer(config, self.topology, self.dialer, lambda endpoints: learn(self, endpoints))
        self.watch = ClusterWatch(self.dialer, self.explorer, lambda: metrics.bytes_received(config.name))

    def reconfigure(self, config: ClusterConfig, tls: ClusterTls, seconds: float) -> AffectsSession:
        """Use this configuration from now on; return which sessions it affects. These have that many seconds to end."""
        self.config = self.explorer.config = config
        return self.dialer.reconfigure(config, tls.brokers, seconds)

    def has_node(self, key: NodeKey) -> bool:
        """Check whether the last metadata named the node."""
        return key in self.topology.nodes and self.topology.nodes[key].absent_since is None

    def knows_node(self, key: NodeKey) -> bool:
        """Check whether any metadata named the node."""
        return key in self.topology.nodes

    def _on_fact(self, fact: Fact) -> None:
        if isinstance(fact, OtherCluster):
            self.watch.notice()
        self.explorer.notify_change()
        self._on_news()

    def log_changes(self, change: TopologyChange) -> None:
        """Log which nodes have moved, are gone, are back."""
        moved = {
            node.key: NODE_MOVED(node=node.key, former=before, address=node.advertised, port=node.port)
            for node, before in change.moved
        }
        self.log_nodes(logging.INFO, NODE_MOVED, moved)
        for message, nodes in ((NODE_REMOVED, change.gone), (NODE_RETURNED, change.back)):
            texts = {node.key: message(node=node.key, address=node.advertised) for node in nodes}
            self.log_nodes(logging.INFO, message, texts)

    def log_nodes(self, level: int, message: Message, texts: Mapping[NodeKey, str]) -> None:
        """Log a line for each node; if there are many, one line for all of them, with the first."""
        title, prefix = self.config.title, f"{self.config.upstream}: " if self.config.upstream else ""
        for key, text in texts.items():
            if len(texts) > _LINES_AT_ONCE:
                further = f", and so on: {len(texts) - 1} more nodes"
                log.log(level, "%s%s%s", prefix, text, further, extra=about(title, message.text))
                return
            # A broker may name other nodes each time, which must not crowd other lines out of the log.
            topic = about(title, message.text, key.log_subject)
            log.log(level, "%s%s", prefix, text, extra=topic)
