"""The sessions of all clusters of this process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from kproxy.config import ClusterConfig, Config
from kproxy.net.tls.handshakes import ClientTls
from kproxy.proxy.cluster.acceptor import ConnectionSlot
from kproxy.proxy.cluster.clientroute import DialNode, LocaliseForHost
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.nodedialer import AffectsSession
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
    from kproxy.proxy.cluster.writehold import WriteStatus
    from kproxy.proxy.switching.doubts import ClientIdentity
    from kproxy.proxy.switching.parts import Part
    from kproxy.proxy.switching.positions import WaitingConsumer

MOST_SESSIONS = 10_000
"""That are told one by one; of a process that has more, not all are."""


@dataclass(frozen=True, slots=True)
class ClusterUpdate:
    """A cluster that is served in another way from now on: its configuration, TLS with its clients, and which of the
    sessions that are there this concerns. `switches`: it may be switched to another upstream. `parts`: the same of its
    parts, by their names."""

    config: ClusterConfig
    tls: ClientTls | None
    concerns: AffectsSession
    switches: bool = False
    parts: Mapping[str, tuple[ClusterConfig, AffectsSession]] = field(default_factory=dict)


async def _no_node_exists(key: NodeKey) -> bool:
    return False


class AllSessions:
    """The sessions of every cluster, on one pump."""

    def __init__(self, selector: RelaySelector, metrics: Metrics, tasks: asyncio.TaskGroup) -> None:
        self._pump = Pump(selector)
        self._metrics = metrics
        self._tasks = tasks
        self._sessions: dict[str, Sessions] = {}
        self._former: list[Sessions] = []  # of clusters that are served no more
        self._emit: Emit | None = None  # while somebody looks on
        self._emit_frame: EmitFrame | None = None  # while somebody wants copies of frames
        self._holds: Counter[str | None] = Counter()  # of a cluster, or None: of all, those to come as well
        metrics.in_flight = self.in_flight

    def serve(self, gateways: Sequence[Gateway]) -> None:
        """Carry the sessions of these clusters from now on."""
        for gateway in gateways:
            switches = len(gateway.upstreams) > 1
            self.make_room(gateway.config, gateway.dial, gateway.localise, gateway.knows, switches=switches)

    def make_room(
        self,
        config: ClusterConfig,
        dial: DialNode,
        localise: LocaliseForHost,
        knows: NodeExists = _no_node_exists,
        *,
        switches: bool = False,
    ) -> Sessions:
        """Make room for the sessions of one more cluster. `switches`: it may be switched to another upstream."""
        sessions = Sessions(config, dial, localise, knows, self._pump, self._metrics, self._tasks, switches=switches)
        self._sessions[config.name] = sessions
        for _ in range(self._holds[None]):
            sessions.begin_hold()
        sessions.watch(self._emit)
        sessions.capture(self._emit_frame)
        return sessions

    def carry(self, name: str, client: socket.socket, key: NodeKey | None, host: str, guest: ConnectionSlot) -> None:
        """Carry a client of this cluster; see `Sessions.carry`."""
        self._sessions[name].carry(client, key, host, guest)

    def remove(self, config: Config, names: Sequence[str]) -> int:
        """Serve these clusters no more; return how many sessions are drained for that."""
        ending = [self._sessions.pop(name) for name in names]
        draining = sum(sessions.end(config.drain_timeout) for sessions in ending)
        self._former = [sessions for sessions in (*self._former, *ending) if not sessions.none_left]
        return draining

    def change(self, config: Config, taken: Sequence[ClusterUpdate]) -> int:
        """Carry the sessions of these clusters so from now on; return how many of those that are there it concerns:
        they are drained."""
        seconds = config.drain_timeout
        return sum(
            self._sessions[one.config.name].reconfigure(
                one.config, one.tls, one.concerns, seconds, switches=one.switches, parts=one.parts
            )
            for one in taken
        )

    def flip(self, config: ClusterConfig, part: str = "", *, everyone: bool = False) -> None:
        """The cluster, or a part of it, leads to another upstream from now on: cut its sessions, and dial so for the
        next ones. `everyone`: nobody knows which clients have fetched before."""
        self._sessions[config.name].flip(config, part, everyone=everyone)

    def end_guards(self, cluster: str) -> None:
        """See `Sessions.end_guards`."""
        if cluster in self._sessions:
            self._sessions[cluster].end_guards()

    def make_part(self, part: Part, config: ClusterConfig, dial: DialNode, localise: LocaliseForHost) -> None:
        """Lead these clients of the cluster by themselves from now on."""
        self._sessions[config.name].make_part(part, config, dial, localise)

    def end_part(self, cluster: str, part: str) -> str:
        """Lead the clients of this part with all others again. Returns why not, or ""."""
        return self._sessions[cluster].end_part(part)

    def watch(self, emit: Emit | None) -> None:
        """Tell this what passes in the sessions of all clusters, also in those to come; None: no more."""
        self._emit = emit
        for sessions in self._sessions.values():
            sessions.watch(emit)

    def capture(self, emit: EmitFrame | None) -> None:
        """Give this copies of the frames in the sessions of all clusters, also in those to come; None: no more."""
        self._emit_frame = emit
        for sessions in self._sessions.values():
            sessions.capture(emit)

    def shown(self) -> Sequence[SessionStatus]:
        """The sessions of all clusters, at most MOST_SESSIONS."""
        return tuple(islice((one for sessions in self._all() for one in sessions.shown()), MOST_SESSIONS))

    async def hold(self, seconds: float, cluster: str | None = None) -> None:
        """Hold the requests of this cluster's clients, or of all, until `release` is called as often as this; return
        once nothing is in flight. Raises TimeoutError if that takes longer than so many seconds; then, or if cancelled,
        this hold is undone."""
        settled = self.begin_hold(cluster)
        try:
            async with asyncio.timeout(seconds):
                await settled
        except BaseException:
            self.release(cluster)
            raise

    def begin_hold(self, cluster: str | None) -> asyncio.Future[list[None]]:
        """The same without waiting; what is returned is done when nothing is in flight."""
        self._holds[cluster] += 1
        return asyncio.gather(*[sessions.begin_hold() for sessions in self._of(cluster)])

    def release(self, cluster: str | None = None) -> None:
        """Undo one hold."""
        assert self._holds[cluster], "nobody holds"
        self._holds[cluster] -= 1
        for sessions in self._of(cluster):
            sessions.release()

    def _of(self, cluster: str | None) -> list[Sessions]:
        if cluster is None:
            return self._all()
        return [self._sessions[cluster]] if cluster in self._sessions else []

    def begin_write_hold(self, unit: str, on_settled: Callable[[], None]) -> None:
        """Hold the writes of this unit's clients, and nothing else, until `release_write_hold`. `on_settled` is
        called once, when no write is under way and no client will repeat one. One may hold at a time."""
        switchable = self._switchable(unit)
        assert switchable is not None, "the cluster can be switched"
        switchable.begin_hold(on_settled)

    def release_write_hold(self, unit: str) -> None:
        """Let the writes of this unit's clients pass again, if it is still served."""
        if (switchable := self._switchable(unit)) is not None:
            switchable.release()

    def writes(self, unit: str) -> WriteStatus:
        """How it stands with the writes of this unit's clients."""
        from kproxy.proxy.cluster.writehold import WriteStatus  # few clusters can be switched

        switchable = self._switchable(unit)
        return WriteStatus() if switchable is None else switchable.writes

    def guard_everyone(self, unit: str) -> None:
        """This unit has been switched lately, and kproxy was started since: guard its sessions all the same."""
        if (switchable := self._switchable(unit)) is not None:
            switchable.guard_everyone()

    def fetched(self, unit: str) -> tuple[ClientIdentity, ...] | None:
        """Which clients of this unit have fetched, when it has no sessions any more; None if nobody knows."""
        switchable = self._switchable(unit)
        return None if switchable is None else switchable.fetched

    def know(self, unit: str, fetched: Sequence[ClientIdentity]) -> None:
        """These clients of it have fetched through the process before this one."""
        if (switchable := self._switchable(unit)) is not None:
            switchable.know(fetched)

    def waiting(self, unit: str) -> tuple[WaitingConsumer, ...]:
        """This unit's clients that get nothing, since they have not asked for their position since the switch."""
        switchable = self._switchable(unit)
        return () if switchable is None else switchable.waiting

    def _switchable(self, unit: str) -> SwitchableUnit | None:
        cluster, part = split_unit(unit)
        return self._sessions[cluster].switchable(part) if cluster in self._sessions else None

    async def drain(self, seconds: float) -> int:
        """Close each session as soon as nothing is in flight in it, and after so many seconds all; return how many were
        left then."""
        drained = self.begin_drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await drained
        return sum(sessions.close() for sessions in self._all())

    def begin_drain(self) -> asyncio.Future[list[None]]:
        """The same without an end; what is returned is done when none of them is left."""
        return asyncio.gather(*[sessions.drain() for sessions in self._all()])

    def _all(self) -> list[Sessions]:
        return [*self._sessions.values(), *self._former]

    def in_flight(self) -> Iterator[tuple[str, str, int]]:
        """Requests without a response, as (cluster, node, how many)."""
        for sessions in self._all():
            yield from sessions.in_flight()

    def wake(self) -> None:
        """There is something new about a cluster's nodes: the data plane learned of it, and a task may wait for it."""
        self._pump.selector.wake = True
