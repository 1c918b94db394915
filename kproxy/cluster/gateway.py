"""One cluster's gateway: its nodes and their local ports; local addresses for endpoints."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from kproxy.address import Address
from kproxy.cluster.door import Carry, Door
from kproxy.cluster.encryption import Ends, client_tls
from kproxy.cluster.explore import Explorer
from kproxy.cluster.known import Fact
from kproxy.cluster.listeners import Listeners
from kproxy.cluster.places import Places
from kproxy.cluster.reach import Concerns, Reach
from kproxy.cluster.topology import Learned, Node, NodeKey, Topology
from kproxy.config import ClusterConfig
from kproxy.ephemeral import connection_at
from kproxy.errors import ConfigError, WireError
from kproxy.metrics import Metrics
from kproxy.rewrite.endpoints import Endpoints

log = logging.getLogger(__name__)

# Nodes with a listener beyond the window of ports. A cluster has hundreds at most; a hostile one could name millions.
_MORE_NODES = 1000


class Gateway:
    """The local side of one cluster. `carry` takes over clients that have spoken; `on_change` is called when there is
    something new about its nodes."""

    def __init__(
        self,
        config: ClusterConfig,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        places: Places,
        carry: Carry,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self._metrics = metrics
        self._places = places
        self._counted = 0  # sockets that listen, as `places` knows
        self.tasks = tasks
        self._on_change = on_change
        self._warned_wildcard = False
        self._ended = False
        # Handshakes are for the sessions, in other processes perhaps; but a bad file is to end kproxy at its start.
        self.door = Door(
            config, metrics, places, self.local_host, carry,
            expects_tls=client_tls(config) is not None,
        )  # fmt: skip
        self._listeners = Listeners(config.listen, self.door.accepted)
        try:
            bootstrap = self._listeners.bind(None, config.listen.port)
        except OSError as error:
            raise ConfigError(_bind_problem(config.listen, error)) from None
        self.listen = Address(config.listen.host, bootstrap.port)
        window = config.effective_node_ports(self.listen.port)
        self.topology = Topology(window.first, window.last)
        self.reach = Reach(config, self.topology, metrics, tasks, self._listeners.is_own, self._news)
        self.explorer = Explorer(config, self.topology, self.reach, self.learn)
        self._count_listeners()

    def reconfigure(self, config: ClusterConfig, ends: Ends, seconds: float) -> Concerns:
        """Serve the cluster so from now on; return which sessions that concerns, which have so many seconds to end.
        Listeners and local ports stay as they are."""
        self.config = config
        self.door.reconfigure(config, expects_tls=ends.clients is not None)
        self.explorer.reconfigure(config)
        return self.reach.reconfigure(config, ends.brokers, seconds)

    def _news(self, fact: Fact) -> None:
        self.explorer.stir()
        self._on_change()

    # Local addresses

    def local_host(self, client: socket.socket | None = None) -> str:
        """The host that a client is told: what --advertise says, or the listener's, or, where that is every interface,
        the address that this client connected to."""
        if self.config.advertise is not None:
            return self.config.advertise.host
        if not self.listen.is_wildcard:
            return self.listen.host
        host = "127.0.0.1" if client is None else str(client.getsockname()[0]).removeprefix("::ffff:")
        if client is not None and not self._warned_wildcard:
            self._warned_wildcard = True
            log.warning(
                "--listen %s means every interface and cannot be advertised: kproxy tells each client the address that"
                " the client connected to (%s). If clients must use another, set --advertise HOST",
                self.listen,
                host,
            )
        return host

    @property
    def bootstrap(self) -> Address:
        """What clients use as their bootstrap server; behind mapped ports only the user knows that."""
        return Address(self.local_host(), self.listen.port)

    def local_address(self, node: Node, host: str) -> Address:
        """Where clients find the node."""
        return Address(host, self.config.advertised_port(node.port, self.listen.port) if node.port else 0)

    def learn(self, endpoints: Endpoints) -> None:
        """Take in nodes; each has a listener when this returns."""
        self._make_room(endpoints)
        learned = self.topology.learn(endpoints, monotonic())
        for node in (*learned.new, *learned.back):
            self._bind(node)
        self.explorer.stir()
        # At start they are all new, and shown together.
        level = logging.INFO if self.reach.known.explored.searched else logging.DEBUG
        for node in learned.new:
            log.log(level, "%s: %s is at local port %d", node.key, node.advertised, node.port)
        for node, before in learned.moved:
            log.info("%s moved from %s to %s; its local port stays %d", node.key, before, node.advertised, node.port)
        for node in learned.gone:
            log.info("%s (%s) is no longer in the metadata", node.key, node.advertised)
        for node in learned.back:
            log.info("%s (%s) is back", node.key, node.advertised)
        if learned != Learned():
            self._on_change()

    def localise(self, host: str, endpoints: Endpoints) -> Sequence[Address]:
        """The local addresses of what a broker named; each is bound. Raises WireError."""
        if any(endpoint.node_id < 0 for endpoint in endpoints.nodes):
            raise WireError("malformed", "the broker named a node with a negative id")
        if self._ended and not self.topology.knows(endpoints):
            raise WireError("not-localised", "a new node of a cluster that kproxy no longer serves has no local port")
        self.learn(endpoints)
        nodes = self.topology.nodes
        return [self.local_address(nodes[NodeKey(e.kind, e.node_id)], host) for e in endpoints.nodes]

    def _bind(self, node: Node) -> None:
        """Give the node a listener: on the port it has, or the first of its ports that can be had."""
        if self.is_bound(node):
            return
        if not self._may_listen():
            log.error(
                "%s has no local port: kproxy already listens on %d ports, the limit with %d open files:"
                " raise that limit (ulimit -n)",
                node.key, self._places.listening, self._places.files,
            )  # fmt: skip
            return
        refused: tuple[int, OSError] | None = None
        for port in self._ports_for(node.key):
            try:
                listener = self._listeners.bind(node.key, port)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
                    refused = refused or (port, error)
                    continue
                log.error("%s has no local port: %s", node.key, error.strerror)
                return
            break
        else:
            log.error("%s has no local port: no port is free", node.key)
            return
        if port == 0:
            log.warning(
                "%s has the local port %d outside --node-ports %d-%d, where no port is free: widen the range",
                node.key, listener.port, self.topology.first, self.topology.last,
            )  # fmt: skip
        elif refused is not None:
            # Nobody counts on the ports behind one that the system chose.
            level = logging.INFO if self.config.listen.port == 0 and self.config.node_ports is None else logging.WARNING
            log.log(level, "%s has the local port %d instead of %d: %s", node.key, port, refused[0], _why_not(*refused))
        self.topology.assign(node.key, listener.port)
        self._count_listeners()

    def _ports_for(self, key: NodeKey) -> Iterator[int]:
        yield from self.topology.ports_for(key)
        # The window is exhausted. A node that was retired has been absent for so long that every client has asked for
        # metadata since, and none believes that its port still leads there.
        for node in list(self.topology.nodes.values()):
            if node.absent_since is not None and not self.is_bound(node):
                self._forget(node.key)
        yield from self.topology.ports_left(monotonic() - self.config.retire_after)
        yield 0

    def _count_listeners(self) -> None:
        self._metrics.listeners(self.config.name, len(self._listeners.bound))
        self._places.listening += self._listeners.sockets - self._counted
        self._counted = self._listeners.sockets

    # Room for nodes

    def _make_room(self, endpoints: Endpoints) -> None:
        """Forget absent nodes if there are too many with those that a response names. Raises WireError if that does not
        help: a present node is never forgotten, nor one that clients are connected to."""
        most = _MORE_NODES + self.topology.last - self.topology.first
        if len(self.topology.nodes) + len(endpoints.nodes) <= most:
            return
        named = {NodeKey(e.kind, e.node_id) for e in endpoints.nodes}
        excess = len(self.topology.nodes.keys() | named) - most
        gone = [key for key in self.topology.dispensable(endpoints) if not self._in_use(key)]
        if len(gone) < excess:
            raise WireError(
                "too-many-nodes",
                f"the cluster has {most + excess - len(gone)} nodes, more than the range of ports: widen --node-ports",
            )
        for key in gone[: max(0, excess)]:
            self._forget(key)

    def _may_listen(self) -> bool:
        """Whether one more listener fits the limit of open files, perhaps after absent nodes were forgotten."""
        for key in [] if self._places.may_listen else self.topology.dispensable(Endpoints(())):
            if key in self._listeners.bound and not self._in_use(key):
                self._forget(key)
                if self._places.may_listen:
                    break
        return self._places.may_listen

    def _in_use(self, key: NodeKey) -> bool:
        listener = self._listeners.bound.get(key)
        return listener is not None and listener.sessions > 0

    def _forget(self, key: NodeKey) -> None:
        log.debug("kproxy forgets %s, which is absent, to make room for other nodes", key)
        if key in self._listeners.bound:
            self._listeners.close(key)
            self._count_listeners()
        self.topology.forget(key, monotonic())
        self.reach.known.forget(key)

    def bind_missing(self) -> None:
        """Give listeners to nodes that could have none, for want of file descriptors say."""
        missing = [n for n in self.topology.nodes.values() if n.absent_since is None and not self.is_bound(n)]
        for node in missing:
            self._bind(node)
        if any(self.is_bound(node) for node in missing):
            self._on_change()

    def retire(self) -> None:
        """Close the listeners of nodes that have been absent and unused for long enough. They keep their ports."""
        for node in self.topology.nodes.values():
            listener = self._listeners.bound.get(node.key)
            absent = node.absent_since
            if listener is None or absent is None or listener.sessions:
                continue
            if monotonic() - absent >= self.config.retire_after:
                self._listeners.close(node.key)
                self._count_listeners()
                log.info("%s has been gone for %g s: closed port %d", node.key, self.config.retire_after, node.port)

    # The end, and what the app asks for

    def end(self, seconds: float) -> None:
        """The cluster is served no more; its sessions have so many seconds to end."""
        self._ended = True
        self.stop_accepting()
        self.reach.end(seconds)

    def stop_accepting(self) -> None:
        """Close the listeners and the connections that have said nothing yet."""
        self._listeners.close_all()
        self._count_listeners()
        self.door.close()

    @property
    def sessions(self) -> int:
        """Client connections that have spoken."""
        return self.door.sessions

    def sessions_of(self, node: Node) -> int:
        """Open client connections to one node."""
        listener = self._listeners.bound.get(node.key)
        return listener.sessions if listener else 0

    def bound_addresses(self) -> frozenset[Address]:
        """The IP addresses and ports of its listeners."""
        return self._listeners.addresses()

    def is_bound(self, node: Node) -> bool:
        return node.key in self._listeners.bound


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


def _bind_problem(listen: Address, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"--listen {listen}: {error.strerror}"
    peer = connection_at(listen.port)
    if peer is None:
        return f"--listen {listen}: the port is taken by another process; choose another with --listen HOST:PORT"
    return (
        f"--listen {listen}: the port is the local end of a connection to {peer};"
        " choose another with --listen HOST:PORT"
    )
