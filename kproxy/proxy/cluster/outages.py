"""The nodes that cannot be reached, and since when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from kproxy.base.errors import UpstreamError
from kproxy.proxy.cluster.topology import NodeKey


@dataclass(eq=False)
class Outage:
    """The time for which a node cannot be reached."""

    since: float
    """The loop's time at which kproxy noticed it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the node was reached, or may be reachable now."""


class Unreachable(UpstreamError):
    """A node, or for None the bootstrap servers, could not be reached. `outage` notifies when that may have changed."""

    def __init__(self, error: UpstreamError, outage: Outage) -> None:
        self.outage = outage
        super().__init__(error.reason, str(error))


class Outages:
    """The outages of one upstream. None stands for its bootstrap servers."""

    def __init__(self) -> None:
        self._outages: dict[NodeKey | None, Outage] = {}

    def __len__(self) -> int:
        return len(self._outages)

    def begin(self, key: NodeKey | None) -> Outage:
        """Note that the node could not be reached; return its outage, which may have begun before."""
        outage = self._outages.get(key)
        if outage is None:
            outage = self._outages[key] = Outage(asyncio.get_running_loop().time())
        return outage

    def end(self, key: NodeKey | None) -> None:
        """End the outage: the node was reached, or clients no longer ask for it."""
        outage = self._outages.pop(key, None)
        if outage is not None:
            outage.ended.set()

    def end_where(self, over: Callable[[NodeKey | None], bool]) -> None:
        """End the outages of those nodes for which `over` returns True."""
        for key in [key for key in self._outages if over(key)]:
            self.end(key)
