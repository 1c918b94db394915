"""Another kproxy that may run on this machine: which clusters it says it serves, and whose ports an address is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from kproxy.base.address import Address
from kproxy.base.errors import AdminError
from kproxy.proxy.admin.client import AdminClient
from kproxy.proxy.admin.hosts import is_loopback
from kproxy.proxy.status import asjson
from kproxy.proxy.status.model import ClusterStatus


def served_clusters(client: AdminClient) -> Sequence[ClusterStatus]:
    """Those that the kproxy with this admin endpoint serves. Raises AdminError if there is none."""
    status = client.get("/status")
    try:
        return asjson.read(json.dumps(status).encode()).clusters
    except ValueError as error:
        raise AdminError(f"the server at {client.address} (--admin): {error}") from None


def served_clusters_if_running(client: AdminClient | None) -> Sequence[ClusterStatus]:
    """The same, without a difference between one that serves nothing and none."""
    try:
        return [] if client is None else served_clusters(client)
    except AdminError:
        return []


def cluster_at(address: Address, served: Iterable[ClusterStatus]) -> ClusterStatus | None:
    """The cluster whose clients use this address of the machine, as the kproxy says that serves it."""
    if not _is_here(address.host):
        return None
    return next((cluster for cluster in served if any(_same(address, local) for local in _locals(cluster))), None)


def _locals(cluster: ClusterStatus) -> Iterable[str]:
    """The addresses that clients are told."""
    if cluster.bootstrap is not None:
        yield cluster.bootstrap
    yield from (node.local for node in cluster.present if node.bound)


def _same(address: Address, local: str) -> bool:
    try:
        other = Address.parse(local)
    except ValueError:
        return False
    return other.port == address.port and _is_here(other.host)


def _is_here(host: str) -> bool:
    return host.lower() == "localhost" or is_loopback(host)
