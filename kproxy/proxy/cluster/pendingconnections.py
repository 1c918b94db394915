"""The client connections that have no session yet: the TLS handshake, the client's route, the dial.

Whatever a client does meanwhile, and whenever it is dropped, its slot and its file descriptor come back.

kproxy answers a client late if its node cannot be reached. At a port that refuses connections, each client has its own
back-off. At one that accepts and closes, kafka-python has none: it connects up to 360 times a second. So kproxy keeps
such a client for as long as the node has been unreachable already, and for at most `_LONGEST_WAIT`. At first, clients
learn at once that the node is away; then the pauses double. If the node can be reached again, the client continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.repeats import about
from kproxy.net.tls.handshakes import ClientTls
from kproxy.net.tls.tlssocket import TlsSocket
from kproxy.proxy.cluster.acceptor import ConnectionSlot
from kproxy.proxy.cluster.clientroute import ClientRoute, client_id_of, read_first_request, route_for
from kproxy.proxy.cluster.connectionlimit import open_file_limit, pending_connection_limit
from kproxy.proxy.cluster.dialqueue import DialQueue, DialSlot
from kproxy.proxy.cluster.nodeverifier import VerifiedConnection
from kproxy.proxy.cluster.outages import Unreachable
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.metrics import Metrics

log = logging.getLogger(__name__)

# The longest that kproxy keeps a client whose node is unreachable, from its arrival on, in seconds.
_LONGEST_WAIT = 2.0

NodeExists = Callable[[NodeKey], Awaitable[bool]]
"""Returns whether such a node exists, as far as is known."""


@dataclass(slots=True)
class PendingConnection:
    """A client connection without a session."""

    key: NodeKey | None
    """The node to dial; None: a bootstrap server, also if the requested node does not exist."""
    host: str
    """The host under which the client finds kproxy."""
    slot: ConnectionSlot
    requested_key: NodeKey | None = None
    """The node whose port or name the client used; None: the bootstrap listener's."""
    route: ClientRoute | None = None
    """The client's route, as soon as it is known."""
    arrived_at: float = 0.0
    """When the client was handed over, in the loop's time."""
    dial_slot: DialSlot | None = None
    """Held from the dial until the node has answered."""
    task: asyncio.Task[None] | None = None
    """The task that connects the client."""

    def release_dial_slot(self) -> None:
        """Let the next client dial."""
        if self.dial_slot is not None:
            self.dial_slot.release()
            self.dial_slot = None


OnConnected = Callable[[socket.socket, PendingConnection, ClientRoute, VerifiedConnection, bytes], None]
"""Takes over a client, with what was read from it and with the connection to its node.

If that connection is not verified yet, the client keeps its dial slot.
"""


class PendingConnections:
    """The pending connections of one cluster and of its parts."""

    def __init__(
        self,
        name: str,
        tls: ClientTls | None,
        default_route: ClientRoute,
        parts: Mapping[str, ClientRoute],
        node_exists: NodeExists,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        on_connected: OnConnected,
    ) -> None:
        """Begin with none. `tls`: None if clients connect without TLS. `default_route` is for clients in no part."""
        self._name = name
        self.tls = tls
        self._default_route, self._part_routes = default_route, parts
        self._node_exists = node_exists
        self._metrics = metrics
        self._tasks = tasks
        self._on_connected = on_connected
        self._connections: dict[socket.socket, PendingConnection] = {}
        self._maximum = pending_connection_limit(open_file_limit())
        self._dial_queue = DialQueue(self._maximum)
        self._waiting = 0  # clients whose node is unreachable

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, client: socket.socket, connection: PendingConnection) -> None:
        """Connect this client to its node."""
        connection.arrived_at = asyncio.get_running_loop().time()
        self._connections[client] = connection
        connection.task = self._tasks.create_task(self._connect(client, connection))

    def drop(self, route: ClientRoute) -> None:
        """Close the connections of this route."""
        for client in [client for client, connection in self._connections.items() if connection.route is route]:
            self._drop(client)

    def drop_all(self) -> None:
        """Close all pending connections."""
        for client, connection in list(self._connections.items()):
            if connection.task is not None:
                connection.task.cancel()
            self._drop(client)

    async def _connect(self, client: socket.socket, connection: PendingConnection) -> None:
        if self.tls is not None:
            tls_socket = await self._handshake(client, connection, self.tls)
            if tls_socket is None:
                return
            client = tls_socket
            try:
                await self._resolve_sni(tls_socket, connection)
            except BaseException:
                self._drop(client)
                raise
        first = await self._read_first_request(client, connection) if self._part_routes else b""
        if first is None:
            return
        route = connection.route = route_for(client_id_of(first), self._part_routes.values(), self._default_route)
        try:
            upstream = await self._dial_when_free(client, connection, route)
        except BaseException:
            self._drop(client)
            raise
        if upstream is None:
            self._drop(client)
            return
        if self._connections.pop(client, None) is None:  # closed while dialling: kproxy stops
            upstream.sock.close()
            connection.release_dial_slot()
            return
        if upstream.verify is None:
            connection.release_dial_slot()
        self._on_connected(client, connection, route, upstream, first)

    async def _dial_when_free(
        self, client: socket.socket, connection: PendingConnection, route: ClientRoute
    ) -> VerifiedConnection | None:
        """Dial when a dial slot is free, and again when the node can be reached; return None if it cannot."""
        node, logged = (route.name, connection.key), False
        while client in self._connections:
            if self._dial_queue.is_free(node):
                outcome = await self._dial_queue.acquire(node)
            else:
                with self._evictable(client, connection):
                    outcome = await self._dial_queue.acquire(node)
            if isinstance(outcome, DialSlot):
                connection.dial_slot = outcome
                try:
                    upstream = await _dial(route, connection.key)
                except UpstreamError as error:
                    outcome = error
                    if isinstance(error, Unreachable):
                        self._dial_queue.note_unreachable(node, error)
                    connection.release_dial_slot()
                except BaseException:
                    connection.release_dial_slot()
                    raise
                else:
                    self._dial_queue.note_reached(node)
                    return upstream
            if not logged:
                name = node_text(connection.key)
                topic = about(route.config.title, name, outcome.reason)
                log.warning("%s cannot be reached: %s", name, outcome, extra=topic)
                logged = True
            if not await self._wait_for_node(client, connection, outcome):
                break
        return None

    async def _wait_for_node(self, client: socket.socket, connection: PendingConnection, error: UpstreamError) -> bool:
        """Keep a client whose node is unreachable for a while; return whether the node may be reachable now."""
        if not isinstance(error, Unreachable) or self._waiting >= self._maximum:
            return False
        now, outage = asyncio.get_running_loop().time(), error.outage
        until = connection.arrived_at + min(now - outage.since, _LONGEST_WAIT)
        self._waiting += 1
        try:
            with self._evictable(client, connection):
                async with asyncio.timeout_at(until):
                    await outage.ended.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    @contextlib.contextmanager
    def _evictable(self, client: socket.socket, connection: PendingConnection) -> Iterator[None]:
        """Let others take the slot of the client while it waits."""

        def give_way() -> None:
            self._metrics.count_refusal(self._name, "client", "too-many-connections")
            self._drop(client)
            if connection.task is not None:
                connection.task.cancel()

        connection.slot.set_waiting(give_way)
        try:
            yield
        finally:
            connection.slot.set_waiting(None)

    def note_unreachable(self, route: ClientRoute, key: NodeKey | None, error: UpstreamError) -> None:
        """Note that a node has not answered a client that had a dial slot."""
        self._dial_queue.note_unreachable((route.name, key), error)

    async def _handshake(
        self, client: socket.socket, connection: PendingConnection, tls: ClientTls
    ) -> TlsSocket | None:
        """Do the TLS handshake; return None if it failed."""
        try:
            tls_socket = await tls.accept(client)
        except WireError as error:
            self._refuse(client, connection, error)
            return None
        except BaseException:
            self._drop(client)
            raise
        self._connections[tls_socket] = self._connections.pop(client)
        return tls_socket

    async def _resolve_sni(self, client: TlsSocket, connection: PendingConnection) -> None:
        """Choose the node by the client's port, or, with --sni, by the name in its TLS handshake.

        If there is no such node, a bootstrap server tells the client which nodes exist.
        """
        sni = self._default_route.config.sni
        label = sni.label(client.requested_name) if sni is not None else None
        if label is not None:
            connection.requested_key = NodeKey.of(label)
            if await self._node_exists(connection.requested_key):
                connection.key = connection.requested_key
                connection.slot.set_node(connection.key)

    async def _read_first_request(self, client: socket.socket, connection: PendingConnection) -> bytes | None:
        """Read the client's first request; return None if it disconnected before."""
        try:
            request = await read_first_request(client)
            return request if client in self._connections else None  # closed meanwhile: kproxy stops
        except WireError as error:
            self._refuse(client, connection, error)
            return None
        except OSError:
            pass  # the client has already disconnected
        except BaseException:
            self._drop(client)
            raise
        self._drop(client)
        return None

    def _refuse(self, client: socket.socket, connection: PendingConnection, error: WireError) -> None:
        self._metrics.count_refusal(self._name, "client", error.reason)
        peer = connection.slot.peer
        log.warning("refused a connection from %s: %s", peer, error, extra=about(peer.host, error.reason))
        self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        connection = self._connections.pop(client, None)
        if connection is not None:
            client.close()
            connection.slot.release()


async def _dial(route: ClientRoute, key: NodeKey | None) -> VerifiedConnection:
    """Dial, and once more if the configuration has changed meanwhile. Raises UpstreamError."""
    while True:
        config = route.config
        try:
            upstream = await route.dial(key)
        except UpstreamError:
            if config is route.config:
                raise
            continue
        if config is route.config:
            return upstream
        upstream.sock.close()


def node_text(key: NodeKey | None) -> str:
    """Return a node as it stands in messages."""
    return "the bootstrap server" if key is None else str(key)
