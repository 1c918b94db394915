"""Another kproxy that may run on this machine: the clusters that it serves, and its local addresses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from kproxy.base.address import Address
from kproxy.base.addressclass import is_this_machine
from kproxy.base.errors import AdminError
from kproxy.proxy.admin.client import AdminClient
from kproxy.proxy.status import asjson
from kproxy.proxy.status.model import ClusterStatus


def served_clusters(client: AdminClient) -> Sequence[ClusterStatus]:
    """Return the clusters of the kproxy with this admin endpoint. Raises AdminError if no kproxy answers there."""
    status = client.get("/status")
    try:
        return asjson.read(json.dumps(status).encode()).clusters
    except ValueError as error:
        raise AdminError(f"the server at {client.address} (--admin): {error}") from None


def served_clusters_if_running(client: AdminClient | None) -> Sequence[ClusterStatus]:
    """Return the clusters of that kproxy; none if no kproxy answers there."""
    try:
        return [] if client is None else served_clusters(client)
    except AdminError:
        return []


def cluster_at(address: Address, served: Iterable[ClusterStatus]) -> ClusterStatus | None:
    """Return the cluster whose clients use this address of this machine, by what its kproxy says."""
    if not is_this_machine(address.host):
        return None
    return next((cluster for cluster in served if any(_same(address, local) for local in _locals(cluster))), None)


def _locals(cluster: ClusterStatus) -> Iterable[str]:
    """Yield the local addresses of a cluster."""
    if cluster.bootstrap is not None:
        yield cluster.bootstrap
    yield from (node.local for node in cluster.present if node.bound)


def _same(address: Address, local: str) -> bool:
    try:
        other = Address.parse(local)
    except ValueError:
        return False
    return other.port == address.port and is_this_machine(other.host)
