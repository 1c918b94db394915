"""Which addresses to dial for a node's advertised address. Pure.

In this order: what a `--map` says, and nothing else if one matches; the advertised address itself; other addresses that
turned out to be this very node; bootstrap servers of which nobody knows yet which node they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kproxy.base.address import Address


class RouteKind(Enum):
    """Why an address is dialled."""

    MAPPED = "mapped"
    ADVERTISED = "advertised"
    LEARNED = "learned"
    UNIDENTIFIED = "untold"


class RouteMap(Protocol):
    """One `--map`; the config room's Map."""

    def matches(self, advertised: Address, node: str) -> bool: ...
    def dial(self, advertised: Address) -> Address: ...


@dataclass(frozen=True, slots=True)
class Route:
    """An address to dial, and why."""

    dial: Address
    kind: RouteKind


class Routes:
    """The routes of one cluster, as its maps say."""

    def __init__(self, maps: Sequence[RouteMap]) -> None:
        self._maps = maps
        self._used: set[int] = set()

    def candidates(
        self, label: str, advertised: Address, learned: Iterable[Address] = (), unidentified: Iterable[Address] = ()
    ) -> list[Route]:
        """The routes to the node with this label, best first. `learned`: addresses that turned out to be this node;
        `untold`: bootstrap servers that may be any."""
        for at, route_map in enumerate(self._maps):
            if route_map.matches(advertised, label):
                self._used.add(at)
                return [Route(route_map.dial(advertised), RouteKind.MAPPED)]
        kinds = {advertised: RouteKind.ADVERTISED}
        for kind, addresses in ((RouteKind.LEARNED, learned), (RouteKind.UNIDENTIFIED, unidentified)):
            for address in addresses:
                kinds.setdefault(address, kind)
        return [Route(address, kind) for address, kind in kinds.items()]

    def unused_maps(self) -> list[RouteMap]:
        """The maps that no node has matched so far."""
        return [route_map for at, route_map in enumerate(self._maps) if at not in self._used]
