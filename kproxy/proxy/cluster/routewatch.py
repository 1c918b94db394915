"""The watch over routes that may end without a notice: forwards, tunnels and mapped addresses that no session uses.

While sessions use a route, its end ends them, and the next dial finds out. Otherwise kproxy looks itself: it dials and
verifies the node, as for a client, and closes the connection. The result is a fact like that of any other dial.

 * Only routes to another address than the advertised one: the metadata says when a broker has left its cluster, but
   no broker knows of a forward.
 * kproxy looks at each such node about every `_EVERY` seconds, at one after the other, with pauses of random length. So
   neither brokers nor hops get many connections at once. Nodes that cannot be reached are the explorer's
   (`Explorer.retry_nodes`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.messages.forwards import ROUTE_ENDED, ROUTE_TAKEN
from kproxy.base.messages.start import CANNOT_BE_REACHED
from kproxy.base.repeats import about
from kproxy.net.dial.routes import RouteKind
from kproxy.proxy.cluster.reachability import NodeAddress, NodeReachability, Proof, ReachabilityState
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.status.model import another_address_may_help

if TYPE_CHECKING:
    from kproxy.proxy.cluster.nodedialer import NodeDialer

log = logging.getLogger(__name__)

# Between two looks at the same node, and at least between any two, in seconds.
_EVERY, _PAUSE_AT_LEAST = 30.0, 0.25
# A pause is shorter or longer by at most this share.
_JITTER = 0.2


class RouteWatch:
    """The watch of one upstream. `in_use` returns the dial addresses that open sessions use."""

    def __init__(
        self, title: str, topology: Topology, dialer: NodeDialer, in_use: Callable[[], Collection[Address]]
    ) -> None:
        self._title = title
        self._topology = topology
        self._dialer = dialer
        self._in_use = in_use

    async def watch(self) -> None:
        """Look at the nodes for as long as kproxy runs."""
        while True:
            keys: list[NodeKey | None] = [*self._unused_nodes()] or [None]
            pause = max(_PAUSE_AT_LEAST, _EVERY / len(keys))
            for key in keys:
                await asyncio.sleep(pause * random.uniform(1 - _JITTER, 1 + _JITTER))
                if key is not None and self._may_end_unnoticed(key, self._in_use()):
                    await self._look(key)

    def _unused_nodes(self) -> list[NodeKey]:
        in_use = self._in_use()
        return [key for key in self._topology.nodes if self._may_end_unnoticed(key, in_use)]

    def _may_end_unnoticed(self, key: NodeKey, in_use: Collection[Address]) -> bool:
        """Check whether the route of a node worked last, and no session and no metadata would show that it ends."""
        node, reached = self._topology.nodes.get(key), self._dialer.reachability.of_node(key)
        if node is None or node.absent_since is not None or reached.problem is not None:
            return False
        return _is_forward(reached) and reached.route is not None and reached.route.dial not in in_use

    async def _look(self, key: NodeKey) -> None:
        await self._dialer.try_node(key)
        reached = self._dialer.reachability.of_node(key)
        # Where the address may be at fault, the dialer logs that the route has ended.
        if reached.problem is not None and not another_address_may_help(reached.reason):
            text = CANNOT_BE_REACHED(problem=reached.problem)
            log.warning("cluster %s: %s %s", self._title, key, text, extra=about(self._title, key))


def _is_forward(reached: NodeReachability) -> bool:
    """Check whether the route leads to another address than the one that the node advertises."""
    return reached.route is not None and reached.route.kind is not RouteKind.ADVERTISED


def log_route_ended(title: str, key: NodeKey, before: NodeReachability, reached: NodeReachability) -> None:
    """Log that an address which the broker does not advertise, such as a port-forward, no longer leads to it."""
    if before.problem is not None or before.route is None or not _is_forward(before):
        return
    if before.proof is Proof.UNCHECKED:  # kproxy does not know that it ever did
        return
    if not another_address_may_help(reached.reason):  # such as a refused login, which says nothing of the address
        return
    text = ROUTE_ENDED(dial=before.route.dial, node=key, time=_iso(reached.since or time()), problem=reached.problem)
    log.warning(text, extra=about(title, key))


def log_route_taken(title: str, reachability: ReachabilityState, fact: NodeAddress) -> None:
    """Log which node answers at an address that led to another one, which cannot be reached since."""
    for key, reached in reachability.nodes.items():
        if reached.problem is None or reached.route is None or not _is_forward(reached):
            continue
        if reached.route.dial == fact.address and key != fact.key and reached.proof is not Proof.UNCHECKED:
            since = _iso(reached.since or time())
            text = ROUTE_TAKEN(dial=fact.address, owner=fact.key, node=key, time=since)
            log.warning(text, extra=about(title, key, fact.key))


def _iso(seconds: float) -> str:
    """Return a Unix time as people and programs read it, in UTC (ISO 8601)."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()
