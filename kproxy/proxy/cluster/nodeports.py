"""The listeners of a cluster's nodes: their ports, when they close, and how many there may be."""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from time import monotonic

from kproxy.base.ephemeralports import find_connection
from kproxy.base.errors import WireError
from kproxy.base.messages.sessions import NO_LOCAL_PORT, TOO_MANY_NEW_NODES, TOO_MANY_NODES
from kproxy.base.messages.start import (
    LOCAL_PORT_OF_CONNECTION,
    LOCAL_PORT_OUTSIDE,
    LOCAL_PORT_TAKEN,
    NODE_ID_OUTSIDE_PORTS,
    NODE_PORT_UNAVAILABLE,
    OTHER_LOCAL_PORT,
)
from kproxy.base.repeats import about
from kproxy.config import ClusterConfig
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.listeners import Listeners
from kproxy.proxy.cluster.topology import LocalPorts, NodeKey
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
    """The listeners of the nodes of all upstreams.

    A node of one upstream and the node of the same kind and id of another share theirs. `problem`: why the last node
    without a listener has none; "" if each has one.

    To bind or close a listener takes a tenth of a millisecond, and a broker can name a thousand nodes. So whatever
    handles many of them is an iterator that handles one in each step, and sessions may continue after each. Anything
    may happen between two steps; the remaining steps may never run.
    """

    def __init__(
        self,
        listeners: Listeners,
        ports: LocalPorts,
        upstreams: Mapping[str, Upstream],
        metrics: Metrics,
        connection_limit: ConnectionLimit,
    ) -> None:
        self._listeners = listeners
        self._ports = ports
        self._upstreams = upstreams
        self._metrics = metrics
        self._limit = connection_limit
        self._orphans: dict[NodeKey | None, float] = {}  # nodes with a listener and without an upstream, and since when
        self._closing: dict[NodeKey, None] = {}  # likewise, but closed before the next one is bound
        self.problem = ""
        # Of the nodes that are bound together, one has found no port free in the window; these are left of others.
        self._window_is_full, self._reusable = False, deque[int]()
        self._recent_new_nodes, self._counted_at = 0.0, monotonic()  # new nodes, less those that were allowed since
        self._count_listeners()

    @property
    def _config(self) -> ClusterConfig:
        """A configuration of the cluster: the options used here are the same for all upstreams."""
        return next(iter(self._upstreams.values())).config

    def close_all(self) -> None:
        """Close every listener."""
        self._listeners.close_all()
        self._closing.clear()
        self._count_listeners()
        self._limit.remove_cluster(self)

    def is_bound(self, key: NodeKey) -> bool:
        """Check whether a node of an upstream has a listener, with --sni the bootstrap listener."""
        if self._config.sni is not None:
            return None in self._listeners.bound
        return key in self._listeners.bound and key not in self._orphans and key not in self._closing

    def bind(self, keys: Iterable[NodeKey]) -> Iterator[None]:
        """Give each of these nodes a listener: on the port it has, or on the first of its ports that is free.

        Another upstream's node of this kind and id shares it. With --sni, all nodes share the bootstrap listener.
        """
        if self._config.sni is not None:
            return
        yield from self._close_forgotten()
        self._window_is_full = False
        for key in keys:
            if not self._listeners.accepting:
                return
            if self._is_known(key):  # else it was forgotten since
                self._bind(key)
                if not self.is_bound(key) and not self._ports.fixed:
                    return  # the next one would have none either
                yield

    def _bind(self, key: NodeKey) -> None:
        listening = self._listeners.bound.get(key)
        if listening is not None:
            if not self.is_bound(key):
                self._orphans.pop(key, None)
                self._closing.pop(key, None)
                self._assign(key, listening.port)
            return
        if not self._may_listen():
            self._note_no_port(
                key,
                NO_LOCAL_PORT(listening=self._limit.listening, files=self._limit.files),
            )
            return
        refused: tuple[int, OSError] | None = None
        for port in self._ports_for(key):
            try:
                listener = self._listeners.bind(key, port)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
                    refused = refused or (port, error)
                    continue
                self._note_no_port(key, str(error.strerror))
                return
            break
        else:
            self._note_no_port(key, self._why_no_port(key, refused))
            return
        self.problem = ""
        if port == 0:
            log.warning(
                LOCAL_PORT_OUTSIDE(node=key, port=listener.port, first=self._ports.first, last=self._ports.last),
                extra=about(self._config.name),
            )
        elif refused is not None:
            # Clients do not rely on the ports behind one that the system chose.
            level = (
                logging.INFO if self._config.listen.port == 0 and self._config.node_ports is None else logging.WARNING
            )
            problem = _why_not(*refused)
            log.log(level, OTHER_LOCAL_PORT(node=key, port=port, wanted=refused[0], problem=problem))
        self._assign(key, listener.port)
        self._count_listeners()

    def _why_no_port(self, key: NodeKey, refused: tuple[int, OSError] | None) -> str:
        """Return why the node can have no port, and what to do."""
        if not self._ports.fixed:
            return "no port is free: widen --node-ports"
        if refused is not None:
            port, error = refused
            problem = _why_not(port, error)
            if error.errno == errno.EADDRINUSE and find_connection(port) is None:
                problem = "it is taken by a process that does not share it, or of another user"
            return NODE_PORT_UNAVAILABLE(port=port, problem=problem)
        if only := self._ports.only_port(key):
            return f"another node has port {only}, and with --reuse-port it can have no other: widen --node-ports"
        return NODE_ID_OUTSIDE_PORTS(
            first=self._ports.first, last=self._ports.last, highest=self._ports.broker_capacity - 1
        )

    def _note_no_port(self, key: NodeKey, problem: str) -> None:
        """Note that a node has no port. A problem that hundreds of nodes share is logged once."""
        if problem != self.problem:
            log.error("%s has no local port: %s", key, problem, extra=about(self._config.name))
        self.problem = problem

    def _assign(self, key: NodeKey, port: int) -> None:
        for upstream in self._upstreams.values():
            if key in upstream.topology.nodes:
                upstream.topology.assign(key, port)

    def _ports_for(self, key: NodeKey) -> Iterator[int]:
        yield from self._ports.ports_for(key)
        if self._ports.fixed:
            return
        # The window is exhausted. A node that was retired has been absent for so long that every client has asked for
        # metadata since, and none uses its port for that node any more.
        if not self._window_is_full:  # a look at all nodes for each of hundreds would take long
            self._window_is_full = True
            for upstream in self._upstreams.values():
                absent = [node.key for node in upstream.topology.nodes.values() if node.absent_since is not None]
                self._forget(upstream, [key for key in absent if key not in self._listeners.bound])
            self._reusable = deque(self._ports.reusable_ports(monotonic() - self._config.retire_after))
        while self._reusable:
            port = self._reusable.popleft()
            if self._ports.is_reusable(port):  # else its node is back since
                yield port
        if self._config.advertise is None or self._config.advertise.first_port is None:
            yield 0  # else it could not be advertised: the user has mapped the ports of the window

    def _count_listeners(self) -> None:
        self._metrics.set_listeners(self._config.name, len(self._listeners.bound))
        self._limit.set_listening(self, self._listeners.sockets)

    # Room for nodes

    def make_room(self, upstream: Upstream, endpoints: Endpoints) -> None:
        """Forget absent nodes if there are too many with those that a response names.

        Raises WireError if that is not enough: kproxy never forgets a present node, nor one that clients are connected
        to.
        """
        topology = upstream.topology
        most = _MORE_NODES + self._ports.last - self._ports.first
        to_forget: Sequence[NodeKey] = ()
        if len(topology.nodes) + len(endpoints.nodes) > most:
            named = {NodeKey(e.kind, e.node_id) for e in endpoints.nodes}
            excess = max(0, len(topology.nodes.keys() | named) - most)
            to_forget = [key for key in topology.removable_nodes(endpoints) if not self._in_use(key)][:excess]
            if len(to_forget) < excess:
                nodes = most + excess - len(to_forget)
                raise WireError(*TOO_MANY_NODES.with_reason(nodes=nodes))
        new = sum(NodeKey(e.kind, e.node_id) not in topology.nodes for e in endpoints.nodes)
        if new > _FEW and not self._may_add_nodes(new, most):
            raise WireError(*TOO_MANY_NEW_NODES.with_reason(new=new))
        if to_forget:
            self._forget(upstream, to_forget)
            self.forget_metrics()

    def _may_add_nodes(self, new: int, most: int) -> bool:
        """Check whether a cluster that may have `most` nodes may bring so many new ones now.

        Each costs a listener, so a cluster that names other nodes each time would delay all other clusters.
        """
        now = monotonic()
        came = max(0.0, self._recent_new_nodes - (now - self._counted_at) * _NEW_PER_SECOND)
        if came + new > _CLUSTERS_AT_ONCE * most:
            return False
        self._recent_new_nodes, self._counted_at = came + new, now
        return True

    def _may_listen(self) -> bool:
        """Check whether one more listener fits the limit of open files, forgetting absent nodes if necessary."""
        while self._closing and not self._limit.may_listen(self):
            self._close_if_forgotten(next(iter(self._closing)))
        for upstream in [] if self._limit.may_listen(self) else self._upstreams.values():
            for key in upstream.topology.removable_nodes(Endpoints(())):
                if key in self._listeners.bound and not self._in_use(key):
                    self._forget(upstream, [key])
                    self._close_if_forgotten(key)
                    if self._limit.may_listen(self):
                        return True
        return self._limit.may_listen(self)

    def _in_use(self, key: NodeKey) -> bool:
        listener = self._listeners.bound.get(key)
        return listener is not None and listener.sessions > 0

    def _forget(self, upstream: Upstream, keys: Collection[NodeKey]) -> None:
        log.debug("kproxy forgets %d nodes, which are absent, to make room for others", len(keys))
        now = monotonic()
        for key in keys:
            upstream.topology.forget(key, now)
            if key in self._listeners.bound and not self._is_known(key):
                self._closing[key] = None
        upstream.dialer.forget(keys)

    def _is_known(self, key: NodeKey) -> bool:
        return any(key in upstream.topology.nodes for upstream in self._upstreams.values())

    def _close_forgotten(self) -> Iterator[None]:
        while self._closing:
            self._close_if_forgotten(next(iter(self._closing)))
            yield

    def _close_if_forgotten(self, key: NodeKey) -> None:
        """Close the listener of a node that was forgotten, unless the node is back."""
        if self._is_known(key):
            self._bind(key)
        elif key in self._closing:
            del self._closing[key]
            self._close(key)

    def _close(self, key: NodeKey | None) -> None:
        self._listeners.close(key)
        self._orphans.pop(key, None)
        self._count_listeners()

    def forget_metrics(self) -> None:
        """Remove the metrics of nodes that no upstream has."""
        labels = {key.label for upstream in self._upstreams.values() for key in upstream.topology.nodes}
        self._metrics.keep_only(self._config.name, labels)

    def remove_upstream(self, upstream: Upstream) -> None:
        """Forget the nodes of an upstream that was removed.

        A client that knows only its nodes can still connect to their ports, see `Gateway.dial`. The listeners close
        like those of absent nodes.
        """
        now = monotonic()
        others = [other for other in self._upstreams.values() if other is not upstream]
        for key in list(upstream.topology.nodes):
            upstream.topology.forget(key, now)
            if key in self._listeners.bound and not any(other.knows_node(key) for other in others):
                self._orphans[key] = now

    def unbound_nodes(self) -> list[NodeKey]:
        """Return the present nodes that have no listener."""
        return [
            key
            for upstream in self._upstreams.values()
            for key, node in upstream.topology.nodes.items()
            if node.absent_since is None and not self.is_bound(key)
        ]

    def retire(self, after: float) -> Iterator[None]:
        """Close the listeners of nodes that have been absent and unused for this long. They keep their ports."""
        self.forget_metrics()
        yield from self._close_forgotten()
        for key, listener in list(self._listeners.bound.items()):
            if self._listeners.bound.get(key) is not listener:
                continue  # closed since
            nodes = [
                upstream.topology.nodes[key] for upstream in self._upstreams.values() if key in upstream.topology.nodes
            ]
            absent_since = [node.absent_since for node in nodes if node.absent_since is not None]
            if key in self._orphans:
                absent_since.append(self._orphans[key])
            if (
                listener.sessions
                or not absent_since
                or len(absent_since) < len(nodes)
                or monotonic() - max(absent_since) < after
            ):
                continue
            self._close(key)
            if key is not None:
                for upstream in self._upstreams.values():
                    upstream.dialer.forwards.release(key.label)
            text, which = "%s has been absent for %g s: closed port %d", key.log_subject if key else 0
            log.info(text, key, after, listener.port, extra=about(self._config.name, which))
            yield


def _why_not(port: int, error: OSError) -> str:
    """Return why kproxy cannot listen on a port."""
    if error.errno != errno.EADDRINUSE:
        return str(error.strerror)
    peer = find_connection(port)
    if peer is None:
        return LOCAL_PORT_TAKEN()
    return LOCAL_PORT_OF_CONNECTION(peer=peer)
