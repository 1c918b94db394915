"""What a switch does to the clusters and the sessions of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kproxy.app.switch import Standing, Writes
from kproxy.cluster.gateway import Gateway
from kproxy.switching.positions import Waiting


class Holds(Protocol):
    """Who carries the sessions, and can hold writes: `Here`."""

    def begin_write_hold(self, cluster: str, on_settled: Callable[[], None]) -> None: ...
    def release_write_hold(self, cluster: str) -> None: ...
    def guard_everyone(self, cluster: str) -> None: ...
    def writes(self, cluster: str) -> Writes: ...
    def waiting(self, cluster: str) -> Sequence[Waiting]: ...


class Leads(Protocol):
    """The clusters: `Clusters`."""

    def gateway(self, name: str) -> Gateway | None: ...
    def flip(self, name: str, to: str) -> None: ...


class OnClusters:
    """`Effects` of this process. With workers there is none: a cluster with upstreams has none."""

    def __init__(self, clusters: Callable[[], Leads], holds: Holds) -> None:
        self._clusters = clusters
        self._holds = holds

    def begin_write_hold(self, cluster: str, on_settled: Callable[[], None]) -> None:
        self._holds.begin_write_hold(cluster, on_settled)

    def release_write_hold(self, cluster: str) -> None:
        self._holds.release_write_hold(cluster)

    def flip(self, cluster: str, to: str) -> None:
        self._clusters().flip(cluster, to)

    def guard_everyone(self, cluster: str) -> None:
        self._holds.guard_everyone(cluster)

    def writes(self, cluster: str) -> Writes:
        return self._holds.writes(cluster)

    def waiting(self, cluster: str) -> Sequence[Waiting]:
        return self._holds.waiting(cluster)

    def upstreams(self, cluster: str) -> Mapping[str, Standing]:
        gateway = self._clusters().gateway(cluster)
        if gateway is None:
            return {}
        return {
            name: Standing(one.reach.known.cluster_id, gateway.why_not(name) or "")
            for name, one in gateway.upstreams.items()
        }
