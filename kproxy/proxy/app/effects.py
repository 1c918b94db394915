"""The effects of a switch on the clusters and the sessions of this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from kproxy.proxy.app.clusters import Clusters
from kproxy.proxy.cluster.allsessions import AllSessions
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.switching.doubts import GIVEN_UP_LATE, ClientIdentity, Doubt
from kproxy.proxy.switching.logins import LoginMode
from kproxy.proxy.switching.parts import Part, split_unit
from kproxy.proxy.switching.positions import WaitingConsumer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpstreamState:
    """The state of an upstream as a switch sees it."""

    cluster_id: str | None
    """The id of its Kafka cluster; None while it is unknown."""
    problem: str
    """Why clients cannot be routed there now, or ""."""
    login: LoginMode = LoginMode.UNKNOWN
    """The party that logs in to its brokers."""
    tls: bool = False
    """True if kproxy uses TLS with them."""


@dataclass(frozen=True, slots=True)
class PortSharers:
    """The kproxies that share the ports of a cluster."""

    instance: str = ""
    """This kproxy; "" if it shares none."""
    others: Sequence[str] = ()


class WriteCounts(Protocol):
    """The state of the writes of a unit's clients; see `kproxy.proxy.cluster.writehold`."""

    @property
    def unanswered(self) -> int: ...
    @property
    def held(self) -> int: ...
    @property
    def doubts(self) -> Sequence[Doubt]: ...


class SwitchEffects(Protocol):
    """The effects of a switch on the process, and its questions about a unit. No method waits.

    `make_part` routes these clients by themselves from now on, to this upstream. `extend_part` adds clients of the
    cluster to a part, and `end_part` dissolves it; both return why that is not possible, or "". See `SwitchableUnit`
    and `Gateway` for the others.
    """

    def begin_write_hold(self, unit: str, on_settled: Callable[[], None]) -> None: ...
    def release_write_hold(self, unit: str) -> None: ...
    def flip(self, unit: str, to: str, *, everyone: bool) -> None: ...
    def guard_everyone(self, unit: str) -> None: ...
    def fetched(self, unit: str) -> tuple[ClientIdentity, ...] | None: ...
    def restore_fetched(self, unit: str, fetched: Sequence[ClientIdentity]) -> None: ...
    def writes(self, unit: str) -> WriteCounts: ...
    def waiting(self, unit: str) -> Sequence[WaitingConsumer]: ...
    def upstreams(self, unit: str) -> Mapping[str, UpstreamState]: ...
    def make_part(self, cluster: str, part: Part, active: str) -> None: ...
    def extend_part(self, cluster: str, part: Part) -> str: ...
    def end_part(self, cluster: str, part: str) -> str: ...
    def claim_route(self, cluster: str) -> str: ...
    def port_sharers(self, cluster: str) -> PortSharers: ...


class ProcessEffects:
    """The `SwitchEffects` of this process."""

    def __init__(self, clusters: Callable[[], Clusters], sessions: AllSessions) -> None:
        self._clusters = clusters
        self._sessions = sessions
        self._holding: set[str] = set()  # units

    def begin_write_hold(self, unit: str, on_settled: Callable[[], None]) -> None:
        self._holding.add(unit)
        self._gateway(split_unit(unit)[0]).sharing.retract_route()
        switchable = self._sessions.unit(unit)
        assert switchable is not None, "the unit can be switched"
        switchable.write_hold.begin_hold(on_settled)

    def release_write_hold(self, unit: str) -> None:
        if (switchable := self._sessions.unit(unit)) is not None:
            switchable.release_writes()
        self._holding.discard(unit)
        if problem := self.claim_route(split_unit(unit)[0]):
            log.error("%s", problem)

    def flip(self, unit: str, to: str, *, everyone: bool) -> None:
        cluster, part = split_unit(unit)
        gateway = self._gateway(cluster)
        gateway.flip(to, part)
        # Another kproxy at the same ports may know of clients what this one does not.
        everyone = everyone or gateway.sharing.is_shared
        self._sessions.clusters[cluster].flip(gateway.upstream_of_part(part).config, part, everyone=everyone)
        self._accept_in_one_process(gateway)

    def guard_everyone(self, unit: str) -> None:
        if (switchable := self._sessions.unit(unit)) is not None:
            switchable.guard_everyone()
        self._accept_in_one_process(self._gateway(split_unit(unit)[0]))

    def _accept_in_one_process(self, gateway: Gateway) -> None:
        gateway.sharing.accept_in_one_process(GIVEN_UP_LATE, self._sessions.clusters[gateway.config.name].end_guards)

    def claim_route(self, cluster: str) -> str:
        """Claim the route among the kproxies at the same ports, unless a switch is under way.

        Return why that is not possible, or "".
        """
        gateway = self._clusters().gateway(cluster)
        if gateway is None or any(split_unit(unit)[0] == cluster for unit in self._holding):
            return ""
        return gateway.claim_route()

    def port_sharers(self, cluster: str) -> PortSharers:
        gateway = self._clusters().gateway(cluster)
        if gateway is None:
            return PortSharers()
        return PortSharers(gateway.sharing.instance, gateway.sharing.others)

    def fetched(self, unit: str) -> tuple[ClientIdentity, ...] | None:
        switchable = self._sessions.unit(unit)
        return None if switchable is None else switchable.guards.fetched

    def restore_fetched(self, unit: str, fetched: Sequence[ClientIdentity]) -> None:
        if (switchable := self._sessions.unit(unit)) is not None:
            switchable.guards.restore_fetched(fetched)

    def writes(self, unit: str) -> WriteCounts:
        from kproxy.proxy.cluster.writehold import WriteStatus  # few clusters can be switched

        switchable = self._sessions.unit(unit)
        return WriteStatus() if switchable is None else switchable.write_hold.status

    def waiting(self, unit: str) -> Sequence[WaitingConsumer]:
        switchable = self._sessions.unit(unit)
        return () if switchable is None else switchable.guards.waiting

    def upstreams(self, unit: str) -> Mapping[str, UpstreamState]:
        cluster, part = split_unit(unit)
        gateway = self._clusters().gateway(cluster)
        if gateway is None or (part and part not in gateway.parts):
            return {}
        return {
            name: UpstreamState(
                upstream.dialer.reachability.cluster_id,
                gateway.activation_problem(name, part) or "",
                upstream.dialer.verifier.login,
                upstream.config.tls,
            )
            for name, upstream in gateway.upstreams.items()
        }

    def make_part(self, cluster: str, part: Part, active: str) -> None:
        gateway = self._gateway(cluster)
        gateway.parts[part.name] = active
        dial, localise = partial(gateway.dial, part=part.name), partial(gateway.localise, part=part.name)
        self._sessions.clusters[cluster].parts.make(part, gateway.upstream_of_part(part.name).config, dial, localise)

    def extend_part(self, cluster: str, part: Part) -> str:
        return self._sessions.clusters[cluster].parts.extend(part)

    def end_part(self, cluster: str, part: str) -> str:
        gateway = self._gateway(cluster)
        if not (problem := self._sessions.clusters[cluster].parts.end(part)):
            del gateway.parts[part]
        return problem

    def _gateway(self, cluster: str) -> Gateway:
        gateway = self._clusters().gateway(cluster)
        assert gateway is not None, "the cluster is served"
        return gateway
