"""The same cluster, asked directly and through kproxy."""

from __future__ import annotations

from kproxy.base.address import Address
from kproxy.base.errors import AdminError
from kproxy.config import ClusterConfig
from kproxy.inspect.listing.comparison import SnapshotPair, compare
from kproxy.inspect.listing.gatherer import NeedsLogin, gather
from kproxy.inspect.listing.snapshot import ListingOptions, Snapshot, serving_kproxy
from kproxy.proxy.admin import neighbour
from kproxy.proxy.admin.client import AdminClient

# Between two snapshots leaders may move and topics appear: a difference counts if each comparison has it.
_LOOKS = 3
# What is for the way to the brokers, and not to kproxy.
_DIRECTLY = {"map": (), "via": (), "tls": False, "tls_ca": None, "tls_cert": None, "tls_key": None, "cluster_id": None}


async def gather_pair(
    config: ClusterConfig, admin: AdminClient | None, through: Address | None, options: ListingOptions
) -> SnapshotPair:
    """Ask both: the brokers, and the kproxy at `through`, or the one whose admin endpoint `admin` is.

    Raises KproxyError.
    """
    for remaining in reversed(range(_LOOKS)):
        direct = await gather(config, options)
        if through is None:
            through = _bootstrap(admin, direct.cluster_id)
        pair = compare(direct, await _through(config, through, options))
        if not remaining or not pair.differs:
            break
    return pair


async def _through(config: ClusterConfig, server: Address, options: ListingOptions) -> Snapshot:
    """Ask as a client of kproxy does. If kproxy does not log in, the client does."""
    local = config.replace(**_DIRECTLY, bootstrap_servers=(server,))
    try:
        return await gather(local.replace(sasl=None), options)
    except NeedsLogin:
        if config.sasl is None:
            raise
    return await gather(local, options)


def _bootstrap(admin: AdminClient | None, cluster_id: str | None) -> Address:
    """Return the bootstrap server for clients of the running kproxy.

    Raises AdminError.
    """
    instead = "start one with kproxy run, or say where it listens with --through HOST:PORT"
    if admin is None:
        raise AdminError(f"--admin is off, so that no kproxy can be found: {instead}")
    serving = serving_kproxy(admin.address, neighbour.served_clusters(admin), cluster_id)
    if serving is None:
        raise AdminError(f"the kproxy at {admin.address} (--admin) does not serve the cluster {cluster_id}: {instead}")
    if serving.bootstrap is None:
        raise AdminError(
            f"the ports of the kproxy at {admin.address} are published under other numbers: give --through"
        )
    return Address.parse(serving.bootstrap)
