"""The sessions of all clusters of this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from kproxy.config import ClusterConfig, Config
from kproxy.proxy.cluster.clientconnection import ClientConnection
from kproxy.proxy.cluster.clientroute import ClusterUpdate, DialNode, LocaliseForHost
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.observers import NewSessionReader
from kproxy.proxy.cluster.pendingconnections import NodeExists
from kproxy.proxy.cluster.sessions import Sessions
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.pump import Pump
from kproxy.proxy.relay.selector import RelaySelector
from kproxy.proxy.status.model import SessionStatus
from kproxy.proxy.switching.parts import split_unit
from kproxy.proxy.watch.feed import Emit
from kproxy.proxy.watch.frames import EmitFrame

if TYPE_CHECKING:
    from kproxy.proxy.cluster.switchableunit import SwitchableUnit

MOST_SESSIONS = 10_000
"""The most sessions that are listed one by one; of a process that has more, some are left out."""


async def _no_node_exists(key: NodeKey) -> bool:
    return False


class AllSessions:
    """The sessions of every cluster, which share one pump. `clusters` has those of the clusters that are served."""

    def __init__(self, selector: RelaySelector, metrics: Metrics, tasks: asyncio.TaskGroup) -> None:
        self._pump = Pump(selector)
        self._metrics = metrics
        self._tasks = tasks
        self.clusters: dict[str, Sessions] = {}
        self._former: list[Sessions] = []  # of clusters that are no longer served
        self._emit: Emit | None = None  # while there is an observer
        self._emit_frame: EmitFrame | None = None  # while there is a capture
        self._new_reader: NewSessionReader | None = None  # while requests are read
        metrics.in_flight = self.in_flight

    def add_clusters(self, gateways: Sequence[Gateway]) -> None:
        """Relay the sessions of these clusters from now on."""
        for gateway in gateways:
            switches = len(gateway.upstreams) > 1
            self.add_cluster(gateway.config, gateway.dial, gateway.localise, gateway.knows_node, switches=switches)

    def add_cluster(
        self,
        config: ClusterConfig,
        dial: DialNode,
        localise: LocaliseForHost,
        node_exists: NodeExists = _no_node_exists,
        *,
        switches: bool = False,
    ) -> Sessions:
        """Add the sessions of one more cluster. `switches`: it can be switched to another upstream."""
        sessions = Sessions(
            config, dial, localise, node_exists, self._pump, self._metrics, self._tasks, switches=switches
        )
        self.clusters[config.name] = sessions
        sessions.watch(self._emit)
        sessions.capture(self._emit_frame)
        sessions.read_requests(self._new_reader)
        return sessions

    def handle_client(self, name: str, connection: ClientConnection, first: bytes) -> None:
        """Open a session for a client of this cluster; see `Sessions.handle_client`."""
        self.clusters[name].handle_client(connection, first)

    def remove(self, config: Config, names: Sequence[str]) -> int:
        """Stop serving these clusters; return the number of sessions that are drained for that."""
        ending = [self.clusters.pop(name) for name in names]
        draining = sum(sessions.end(config.drain_timeout) for sessions in ending)
        self._former = [sessions for sessions in (*self._former, *ending) if not sessions.drained.is_set()]
        return draining

    def reconfigure(self, config: Config, updates: Sequence[ClusterUpdate]) -> int:
        """Apply new configurations; return the number of open sessions that they affect. These are drained."""
        return sum(self.clusters[update.config.name].reconfigure(update, config.drain_timeout) for update in updates)

    def watch(self, emit: Emit | None) -> None:
        """Send each exchange of all sessions, present and future, to this observer; None: stop."""
        self._emit = emit
        for sessions in self.clusters.values():
            sessions.watch(emit)

    def capture(self, emit: EmitFrame | None) -> None:
        """Send copies of all frames of all sessions, present and future, to this observer; None: stop."""
        self._emit_frame = emit
        for sessions in self.clusters.values():
            sessions.capture(emit)

    def read_requests(self, new_reader: NewSessionReader | None) -> None:
        """Let readers read the requests of all sessions, present and future; None: stop."""
        self._new_reader = new_reader
        for sessions in self.clusters.values():
            sessions.read_requests(new_reader)

    def shown(self) -> Sequence[SessionStatus]:
        """Return the status of the sessions of all clusters, of at most MOST_SESSIONS."""
        return tuple(islice((status for sessions in self._all() for status in sessions.shown()), MOST_SESSIONS))

    def unit(self, name: str) -> SwitchableUnit | None:
        """Return what a switch of this unit needs; None if the unit is not served, or cannot be switched."""
        cluster, part = split_unit(name)
        return self.clusters[cluster].unit(part) if cluster in self.clusters else None

    async def drain(self, seconds: float) -> int:
        """Close each session once nothing is in flight in it, and the rest after this many seconds.

        Return how many were left then.
        """
        every = self._all()
        for sessions in every:
            sessions.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for sessions in every:
                    await sessions.drained.wait()
        return sum(sessions.close() for sessions in every)

    def _all(self) -> list[Sessions]:
        return [*self.clusters.values(), *self._former]

    def in_flight(self) -> Iterator[tuple[str, str, int]]:
        """Yield the number of requests without a response, as (cluster, node, number)."""
        for sessions in self._all():
            yield from sessions.in_flight()

    def wake(self) -> None:
        """Return to the event loop: a cluster's nodes have changed, and a task may wait for that."""
        self._pump.selector.wake = True
