"""The acceptor of one cluster: it accepts clients, and reads their first bytes.

It refuses what is no Kafka client, and hands the others over. Each accepted connection has a slot until it is closed,
here or by the code that relays its session. Whatever a client does, at whatever moment, its slot and its file
descriptor come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.base.repeats import about
from kproxy.config import ClusterConfig
from kproxy.protocol.wire.greeting import ENOUGH, Greeting, recognise
from kproxy.protocol.wire.mismatch import plaintext_client, wrong_client
from kproxy.proxy.cluster.connectionlimit import ConnectionLimit
from kproxy.proxy.cluster.listeners import Listener
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.metrics import Metrics

log = logging.getLogger(__name__)

# How long a connection may stay silent while slots are scarce, in seconds. Kafka clients send a request at once.
_SILENCE = 10.0
# The first byte of a TLS connection: a record of type handshake (RFC 8446 §5.1).
_TLS_HANDSHAKE = b"\x16"
# The response to a browser or curl at a Kafka port.
_HTTP_HINT = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is a Kafka port of kproxy: give it to a Kafka client as bootstrap.servers.\n"
)


@dataclass(slots=True, eq=False)
class ConnectionSlot:
    """The slot of one accepted connection, which the code that relays its session keeps up to date."""

    acceptor: Acceptor
    listener: Listener
    key: NodeKey | None
    """The node that the client is for; None: a bootstrap server."""
    peer: Address
    since: float
    """When the connection was accepted, in the loop's time."""
    is_open: bool = True

    def set_node(self, key: NodeKey) -> None:
        """Count the client for this node, whatever port it connected to."""
        if self.is_open:
            self.acceptor.count(self.key, -1)
            self.acceptor.count(key, 1)
            self.key = key

    def set_waiting(self, give_way: Callable[[], None] | None) -> None:
        """Mark the client as waiting for its node; `give_way` closes its connection. None: it no longer waits."""
        self.acceptor.set_waiting(self, give_way if self.is_open else None)

    def release(self) -> None:
        """Free the slot: the connection is closed."""
        if self.is_open:
            self.acceptor.set_waiting(self, None)
            self.acceptor.sessions -= 1
            self.acceptor.free(self)


HandleClient = Callable[[socket.socket, NodeKey | None, str, ConnectionSlot], None]
"""Takes over a client that has sent its first bytes; see `Sessions.handle_client`."""


class Acceptor:
    """The accepted connections of one cluster that have no session yet, and the count of all its connections."""

    def __init__(
        self,
        config: ClusterConfig,
        metrics: Metrics,
        connection_limit: ConnectionLimit,
        local_host: Callable[[socket.socket], str],
        handle_client: HandleClient,
        *,
        expects_tls: bool,
    ) -> None:
        """Accept nothing yet: `on_accept` is the callback of the listeners.

        `local_host` returns the host under which a client finds kproxy. `handle_client` takes over a client that has
        sent its first bytes.
        """
        self._config = config
        self._metrics = metrics
        self._limit = connection_limit
        self._local_host = local_host
        self._handle_client = handle_client
        self._expects_tls = expects_tls
        self._loop = asyncio.get_running_loop()
        self._silent: dict[socket.socket, ConnectionSlot] = {}  # without any byte yet, the oldest first
        self._waiting: dict[
            ConnectionSlot, Callable[[], None]
        ] = {}  # for their nodes, the oldest first, and what closes each
        self._silence_timer: asyncio.TimerHandle | None = None
        self._per_node: Counter[NodeKey | None] = Counter()
        self.sessions = 0

    def reconfigure(self, config: ClusterConfig, *, expects_tls: bool) -> None:
        """Use this configuration for the next connections."""
        self._config, self._expects_tls = config, expects_tls

    def on_accept(self, client: socket.socket, peer: Address, listener: Listener) -> None:
        """Give the connection a slot, or refuse it."""
        if not self._make_room():
            self._metrics.count_refusal(self._config.name, "client", "too-many-connections")
            log.error("%s: one was refused", self.full_reason(), extra=about(self._config.name))
            client.close()
            return
        self._limit.in_use += 1
        listener.sessions += 1
        self.count(listener.key, 1)
        slot = ConnectionSlot(self, listener, listener.key, peer, self._loop.time())
        # kproxy dials a broker when the client has sent something: a TCP probe costs brokers nothing.
        first = _peek(client)
        if first is not None:
            self._on_first_bytes(client, slot, first)
            return
        self._silent[client] = slot
        self._limit.evictable[client] = partial(self._drop, client)
        self._loop.add_reader(client.fileno(), self._readable, client)
        if self._is_scarce and self._silence_timer is None:
            self._close_silent()

    # Slots

    def full_reason(self) -> str:
        """Return why the next connection would be refused, "" if it would be accepted."""
        if self.sessions - len(self._waiting) >= self._config.max_connections:
            most = self._config.max_connections
            return f"cluster {self._config.name} has {most} connections, the limit of --max-connections"
        if self._limit.is_full and not self._limit.evictable:
            return (
                f"kproxy has {self._limit.in_use} connections, the limit with {self._limit.files} open files:"
                " raise that limit (ulimit -n)"
            )
        return ""

    def count(self, key: NodeKey | None, more: int) -> None:
        """Count this many more connections for a node (None: a bootstrap server)."""
        self._per_node[key] += more
        if not self._per_node[key]:
            del self._per_node[key]

    def sessions_of(self, key: NodeKey) -> int:
        """Return the number of connections for this node."""
        return self._per_node[key]

    def set_waiting(self, slot: ConnectionSlot, give_way: Callable[[], None] | None) -> None:
        """Let this connection be closed to make room for others, like silent ones; None: no longer."""
        self._limit.evictable.pop(slot, None)
        self._waiting.pop(slot, None)
        if give_way is not None:
            self._limit.evictable[slot] = self._waiting[slot] = give_way

    def _make_room(self) -> bool:
        """Check whether there is room, closing the oldest silent or waiting connection if necessary."""
        if self.full_reason():
            return False
        full = self.sessions + len(self._silent) >= self._config.max_connections
        if full and self._silent:
            self._drop(next(iter(self._silent)))
        elif full:
            next(iter(self._waiting.values()))()
        if self._limit.is_full:
            full = self._limit.evict_oldest()
        if full:
            log.warning(
                "cluster %s: the limit of connections is reached; kproxy closes silent and waiting connections to make"
                " room",
                self._config.name,
            )
        return True

    @property
    def _is_scarce(self) -> bool:
        taken, most = self.sessions + len(self._silent), self._config.max_connections
        return taken * 4 > most * 3 or self._limit.is_scarce

    def _close_silent(self) -> None:
        """Close the connections that have been silent for too long, while slots are scarce."""
        self._silence_timer = None
        for client, slot in list(self._silent.items()):
            if not self._is_scarce:
                return
            seconds_left = slot.since + _SILENCE - self._loop.time()
            if seconds_left > 0:
                self._silence_timer = self._loop.call_later(seconds_left, self._close_silent)
                return
            self._drop(client)

    # First bytes

    def _readable(self, client: socket.socket) -> None:
        first = _peek(client)
        if first is not None:
            self._on_first_bytes(client, self._forget_silent(client), first)

    def _on_first_bytes(self, client: socket.socket, slot: ConnectionSlot, first: bytes) -> None:
        error = self._refusal(first)
        if error is not None:
            self._metrics.count_refusal(self._config.name, "client", error.reason)
            text = "refused a connection from %s: %s"
            log.warning(text, slot.peer, error, extra=about(slot.peer.host, error.reason))
            if recognise(first) is Greeting.HTTP:
                with contextlib.suppress(OSError):
                    client.recv(65536)  # unread bytes would turn the close into a reset
                    client.send(_HTTP_HINT)
        if error is not None or not first:
            client.close()
            self.free(slot)
        else:
            self._hand_over(client, slot)

    def _refusal(self, first: bytes) -> WireError | None:
        """Return the error for a client whose first bytes are these; None if they are fine."""
        greeting = recognise(first)
        if not self._expects_tls or not first:
            return None if greeting is None else wrong_client(greeting)
        if first[:1] == _TLS_HANDSHAKE:
            return None
        return plaintext_client() if greeting is None else wrong_client(greeting)

    def _hand_over(self, client: socket.socket, slot: ConnectionSlot) -> None:
        self.sessions += 1
        try:
            self._handle_client(client, slot.key, self._local_host(client), slot)
        except OSError:  # the client has already disconnected
            client.close()
            slot.release()
        except Exception:
            client.close()
            slot.release()
            raise

    def free(self, slot: ConnectionSlot) -> None:
        """Free a slot."""
        slot.is_open = False
        slot.listener.sessions -= 1
        self.count(slot.key, -1)
        self._limit.in_use -= 1

    def _forget_silent(self, client: socket.socket) -> ConnectionSlot:
        self._loop.remove_reader(client.fileno())
        del self._limit.evictable[client]
        return self._silent.pop(client)

    def _drop(self, client: socket.socket) -> None:
        """Close a connection that has sent nothing yet."""
        slot = self._forget_silent(client)
        self._metrics.count_refusal(self._config.name, "client", "silent")
        client.close()
        self.free(slot)

    def close(self) -> None:
        """Close the connections that have sent nothing yet."""
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        for client in list(self._silent):
            slot = self._forget_silent(client)
            client.close()
            self.free(slot)


def _peek(client: socket.socket) -> bytes | None:
    """Return a client's first bytes, unconsumed; b"" if it has disconnected, None if it has sent nothing yet."""
    try:
        return client.recv(ENOUGH, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""
