"""One cluster's door: accept clients, hear their first bytes, refuse what is no Kafka client, pass the rest on.

Each connection that is let in has a place, until it is closed: here, or by who carries its session. Whatever a client
does, at whatever moment, its place and its file descriptor come back.
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

# How long a connection may say nothing while places are scarce, in seconds. Kafka clients speak at once.
_SILENCE = 10.0
# The first byte of a TLS connection: a record of type handshake (RFC 8446 §5.1).
_TLS_HANDSHAKE = b"\x16"
# What a browser or curl sees that comes to a Kafka port.
_HTTP_HINT = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is a Kafka port of kproxy: give it to a Kafka client as bootstrap.servers.\n"
)


@dataclass(slots=True, eq=False)
class ConnectionSlot:
    """A connection that was let in, to a node, as those who carry its session tell the door about it. `since`: the
    loop's time at which it came."""

    door: Acceptor
    listener: Listener
    key: NodeKey | None
    peer: Address
    since: float
    inside: bool = True

    def wants(self, key: NodeKey) -> None:
        """The client wants this node, whatever port it came to."""
        if self.inside:
            self.door.count(self.key, -1)
            self.door.count(key, 1)
            self.key = key

    def waits(self, give_way: Callable[[], None] | None) -> None:
        """The client waits for its node, and `give_way` closes its connection; None: it waits no longer."""
        self.door.waits(self, give_way if self.inside else None)

    def over(self) -> None:
        """Its connection is closed."""
        if self.inside:
            self.door.waits(self, None)
            self.door.sessions -= 1
            self.door.leave(self)


HandleClient = Callable[[socket.socket, NodeKey | None, str, ConnectionSlot], None]
"""Takes over a client that has spoken; see `Sessions.carry`."""


class Acceptor:
    """`sessions`: the connections that have spoken. `local_host` says under which host a client finds kproxy."""

    def __init__(
        self,
        config: ClusterConfig,
        metrics: Metrics,
        places: ConnectionLimit,
        local_host: Callable[[socket.socket], str],
        carry: HandleClient,
        *,
        expects_tls: bool,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._places = places
        self._local_host = local_host
        self._carry = carry
        self._expects_tls = expects_tls
        self._loop = asyncio.get_running_loop()
        self._silent: dict[socket.socket, ConnectionSlot] = {}  # nothing heard yet, the oldest first
        self._waiting: dict[
            ConnectionSlot, Callable[[], None]
        ] = {}  # for their nodes, the oldest first, and how to close each
        self._looking: asyncio.TimerHandle | None = None
        self._wanting: Counter[NodeKey | None] = Counter()
        self.sessions = 0

    def reconfigure(self, config: ClusterConfig, *, expects_tls: bool) -> None:
        """Let the next ones in so."""
        self._config, self._expects_tls = config, expects_tls

    def accepted(self, client: socket.socket, peer: Address, listener: Listener) -> None:
        """Let a connection in, or refuse it."""
        if not self._make_place():
            self._metrics.refused(self._config.name, "client", "too-many-connections")
            log.error("%s: one was refused", self.no_place(), extra=about(self._config.name))
            client.close()
            return
        self._places.taken += 1
        listener.sessions += 1
        self.count(listener.key, 1)
        guest = ConnectionSlot(self, listener, listener.key, peer, self._loop.time())
        # Brokers are dialled when the client has said something: a TCP probe costs them nothing.
        first = _peek(client)
        if first is not None:
            self._spoke(client, guest, first)
            return
        self._silent[client] = guest
        self._places.silent[client] = partial(self._drop, client)
        self._loop.add_reader(client.fileno(), self._readable, client)
        if self._scarce and self._looking is None:
            self._look_for_silence()

    # Places

    def no_place(self) -> str:
        """Why the next connection would be refused; "" if it would not."""
        if self.sessions - len(self._waiting) >= self._config.max_connections:
            most = self._config.max_connections
            return f"cluster {self._config.name} has {most} connections, the limit of --max-connections"
        if self._places.full and not self._places.silent:
            return (
                f"kproxy has {self._places.taken} connections, the limit with {self._places.files} open files:"
                " raise that limit (ulimit -n)"
            )
        return ""

    def count(self, key: NodeKey | None, more: int) -> None:
        """So many more connections want this node (None: a bootstrap server)."""
        self._wanting[key] += more
        if not self._wanting[key]:
            del self._wanting[key]

    def sessions_of(self, key: NodeKey) -> int:
        """Connections that want this node."""
        return self._wanting[key]

    def waits(self, guest: ConnectionSlot, give_way: Callable[[], None] | None) -> None:
        """Let this guest give way to others, like those that say nothing; None: no more."""
        self._places.silent.pop(guest, None)
        self._waiting.pop(guest, None)
        if give_way is not None:
            self._places.silent[guest] = self._waiting[guest] = give_way

    def _make_place(self) -> bool:
        """Whether there is a place, perhaps after the oldest connection that has said nothing has given way."""
        if self.no_place():
            return False
        full = self.sessions + len(self._silent) >= self._config.max_connections
        if full and self._silent:
            self._drop(next(iter(self._silent)))
        elif full:
            next(iter(self._waiting.values()))()
        if self._places.full:
            full = self._places.make_room()
        if full:
            log.warning(
                "cluster %s: the limit of connections is reached; kproxy closes silent and waiting connections to make"
                " room",
                self._config.name,
            )
        return True

    @property
    def _scarce(self) -> bool:
        taken, most = self.sessions + len(self._silent), self._config.max_connections
        return taken * 4 > most * 3 or self._places.scarce

    def _look_for_silence(self) -> None:
        """While places are scarce, close the connections that have said nothing for too long."""
        self._looking = None
        for client, guest in list(self._silent.items()):
            if not self._scarce:
                return
            left = guest.since + _SILENCE - self._loop.time()
            if left > 0:
                self._looking = self._loop.call_later(left, self._look_for_silence)
                return
            self._drop(client)

    # First bytes

    def _readable(self, client: socket.socket) -> None:
        first = _peek(client)
        if first is not None:
            self._spoke(client, self._no_longer_silent(client), first)

    def _spoke(self, client: socket.socket, guest: ConnectionSlot, first: bytes) -> None:
        error = self._objection(first)
        if error is not None:
            self._metrics.refused(self._config.name, "client", error.reason)
            text = "refused a connection from %s: %s"
            log.warning(text, guest.peer, error, extra=about(guest.peer.host, error.reason))
            if recognise(first) is Greeting.HTTP:
                with contextlib.suppress(OSError):
                    client.recv(65536)  # what stays unread would turn the close into a reset
                    client.send(_HTTP_HINT)
        if error is not None or not first:
            client.close()
            self.leave(guest)
        else:
            self._hand_over(client, guest)

    def _objection(self, first: bytes) -> WireError | None:
        """What is wrong with a client that begins so."""
        greeting = recognise(first)
        if not self._expects_tls or not first:
            return None if greeting is None else wrong_client(greeting)
        if first[:1] == _TLS_HANDSHAKE:
            return None
        return plaintext_client() if greeting is None else wrong_client(greeting)

    def _hand_over(self, client: socket.socket, guest: ConnectionSlot) -> None:
        self.sessions += 1
        try:
            self._carry(client, guest.key, self._local_host(client), guest)
        except OSError:  # the client is gone already
            client.close()
            guest.over()
        except Exception:
            client.close()
            guest.over()
            raise

    def leave(self, guest: ConnectionSlot) -> None:
        """Its place is free."""
        guest.inside = False
        guest.listener.sessions -= 1
        self.count(guest.key, -1)
        self._places.taken -= 1

    def _no_longer_silent(self, client: socket.socket) -> ConnectionSlot:
        self._loop.remove_reader(client.fileno())
        del self._places.silent[client]
        return self._silent.pop(client)

    def _drop(self, client: socket.socket) -> None:
        """Close a connection that has said nothing yet."""
        guest = self._no_longer_silent(client)
        self._metrics.refused(self._config.name, "client", "silent")
        client.close()
        self.leave(guest)

    def close(self) -> None:
        """Close the connections that have said nothing yet."""
        if self._looking is not None:
            self._looking.cancel()
        for client in list(self._silent):
            guest = self._no_longer_silent(client)
            client.close()
            self.leave(guest)


def _peek(client: socket.socket) -> bytes | None:
    """A client's first bytes, which stay unread; b"" if it has gone, None if it has said nothing yet."""
    try:
        return client.recv(ENOUGH, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""
