"""Nodes that cannot be reached: since when, and when that is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from kproxy.base.errors import UpstreamError
from kproxy.proxy.cluster.topology import NodeKey


@dataclass(eq=False)
class Outage:
    """`since`: the loop's time at which it was noticed. `over`: set when the node was reached, or may be now."""

    since: float
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Unreachable(UpstreamError):
    """A node, or for None the bootstrap servers, could not be reached: `outage` tells when that is over."""

    def __init__(self, error: UpstreamError, outage: Outage) -> None:
        self.outage = outage
        super().__init__(error.reason, str(error))


class Outages:
    """Those of one upstream. None stands for its bootstrap servers."""

    def __init__(self) -> None:
        self._outages: dict[NodeKey | None, Outage] = {}

    def __len__(self) -> int:
        return len(self._outages)

    def begin(self, key: NodeKey | None) -> Outage:
        """The node could not be reached; return its outage, which may have begun before."""
        outage = self._outages.get(key)
        if outage is None:
            outage = self._outages[key] = Outage(asyncio.get_running_loop().time())
        return outage

    def end(self, key: NodeKey | None) -> None:
        """The node was reached, or nobody asks for it any more."""
        outage = self._outages.pop(key, None)
        if outage is not None:
            outage.over.set()

    def end_where(self, over: Callable[[NodeKey | None], bool]) -> None:
        """End the outages of those nodes for which `over` holds."""
        for key in [key for key in self._outages if over(key)]:
            self.end(key)
