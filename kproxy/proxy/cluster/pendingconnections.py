"""Clients that have no session yet: the TLS handshake, whose they are, and the way to their node.

Whatever a client does meanwhile, and whenever it is dropped, its place and its file descriptor come back.

A client whose node cannot be reached is answered late. At a port that refuses connections, each client has a back-off
of its own. At one that accepts and closes, kafka-python has none: it connects up to 360 times a second. So kproxy keeps
such a client for as long as the node has been out of reach already, and at most for `_LONGEST_WAIT`. At first, the
client learns at once that the node is away; then the pauses double. If the node can be reached again, the client goes
on.
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

# How long a client at most is kept whose node cannot be reached, from its arrival on, in seconds.
_LONGEST_WAIT = 2.0

NodeExists = Callable[[NodeKey], Awaitable[bool]]
"""Whether there is such a node, as far as is known."""


@dataclass(slots=True)
class PendingConnection:
    """A client that was told that kproxy is at `host`. `asked`: the node whose port or name it came to (None: a
    bootstrap server's). `key`: where it is to be led, which is a bootstrap server if there is no such node. `led`: to
    whose upstream, as soon as that is known. `came`: the loop's time then. `turn`: until the node has answered it."""

    key: NodeKey | None
    host: str
    guest: ConnectionSlot
    asked: NodeKey | None = None
    led: ClientRoute | None = None
    came: float = 0.0
    turn: DialSlot | None = None
    task: asyncio.Task[None] | None = None  # sees the client in

    def end_turn(self) -> None:
        """It is no longer on its way."""
        if self.turn is not None:
            self.turn.end()
            self.turn = None


OnConnected = Callable[[socket.socket, PendingConnection, ClientRoute, VerifiedConnection, bytes], None]
"""Takes over a client, with what it has said and with the connection to its node. If that was not asked yet who it is,
the client keeps its turn."""


class PendingConnections:
    """Those of one cluster, and of its `parts`; `others` leads whoever belongs to none of them. `tls`: None if clients
    come without it."""

    def __init__(
        self,
        name: str,
        tls: ClientTls | None,
        others: ClientRoute,
        parts: Mapping[str, ClientRoute],
        knows: NodeExists,
        metrics: Metrics,
        tasks: asyncio.TaskGroup,
        arrived: OnConnected,
    ) -> None:
        self._name = name
        self.tls = tls
        self._others, self._parts = others, parts
        self._knows = knows
        self._metrics = metrics
        self._tasks = tasks
        self._arrived = arrived
        self._arrivals: dict[socket.socket, PendingConnection] = {}
        self._most = pending_connection_limit(open_file_limit())
        self._turns = DialQueue(self._most)
        self._kept = 0  # clients whose node cannot be reached

    def __len__(self) -> int:
        return len(self._arrivals)

    def begin(self, client: socket.socket, arrival: PendingConnection) -> None:
        """See this client to its node."""
        arrival.came = asyncio.get_running_loop().time()
        self._arrivals[client] = arrival
        arrival.task = self._tasks.create_task(self._see_in(client, arrival))

    def drop(self, led: ClientRoute) -> None:
        """Close those that are on their way to this upstream."""
        for client in [client for client, arrival in self._arrivals.items() if arrival.led is led]:
            self._drop(client)

    def drop_all(self) -> None:
        """Close all of them."""
        for client, arrival in list(self._arrivals.items()):
            if arrival.task is not None:
                arrival.task.cancel()
            self._drop(client)

    async def _see_in(self, client: socket.socket, arrival: PendingConnection) -> None:
        if self.tls is not None:
            secured = await self._secure(client, arrival, self.tls)
            if secured is None:
                return
            client = secured
            try:
                await self._ask_for(secured, arrival)
            except BaseException:
                self._drop(client)
                raise
        first = await self._hear(client, arrival) if self._parts else b""
        if first is None:
            return
        led = arrival.led = route_for(client_id_of(first), self._parts.values(), self._others)
        try:
            upstream = await self._lead(client, arrival, led)
        except BaseException:
            self._drop(client)
            raise
        if upstream is None:
            self._drop(client)
            return
        if self._arrivals.pop(client, None) is None:  # closed while dialling: kproxy stops
            upstream.sock.close()
            arrival.end_turn()
            return
        if upstream.check is None:
            arrival.end_turn()
        self._arrived(client, arrival, led, upstream, first)

    async def _lead(
        self, client: socket.socket, arrival: PendingConnection, led: ClientRoute
    ) -> VerifiedConnection | None:
        """Dial when it is this client's turn, and again when its node can be reached; None if it cannot."""
        node, said = (led.name, arrival.key), False
        while client in self._arrivals:
            if self._turns.is_free(node):
                outcome = await self._turns.take(node)
            else:
                with self._may_give_way(client, arrival):
                    outcome = await self._turns.take(node)
            if isinstance(outcome, DialSlot):
                arrival.turn = outcome
                try:
                    upstream = await _dial(led, arrival.key)
                except UpstreamError as error:
                    outcome = error
                    if isinstance(error, Unreachable):
                        self._turns.failed(node, error)
                    arrival.end_turn()
                except BaseException:
                    arrival.end_turn()
                    raise
                else:
                    self._turns.worked(node)
                    return upstream
            if not said:
                name = node_text(arrival.key)
                what = about(led.config.title, name, outcome.reason)
                log.warning("%s cannot be reached: %s", name, outcome, extra=what)
                said = True
            if not await self._keep(client, arrival, outcome):
                break
        return None

    async def _keep(self, client: socket.socket, arrival: PendingConnection, error: UpstreamError) -> bool:
        """Keep a client whose node is out of reach; whether the node may be reached now."""
        if not isinstance(error, Unreachable) or self._kept >= self._most:
            return False
        now, outage = asyncio.get_running_loop().time(), error.outage
        until = arrival.came + min(now - outage.since, _LONGEST_WAIT)
        self._kept += 1
        try:
            with self._may_give_way(client, arrival):
                async with asyncio.timeout_at(until):
                    await outage.over.wait()
        except TimeoutError:
            return False
        finally:
            self._kept -= 1
        return True

    @contextlib.contextmanager
    def _may_give_way(self, client: socket.socket, arrival: PendingConnection) -> Iterator[None]:
        """Meanwhile the client waits, and is closed if others need its place."""

        def give_way() -> None:
            self._metrics.refused(self._name, "client", "too-many-connections")
            self._drop(client)
            if arrival.task is not None:
                arrival.task.cancel()

        arrival.guest.waits(give_way)
        try:
            yield
        finally:
            arrival.guest.waits(None)

    def failed(self, led: ClientRoute, key: NodeKey | None, error: UpstreamError) -> None:
        """A node has not answered a client that had its turn."""
        self._turns.failed((led.name, key), error)

    async def _secure(self, client: socket.socket, arrival: PendingConnection, tls: ClientTls) -> TlsSocket | None:
        """Do the TLS handshake; None if it failed."""
        try:
            secured = await tls.accept(client)
        except WireError as error:
            self._refuse(client, arrival, error)
            return None
        except BaseException:
            self._drop(client)
            raise
        self._arrivals[secured] = self._arrivals.pop(client)
        return secured

    async def _ask_for(self, client: TlsSocket, arrival: PendingConnection) -> None:
        """The client wants the node of its port, or, with --sni, of the name that it asked for. If there is no such
        node, a bootstrap server tells the client which there are."""
        sni = self._others.config.sni
        label = sni.label(client.asked_for) if sni is not None else None
        if label is not None:
            arrival.asked = NodeKey.of(label)
            if await self._knows(arrival.asked):
                arrival.key = arrival.asked
                arrival.guest.wants(arrival.key)

    async def _hear(self, client: socket.socket, arrival: PendingConnection) -> bytes | None:
        """The client's first words; None if it has gone without them."""
        try:
            heard = await read_first_request(client)
            return heard if client in self._arrivals else None  # closed meanwhile: kproxy stops
        except WireError as error:
            self._refuse(client, arrival, error)
            return None
        except OSError:
            pass  # the client is gone already
        except BaseException:
            self._drop(client)
            raise
        self._drop(client)
        return None

    def _refuse(self, client: socket.socket, arrival: PendingConnection, error: WireError) -> None:
        self._metrics.refused(self._name, "client", error.reason)
        peer = arrival.guest.peer
        log.warning("refused a connection from %s: %s", peer, error, extra=about(peer.host, error.reason))
        self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        arrival = self._arrivals.pop(client, None)
        if arrival is not None:
            client.close()
            arrival.guest.over()


async def _dial(led: ClientRoute, key: NodeKey | None) -> VerifiedConnection:
    """Dial, and once more if the way has changed meanwhile. Raises UpstreamError."""
    while True:
        config = led.config
        try:
            upstream = await led.dial(key)
        except UpstreamError:
            if config is led.config:
                raise
            continue
        if config is led.config:
            return upstream
        upstream.sock.close()


def node_text(key: NodeKey | None) -> str:
    """A node in the words of a message."""
    return "the bootstrap server" if key is None else str(key)
