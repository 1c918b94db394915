"""The client connections that have no session yet: the TLS handshake, the client's route, the dial.

kproxy answers a client late if its node cannot be reached. At a port that refuses connections, each client has its own
back-off. At one that accepts and closes, kafka-python has none: it connects up to 360 times a second. So kproxy keeps
such a client for as long as the node has been unreachable already, and for at most `_LONGEST_WAIT`. At first, clients
learn at once that the node is away; then the pauses double. If the node can be reached again, the client continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.messages.start import CANNOT_BE_REACHED
from kproxy.base.repeats import about
from kproxy.net.tls.handshakes import ClientTls
from kproxy.net.tls.tlssocket import TlsSocket
from kproxy.protocol.rewrite.versionsrequest import VersionsRequest, is_begun, read_versions_request
from kproxy.proxy.cluster.clientconnection import ClientConnection, ConnectionState
from kproxy.proxy.cluster.clientroute import (
    ClientRoute,
    Routes,
    read_first_request,
    read_versions_bytes,
    route_for,
)
from kproxy.proxy.cluster.connectionslots import open_file_limit, pending_connection_limit
from kproxy.proxy.cluster.dialqueue import DialQueue, DialSlot
from kproxy.proxy.cluster.misrouted import MisroutedClients
from kproxy.proxy.cluster.nodedialer import Misrouted, Unreachable
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection

log = logging.getLogger(__name__)

# The longest that kproxy keeps a client whose node is unreachable, from its arrival on, in seconds.
_LONGEST_WAIT = 2.0

NodeExists = Callable[[NodeKey], Awaitable[bool]]
"""Returns whether such a node exists, as far as is known."""
OnConnected = Callable[[ClientConnection, VerifiedConnection, bytes], None]
"""Takes over a client, with the connection to its node and with what was read from it.

If that connection is not verified yet, the client keeps its dial slot.
"""


class PendingConnections:
    """The pending connections of one cluster and of its parts.

    `tls`: None if clients connect without TLS.
    """

    def __init__(
        self, tls: ClientTls | None, routes: Routes, node_exists: NodeExists, on_connected: OnConnected
    ) -> None:
        self.tls = tls
        self._routes = routes
        self._node_exists = node_exists
        self._on_connected = on_connected
        self._maximum = pending_connection_limit(open_file_limit())
        self._dial_queue = DialQueue(self._maximum)
        self._misrouted = MisroutedClients()
        self._waiting = 0  # clients whose node is unreachable

    async def connect(self, connection: ClientConnection, first: bytes) -> None:
        """Connect this client to its node; close its connection if that fails.

        `first` is what was read of it; b"" before a TLS handshake.
        """
        with connection:
            try:
                if self.tls is not None:
                    connection.sock = tls_socket = await self.tls.accept(connection.sock)
                    await self._resolve_sni(connection, tls_socket)
                if len(self._routes) > 1:
                    first = await read_first_request(connection.sock, first)
                elif is_begun(first):
                    first = await read_versions_bytes(connection.sock, first)
            except WireError as error:
                connection.slots.log_refusal(connection.peer, error)
                return
            connection.state = ConnectionState.DIALLING
            connection.route = route = route_for(first, self._routes)
            request = read_versions_request(first)
            try:
                upstream = await self._dial_when_free(connection, route, request)
            except Misrouted as error:
                connection.release_dial_slot()
                with connection.giving_way():
                    await self._misrouted.refuse(connection, first, error)
                return
            if upstream is None:
                return
            if upstream.verify is None:
                connection.release_dial_slot()
            self._on_connected(connection, upstream, first)

    async def _dial_when_free(
        self, connection: ClientConnection, route: ClientRoute, request: VersionsRequest | None
    ) -> VerifiedConnection | None:
        """Dial when a dial slot is free, and again when the node can be reached; return None if it cannot.

        Raises Misrouted.
        """
        node, logged = (route.name, connection.key), False
        while True:
            outcome: DialSlot | UpstreamError | None = self._dial_queue.take(node)
            if outcome is None:
                with connection.giving_way():
                    outcome = await self._dial_queue.acquire(node)
            if isinstance(outcome, DialSlot):
                connection.dial_slot = outcome
                try:
                    upstream = await _dial(route, connection.key, request)
                except Misrouted:
                    raise
                except UpstreamError as error:
                    outcome = error
                    if isinstance(error, Unreachable):
                        self._dial_queue.note_unreachable(node, error)
                    connection.release_dial_slot()
                else:
                    self._dial_queue.note_reached(node)
                    return upstream
            if not logged:
                name = node_text(connection.key)
                topic = about(route.config.title, name, outcome.reason)
                log.warning("%s %s", name, CANNOT_BE_REACHED(problem=outcome), extra=topic)
                logged = True
            if not await self._wait_for_node(connection, outcome):
                return None

    async def _wait_for_node(self, connection: ClientConnection, error: UpstreamError) -> bool:
        """Keep a client whose node is unreachable for a while; return whether the node may be reachable now."""
        if not isinstance(error, Unreachable) or self._waiting >= self._maximum:
            return False
        now, outage = asyncio.get_running_loop().time(), error.outage
        until = connection.since + min(now - outage.since, _LONGEST_WAIT)
        self._waiting += 1
        try:
            with connection.giving_way():
                async with asyncio.timeout_at(until):
                    await outage.ended.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    def note_unreachable(self, route: ClientRoute, key: NodeKey | None, error: UpstreamError) -> None:
        """Note that a node has not answered a client that had a dial slot."""
        self._dial_queue.note_unreachable((route.name, key), error)

    async def _resolve_sni(self, connection: ClientConnection, client: TlsSocket) -> None:
        """Choose the node by the client's port, or, with --sni, by the name in its TLS handshake.

        If there is no such node, a bootstrap server tells the client which nodes exist.
        """
        sni = self._routes[""].config.sni
        label = sni.label(client.requested_name) if sni is not None else None
        if label is not None:
            connection.requested_key = NodeKey.of(label)
            if await self._node_exists(connection.requested_key):
                connection.key = connection.requested_key


async def _dial(route: ClientRoute, key: NodeKey | None, request: VersionsRequest | None) -> VerifiedConnection:
    """Dial, and once more if the configuration has changed meanwhile. Raises UpstreamError."""
    while True:
        config = route.config
        try:
            upstream = await route.dial(key, request)
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
