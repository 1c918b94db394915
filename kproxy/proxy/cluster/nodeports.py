"""The listeners of a cluster's nodes: on which port each is, when it is closed, and how many there may be."""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic

from kproxy.base.ephemeral import connection_at
from kproxy.base.errors import WireError
from kproxy.base.repeats import about
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.proxy.cluster.listeners import Listeners
from kproxy.proxy.cluster.localports import LocalPorts
from kproxy.proxy.cluster.places import Places
from kproxy.proxy.cluster.topology import Node, NodeKey
from kproxy.proxy.cluster.upstream import Upstream
from kproxy.proxy.metrics import Metrics

log = logging.getLogger(__name__)

# Nodes with a listener beyond the window of ports. A cluster has hundreds at most; a hostile one could name millions.
_MORE_NODES = 1000
# A response may always name so many new nodes: they cost a few milliseconds.
_FEW = 20
# Of those that name more, a cluster may have so many times as many new nodes as it may have nodes, and these beyond.
# It gets its nodes once, and a few more in its life; one upstream may follow on another.
_CLUSTERS_AT_ONCE, _NEW_PER_SECOND = 2, 10


class NodePorts:
    """Those of all upstreams. A node of one and the node of the same kind and id of another share theirs. `problem`:
    why the last node that has none could have none; "" if each has one."""

    def __init__(
        self,
        listeners: Listeners,
        ports: LocalPorts,
        upstreams: Mapping[str, Upstream],
        metrics: Metrics,
        places: Places,
    ) -> None:
        self._listeners = listeners
        self._ports = ports
        self._upstreams = upstreams
        self._metrics = metrics
        self._places = places
        self._orphans: dict[NodeKey | None, float] = {}  # with a listener, but of no upstream any more, and since when
        self.problem = ""
        # Of the nodes that are bound together, one has found no port free in the window; these are left of others.
        self._crowded, self._left = False, deque[int]()
        self._came, self._counted_at = 0.0, monotonic()  # new nodes, less those that may have come since
        self._count_listeners()

    @property
    def _config(self) -> ClusterConfig:
        """What is asked of it is the same for all upstreams."""
        return next(iter(self._upstreams.values())).config

    def close_all(self) -> None:
        """Close every listener."""
        self._listeners.close_all()
        self._count_listeners()
        self._places.leave(self)

    def bind_all(self, nodes: Iterable[Node]) -> None:
        """Give each node a listener: on the port it has, or the first of its ports that can be had. Another upstream's
        node of this kind and id shares it. With --sni, all nodes share the bootstrap listener."""
        if self._config.sni is None:
            self._crowded = False
            for node in nodes:
                self._bind(node)
                if node.key not in self._listeners.bound:
                    break  # the next one would have none either

    def _bind(self, node: Node) -> None:
        listening = self._listeners.bound.get(node.key)
        if listening is not None:
            if self._orphans.pop(node.key, None) is not None:
                self._assign(node.key, listening.port)
            return
        if not self._may_listen():
            self._lacks(
                node.key,
                f"kproxy already listens on {self._places.listening} ports, the limit with {self._places.files} open"
                " files: raise that limit (ulimit -n)",
            )
            return
        refused: tuple[int, OSError] | None = None
        for port in self._ports_for(node.key):
            try:
                listener = self._listeners.bind(node.key, port)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
                    refused = refused or (port, error)
                    continue
                self._lacks(node.key, str(error.strerror))
                return
            break
        else:
            self._lacks(node.key, "no port is free: widen --node-ports")
            return
        self.problem = ""
        if port == 0:
            log.warning(
                "%s has the local port %d outside --node-ports %d-%d, where no port is free: widen the range",
                node.key, listener.port, self._ports.first, self._ports.last, extra=about(self._config.name),
            )  # fmt: skip
        elif refused is not None:
            # Nobody counts on the ports behind one that the system chose.
            level = (
                logging.INFO if self._config.listen.port == 0 and self._config.node_ports is None else logging.WARNING
            )
            log.log(level, "%s has the local port %d instead of %d: %s", node.key, port, refused[0], _why_not(*refused))
        self._assign(node.key, listener.port)
        self._count_listeners()

    def _lacks(self, key: NodeKey, problem: str) -> None:
        """A node has no port. What is true of hundreds of nodes is said once."""
        if problem != self.problem:
            log.error("%s has no local port: %s", key, problem, extra=about(self._config.name))
        self.problem = problem

    def _assign(self, key: NodeKey, port: int) -> None:
        for one in self._upstreams.values():
            if key in one.topology.nodes:
                one.topology.assign(key, port)

    def _ports_for(self, key: NodeKey) -> Iterator[int]:
        yield from self._ports.ports_for(key)
        # The window is exhausted. A node that was retired has been absent for so long that every client has asked for
        # metadata since, and none believes that its port still leads there.
        if not self._crowded:  # a look at all nodes for each of hundreds would take long
            self._crowded = True
            for upstream in self._upstreams.values():
                for node in list(upstream.topology.nodes.values()):
                    if node.absent_since is not None and node.key not in self._listeners.bound:
                        self._forget(upstream, node.key)
            self._left = deque(self._ports.left(monotonic() - self._config.retire_after))
        while self._left:
            yield self._left.popleft()
        if self._config.advertise is None or self._config.advertise.first_port is None:
            yield 0  # else clients could not be told: the user has mapped the ports of the window

    def _count_listeners(self) -> None:
        self._metrics.listeners(self._config.name, len(self._listeners.bound))
        self._places.listen(self, self._listeners.sockets)

    # Room for nodes

    def make_room(self, upstream: Upstream, endpoints: Endpoints) -> None:
        """Forget absent nodes if there are too many with those that a response names. Raises WireError if that does not
        help: a present node is never forgotten, nor one that clients are connected to."""
        topology = upstream.topology
        most = _MORE_NODES + topology.last - topology.first
        gone: Sequence[NodeKey] = ()
        if len(topology.nodes) + len(endpoints.nodes) > most:
            named = {NodeKey(e.kind, e.node_id) for e in endpoints.nodes}
            excess = max(0, len(topology.nodes.keys() | named) - most)
            gone = [key for key in topology.dispensable(endpoints) if not self._in_use(key)][:excess]
            if len(gone) < excess:
                nodes = most + excess - len(gone)
                raise WireError(
                    "too-many-nodes",
                    f"the cluster has {nodes} nodes, more than the range of ports: widen --node-ports",
                )
        new = sum(NodeKey(e.kind, e.node_id) not in topology.nodes for e in endpoints.nodes)
        if new > _FEW and not self._may_come(new, most):
            raise WireError(
                "too-many-new-nodes",
                f"the cluster names {new} new nodes, and has named so many before that kproxy takes in no more for now",
            )
        for key in gone:
            self._forget(upstream, key)
        if gone:
            self.forget_numbers()

    def _may_come(self, new: int, most: int) -> bool:
        """Whether so many nodes may come that are new, of a cluster that may have so many. Each costs a listener, so a
        cluster that names others each time would keep all others waiting."""
        now = monotonic()
        came = max(0.0, self._came - (now - self._counted_at) * _NEW_PER_SECOND)
        if came + new > _CLUSTERS_AT_ONCE * most:
            return False
        self._came, self._counted_at = came + new, now
        return True

    def _may_listen(self) -> bool:
        """Whether one more listener fits the limit of open files, perhaps after absent nodes were forgotten."""
        for upstream in [] if self._places.may_listen(self) else self._upstreams.values():
            for key in upstream.topology.dispensable(Endpoints(())):
                if key in self._listeners.bound and not self._in_use(key):
                    self._forget(upstream, key)
                    if self._places.may_listen(self):
                        return True
        return self._places.may_listen(self)

    def _in_use(self, key: NodeKey) -> bool:
        listener = self._listeners.bound.get(key)
        return listener is not None and listener.sessions > 0

    def _forget(self, upstream: Upstream, key: NodeKey) -> None:
        log.debug("kproxy forgets %s, which is absent, to make room for other nodes", key)
        upstream.topology.forget(key, monotonic())
        upstream.reach.forget(key)
        if key in self._listeners.bound and not any(key in one.topology.nodes for one in self._upstreams.values()):
            self._listeners.close(key)
            self._count_listeners()

    def forget_numbers(self) -> None:
        """Forget what was counted of nodes that no upstream has."""
        known = {key.label for upstream in self._upstreams.values() for key in upstream.topology.nodes}
        self._metrics.keep_only(self._config.name, known)

    def leave(self, upstream: Upstream) -> None:
        """This upstream is gone. Who knows only its nodes finds its way at their ports yet, see `Gateway.dial`: the
        listeners close as those of nodes that are gone."""
        now = monotonic()
        others = [one for one in self._upstreams.values() if one is not upstream]
        for key in list(upstream.topology.nodes):
            upstream.topology.forget(key, now)
            if key in self._listeners.bound and not any(one.knows(key) for one in others):
                self._orphans[key] = now

    def bind_missing(self) -> bool:
        """Give listeners to nodes that could have none; whether one has one now."""
        missing = [
            node
            for upstream in self._upstreams.values()
            for node in upstream.topology.nodes.values()
            if node.absent_since is None and node.key not in self._listeners.bound
        ]
        self.bind_all(missing)
        return any(node.key in self._listeners.bound for node in missing)

    def retire(self, after: float) -> None:
        """Close the listeners of nodes that have been absent and unused for so many seconds. They keep their ports."""
        self.forget_numbers()
        for key, listener in list(self._listeners.bound.items()):
            nodes = [one.topology.nodes[key] for one in self._upstreams.values() if key in one.topology.nodes]
            gone = [node.absent_since for node in nodes if node.absent_since is not None]
            if key in self._orphans:
                gone.append(self._orphans[key])
            if listener.sessions or not gone or len(gone) < len(nodes) or monotonic() - max(gone) < after:
                continue
            self._listeners.close(key)
            self._orphans.pop(key, None)
            self._count_listeners()
            log.info("%s has been gone for %g s: closed port %d", key, after, listener.port)


def _why_not(port: int, error: OSError) -> str:
    """Why a port cannot be listened on."""
    if error.errno != errno.EADDRINUSE:
        return str(error.strerror)
    peer = connection_at(port)
    if peer is None:
        return "it is taken by another process"
    return (
        f"it is the local end of a connection to {peer}; keep --listen and --node-ports below the ports that the system"
        " assigns to connections (net.ipv4.ip_local_port_range)"
    )
