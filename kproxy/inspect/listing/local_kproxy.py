"""The kproxy on this machine: whether it serves a cluster, and the local addresses of its brokers.

`kproxy.proxy.admin.neighbour` asks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kproxy.base.address import Address
from kproxy.base.printable import escaped
from kproxy.proxy.status.model import ClusterStatus

SECONDS = 2.0
"""For its answer, which is an addition to what the brokers say."""


@dataclass(frozen=True, slots=True)
class ServingKproxy:
    """A kproxy that serves the cluster.

    `bootstrap`: the bootstrap server of its clients, None if only the user knows it. `local`: the brokers' local
    addresses, by id.
    """

    admin: str
    bootstrap: str | None
    local: Mapping[int, str]


def serving(admin: Address | None, served: Sequence[ClusterStatus], cluster_id: str | None) -> ServingKproxy | None:
    """Return the kproxy that serves the cluster with this id."""
    for cluster in served:
        if cluster_id is not None and cluster.cluster_id == cluster_id:
            local = {node.id: escaped(node.local) for node in cluster.present if node.kind == "broker" and node.bound}
            return ServingKproxy(str(admin), None if cluster.bootstrap is None else escaped(cluster.bootstrap), local)
    return None
