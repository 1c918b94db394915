"""One cluster's gateway: a listener for each node; accept a client, hand it to who carries its session; local addresses
for endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from kproxy.address import Address
from kproxy.cluster.encryption import client_tls
from kproxy.cluster.listeners import Listener, Listeners
from kproxy.cluster.places import Places
from kproxy.cluster.reach import BOOTSTRAP, Reach
from kproxy.cluster.topology import Learned, Node, NodeKey, Topology
from kproxy.config import ClusterConfig
from kproxy.dial.sockets import tune
from kproxy.errors import ConfigError, WireError
from kproxy.metrics import Metrics
from kproxy.relay.wrongpeer import plaintext_client, wrong_client
from kproxy.rewrite.endpoints import Endpoints
from kproxy.wire.greeting import ENOUGH, Greeting, recognise

log = logging.getLogger(__name__)

# Nodes with a listener beyond the window of ports. A cluster has hundreds at most; a hostile one could name millions.
_MORE_NODES = 1000
# The first byte of a TLS connection: a record of type handshake (RFC 8446 §5.1).
_TLS_HANDSHAKE = b"\x16"
# What a browser or curl sees that comes to a Kafka port.
_HTTP_HINT = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is a Kafka port of kproxy: give it to a Kafka client as bootstrap.servers.\n"
)


Carry = Callable[[socket.socket, "NodeKey | None", str, Callable[[], None]], None]
"""Takes over a client that has spoken; see `Sessions.carry`."""


class Gateway:
    """The local side of one cluster. `on_change` is called when there is something new about its nodes."""

    carry: Carry  # set before the loop turns, by who carries the sessions

    def __init__(self, config: ClusterConfig, metrics: Metrics, tasks: asyncio.TaskGroup, places: Places) -> None:
        self.config = config
        self._metrics = metrics
        self._places = places
        self.on_change: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        # Handshakes are for the sessions, in other processes perhaps; but a bad file is to end kproxy at its start.
        self._expects_tls = client_tls(config) is not None
        self._listeners = Listeners(config.listen, self._accepted)
        try:
            self._bootstrap = self._listeners.bind(BOOTSTRAP, config.listen.port)
        except OSError as error:
            raise ConfigError(_bind_problem(config.listen, error)) from None
        self.listen = Address(config.listen.host, self._bootstrap.port)
        window = config.effective_node_ports(self.listen.port)
        self.topology = Topology(window.first, window.last)
        self.reach = Reach(config, self.topology, metrics, tasks, self._listeners.is_own)
        self._keys: dict[str, NodeKey] = {}  # of listeners, by label
        self._waiting: dict[socket.socket, Listener] = {}  # accepted, nothing heard yet
        self.sessions = 0  # that the carrier has
        self._warned_wildcard = False
        self._count_listeners()

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
                "--listen %s is every interface, which cannot be advertised: clients are told the address that they"
                " connected to (%s). Set --advertise HOST if they must use another",
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
        known = len(self.topology.nodes)
        if known + len(endpoints.nodes) > _MORE_NODES + self.topology.last - self.topology.first:
            new = {NodeKey(e.kind, e.node_id) for e in endpoints.nodes} - self.topology.nodes.keys()
            if known + len(new) > _MORE_NODES + self.topology.last - self.topology.first:
                raise WireError("too-many-nodes", f"the cluster names {known + len(new)} nodes: widen --node-ports")
        learned = self.topology.learn(endpoints, monotonic())
        for node in (*learned.new, *learned.back):
            self._bind(node)
        self.reach.nodes_known.set()
        # At start they are all new, and shown together.
        level = logging.INFO if self.reach.ready else logging.DEBUG
        for node in learned.new:
            log.log(level, "%s: %s is at local port %d", node.key, node.advertised, node.port)
        for node, before in learned.moved:
            log.info("%s moved from %s to %s; its local port stays %d", node.key, before, node.advertised, node.port)
        for node in learned.gone:
            log.info("%s (%s) is no longer in the metadata", node.key, node.advertised)
        for node in learned.back:
            log.info("%s (%s) is back", node.key, node.advertised)
        if learned != Learned():
            self.on_change()

    def localise(self, host: str, endpoints: Endpoints) -> Sequence[Address]:
        """The local addresses of what a broker named; each is bound. Raises WireError."""
        if any(endpoint.node_id < 0 for endpoint in endpoints.nodes):
            raise WireError("malformed", "the broker named a node with a negative id")
        self.learn(endpoints)
        nodes = self.topology.nodes
        return [self.local_address(nodes[NodeKey(e.kind, e.node_id)], host) for e in endpoints.nodes]

    def _bind(self, node: Node) -> None:
        """Give the node a listener: on the port it has, or the first of its ports that can be had."""
        label = node.key.label
        if label in self._listeners.bound:
            return
        for port in (*self.topology.ports_for(node.key), 0):
            try:
                listener = self._listeners.bind(label, port)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
                    continue
                log.error("%s has no local port: %s", node.key, error.strerror)
                return
            break
        else:
            log.error("%s has no local port: none is free", node.key)
            return
        if port == 0:
            log.warning(
                "%s has the local port %d outside --node-ports %d-%d, where none is free: widen it",
                node.key, listener.port, self.topology.first, self.topology.last,
            )  # fmt: skip
        self.topology.assign(node.key, listener.port)
        self._keys[label] = node.key
        self._count_listeners()

    def _count_listeners(self) -> None:
        self._metrics.listeners(self.config.name, len(self._listeners.bound))

    def retire(self) -> None:
        """Close the listeners of nodes that have been absent and unused for long enough. They keep their ports."""
        for node in self.topology.nodes.values():
            listener = self._listeners.bound.get(node.key.label)
            absent = node.absent_since
            if listener is None or absent is None or listener.sessions:
                continue
            if monotonic() - absent >= self.config.retire_after:
                self._listeners.close(node.key.label)
                self._count_listeners()
                log.info("%s has been gone for %g s: closed port %d", node.key, self.config.retire_after, node.port)

    # Connections

    def _accepted(self, client: socket.socket, listener: Listener) -> None:
        if self.sessions + len(self._waiting) >= self.config.max_connections:
            log.error(
                "cluster %s has %d connections, the most that --max-connections allows: one was refused",
                self.config.name, self.config.max_connections,
            )  # fmt: skip
        elif self._places.full:
            log.error(
                "kproxy has %d connections, the most for %d open files: one was refused; raise the limit (ulimit -n)",
                self._places.taken, self._places.files,
            )  # fmt: skip
        else:
            self._places.taken += 1
            listener.sessions += 1
            self._wait_for_first_bytes(client, listener)
            return
        self._metrics.refused(self.config.name, "client", "too-many-connections")
        client.close()

    def _wait_for_first_bytes(self, client: socket.socket, listener: Listener) -> None:
        tune(client)
        self._waiting[client] = listener
        # Brokers are dialled when the client has said something: a TCP probe costs them nothing.
        self._loop.add_reader(client.fileno(), self._spoke, client)

    def _spoke(self, client: socket.socket) -> None:
        try:
            first = client.recv(ENOUGH, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        self._loop.remove_reader(client.fileno())
        error = self._objection(first)
        if error is not None:
            self._refuse(client, error)
            if recognise(first) is Greeting.HTTP:
                with contextlib.suppress(OSError):
                    client.recv(65536)  # what stays unread would turn the close into a reset
                    client.send(_HTTP_HINT)
        if error is not None or not first:
            self._drop(client)
        else:
            self._hand_over(client)

    def _objection(self, first: bytes) -> WireError | None:
        """What is wrong with a client that begins so."""
        greeting = recognise(first)
        if not self._expects_tls or not first:
            return None if greeting is None else wrong_client(greeting)
        if first[:1] == _TLS_HANDSHAKE:
            return None
        return plaintext_client() if greeting is None else wrong_client(greeting)

    def _hand_over(self, client: socket.socket) -> None:
        try:
            host = self.local_host(client)
        except OSError:  # the client is gone already
            self._drop(client)
            return
        listener = self._waiting.pop(client)
        self.sessions += 1
        key = self._keys.get(listener.label)  # of the bootstrap listener none
        self.carry(client, key, host, partial(self._done, listener))

    def _done(self, listener: Listener) -> None:
        self.sessions -= 1
        self._leave(listener)

    def _leave(self, listener: Listener) -> None:
        listener.sessions -= 1
        self._places.taken -= 1

    def _drop(self, client: socket.socket) -> None:
        self._leave(self._waiting.pop(client))
        self._loop.remove_reader(client.fileno())
        client.close()

    def _refuse(self, client: socket.socket, error: WireError) -> None:
        self._metrics.refused(self.config.name, "client", error.reason)
        peer = Address(*client.getpeername()[:2]) if client.fileno() >= 0 else "?"
        log.warning("refused a connection from %s: %s", peer, error)

    # The end, and what the app asks for

    def stop_accepting(self) -> None:
        """Close the listeners and the connections that have said nothing yet."""
        self._listeners.close_all()
        for client in list(self._waiting):
            self._drop(client)

    def sessions_of(self, node: Node) -> int:
        """Open client connections to one node."""
        listener = self._listeners.bound.get(node.key.label)
        return listener.sessions if listener else 0

    def bound_addresses(self) -> frozenset[Address]:
        """The IP addresses and ports of its listeners."""
        return self._listeners.addresses()

    def is_bound(self, node: Node) -> bool:
        return node.key.label in self._listeners.bound


def _bind_problem(listen: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"--listen {listen}: the port is taken by another process; choose another with --listen HOST:PORT"
    return f"--listen {listen}: {error.strerror}"
