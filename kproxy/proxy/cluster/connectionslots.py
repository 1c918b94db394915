"""The slots of client connections: how many fit the limit of open files, and which give way to others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.base.messages.sessions import CONNECTION_LIMIT, DESCRIPTOR_LIMIT, ONE_REFUSED, ROOM_FOR_CONNECTIONS
from kproxy.base.repeats import about
from kproxy.config import ClusterConfig
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.metrics import Metrics

if TYPE_CHECKING:
    from kproxy.proxy.cluster.clientconnection import ClientConnection

log = logging.getLogger(__name__)

# The most file descriptors that kproxy takes: some systems allow a billion.
_MOST_FILES = 1_048_576
# macOS has no hard limit, and may refuse more than this (setrlimit(2) there). Its usual soft limit is 256.
_OPEN_MAX = 10_240
# Other open files: connections to the admin endpoint (64 at most), names being resolved, the log.
_RESERVED_FILES = 128
# The client's connection and the upstream's.
_FILES_PER_CONNECTION = 2
# At least this many sockets may listen, however few files there are.
_LEAST_LISTENING = 16
# The bounds of `pending_connection_limit`.
_LEAST_PENDING, _MOST_PENDING = 16, 256
# How long a connection may stay silent while slots are scarce, in seconds. Kafka clients send a request at once.
_SILENCE = 10.0


class ConnectionLimit:
    """The client connections of the process, and how many it may have."""

    def __init__(self, files: int | None = None) -> None:
        """Derive the limit from this many open files; None: no limit. Sockets that listen take their part.

        `in_use` counts client connections, of which `maximum` is the most; None: no limit. `evictable` are the
        connections that are silent or wait for a node, the oldest first.
        """
        self.files = files
        self.in_use = 0
        self.maximum: int | None = None
        self._set_listening(0)
        self._clusters: dict[object, int] = {}  # listening sockets by cluster
        self.evictable: dict[ClientConnection, None] = {}

    def _set_listening(self, sockets: int) -> None:
        self.listening = sockets
        if self.files is not None:
            self.maximum = max(1, (self.files - _RESERVED_FILES - sockets) // _FILES_PER_CONNECTION)

    def set_listening(self, cluster: object, sockets: int) -> None:
        """Set the number of sockets that listen for this cluster."""
        self._set_listening(self.listening + sockets - self._clusters.get(cluster, 0))
        self._clusters[cluster] = sockets

    def remove_cluster(self, cluster: object) -> None:
        """Forget a cluster, which no longer listens."""
        self._set_listening(self.listening - self._clusters.pop(cluster, 0))

    def may_listen(self, cluster: object) -> bool:
        """Check whether one more port may be listened on for this cluster.

        Half of the files are for connections. Of the others, each cluster has an equal share, which no other cluster
        takes.
        """
        if self.files is None:
            return True
        maximum = max(_LEAST_LISTENING, (self.files - _RESERVED_FILES) // 2)
        share = maximum // max(1, len(self._clusters))
        other_counts = [sockets for cluster_key, sockets in self._clusters.items() if cluster_key is not cluster]
        reserved = (
            0 if self._clusters.get(cluster, 0) < share else sum(max(0, share - sockets) for sockets in other_counts)
        )
        return maximum - self.listening > reserved

    @property
    def is_full(self) -> bool:
        """True if no further connection fits."""
        maximum = self.maximum
        return maximum is not None and self.in_use >= maximum

    @property
    def is_scarce(self) -> bool:
        """True if more than three quarters are in use."""
        maximum = self.maximum
        return maximum is not None and self.in_use * 4 > maximum * 3

    def evict_oldest(self) -> bool:
        """Close the oldest connection that is silent or waits; return False if there is none."""
        for connection in self.evictable:
            connection.give_way()
            return True
        return False


class ConnectionSlots:
    """The client connections of one cluster. Those that are silent, or wait for their node, give way to others."""

    def __init__(self, config: ClusterConfig, limit: ConnectionLimit, metrics: Metrics) -> None:
        self.config = config
        self._limit = limit
        self._metrics = metrics
        self._connections: set[ClientConnection] = set()
        self._silent: dict[ClientConnection, None] = {}  # without any byte yet, the oldest first
        self._waiting: dict[ClientConnection, None] = {}  # for their nodes, the oldest first
        self._silence_timer: asyncio.TimerHandle | None = None

    @property
    def sessions(self) -> int:
        """The number of connections that have sent their first bytes."""
        return len(self._connections) - len(self._silent)

    def count_by_node(self) -> Counter[NodeKey | None]:
        """Return the number of connections for each node (None: for a bootstrap server)."""
        return Counter(connection.key for connection in self._connections)

    def dial_addresses(self) -> set[Address]:
        """Return the addresses at which open sessions were dialled."""
        return {connection.node.dial for connection in self._connections if connection.is_open}

    def count_refusal(self, reason: str) -> None:
        """Count a client that was turned away."""
        self._metrics.count_refusal(self.config.name, "client", reason)

    def log_refusal(self, peer: Address, error: WireError) -> None:
        """Log and count that this client is refused."""
        self.count_refusal(error.reason)
        log.warning("refused a connection from %s: %s", peer, error, extra=about(peer.host, error.reason))

    def take(self, connection: ClientConnection) -> None:
        """Give a slot to a new connection."""
        self._connections.add(connection)
        self._limit.in_use += 1
        connection.listener.sessions += 1

    def free(self, connection: ClientConnection) -> None:
        """Take back the slot of a connection that is being closed."""
        if self._silent:
            self.remove_silent(connection)
        if self._waiting:
            self.remove_waiting(connection)
        self._connections.remove(connection)
        self._limit.in_use -= 1
        connection.listener.sessions -= 1

    # Room for others

    def full_reason(self) -> str:
        """Return why the next connection would be refused, "" if it would be accepted."""
        if self.sessions - len(self._waiting) >= self.config.max_connections:
            return CONNECTION_LIMIT(name=self.config.name, most=self.config.max_connections)
        if self._limit.is_full and not self._limit.evictable:
            return DESCRIPTOR_LIMIT(in_use=self._limit.in_use, files=self._limit.files)
        return ""

    def make_room(self) -> bool:
        """Check whether there is room, closing the oldest silent or waiting connection if necessary."""
        if reason := self.full_reason():
            self.count_refusal("too-many-connections")
            log.error(ONE_REFUSED(problem=reason), extra=about(self.config.name))
            return False
        full = len(self._connections) >= self.config.max_connections
        if full:
            next(iter(self._silent or self._waiting)).give_way()
        if self._limit.is_full:
            full = self._limit.evict_oldest()
        if full:
            log.warning(ROOM_FOR_CONNECTIONS(name=self.config.name))
        return True

    def add_waiting(self, connection: ClientConnection) -> None:
        """Let this connection give way to others, as it waits for its node."""
        self._waiting[connection] = self._limit.evictable[connection] = None

    def remove_waiting(self, connection: ClientConnection) -> None:
        """Let this connection no longer give way."""
        if connection in self._waiting:
            del self._waiting[connection], self._limit.evictable[connection]

    def add_silent(self, connection: ClientConnection) -> None:
        """Let this connection give way to others until it has sent something."""
        self._silent[connection] = self._limit.evictable[connection] = None
        if self._is_scarce and self._silence_timer is None:
            self._close_silent()

    def remove_silent(self, connection: ClientConnection) -> None:
        """Note that a silent connection has sent something, or is being closed."""
        if connection in self._silent:
            asyncio.get_running_loop().remove_reader(connection.sock.fileno())
            del self._silent[connection], self._limit.evictable[connection]

    @property
    def _is_scarce(self) -> bool:
        return len(self._connections) * 4 > self.config.max_connections * 3 or self._limit.is_scarce

    def _close_silent(self) -> None:
        """Close the connections that have been silent for too long, while slots are scarce."""
        self._silence_timer, loop = None, asyncio.get_running_loop()
        for connection in list(self._silent):
            if not self._is_scarce:
                return
            seconds_left = connection.since + _SILENCE - loop.time()
            if seconds_left > 0:
                self._silence_timer = loop.call_later(seconds_left, self._close_silent)
                return
            connection.give_way()

    def close_silent(self) -> None:
        """Close the connections that have sent nothing yet: the cluster accepts no more."""
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        for connection in list(self._silent):
            connection.close()


def open_file_limit() -> int | None:
    """Return how many file descriptors this process may have, None for no limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def pending_connection_limit(files: int | None) -> int:
    """Return how many clients of one cluster may wait for their nodes at the same time, given the limit of open files.

    This is a sixteenth of the files. It bounds connections that are opened at once, not open ones.
    """
    return _MOST_PENDING if files is None else max(_LEAST_PENDING, min(files // 16, _MOST_PENDING))


def raise_file_limit() -> int | None:
    """Raise the limit of open files as far as the system allows; return the new limit, None for no limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (_MOST_FILES, _OPEN_MAX):
        with contextlib.suppress(ValueError, OSError):
            wanted = min(hard, most) if hard != resource.RLIM_INFINITY else most
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
            break
    return open_file_limit()
