"""The warning at start that a bootstrap server is a port of another kproxy."""

from __future__ import annotations

import asyncio
import logging

from kproxy.config import Config
from kproxy.config.options import DEFAULT_ADMIN

log = logging.getLogger(__name__)

# For the answer of the other kproxy, in seconds. Usually nothing listens there, which is known at once.
_SECONDS = 2.0


async def warn_about_neighbours(config: Config) -> None:
    """Ask another kproxy, which may have the usual port if a bootstrap server is there, and log its answer.

    A kproxy without an admin endpoint at the usual address is not found.
    """
    clusters = [cluster for cluster in config.served if cluster.default_port_user]
    if not clusters:
        return
    from kproxy.proxy.admin import neighbour
    from kproxy.proxy.admin.client import AdminClient

    client = AdminClient(DEFAULT_ADMIN, seconds=_SECONDS)  # this kproxy's token is not for others
    served = await asyncio.to_thread(neighbour.served_clusters_if_running, client)
    for cluster in clusters:
        for server in cluster.bootstrap_servers:
            other = neighbour.cluster_at(server, served)
            if other is not None:
                log.warning(
                    "cluster %s: %s is a port of the kproxy with the admin endpoint %s, which serves %s: clients can"
                    " use it without this kproxy",
                    cluster.title,
                    server,
                    client.address,
                    ",".join(other.bootstrap_servers),
                )
