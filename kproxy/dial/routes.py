"""Which addresses to dial for a node's advertised address. Pure.

In this order: what a `--map` says, and nothing else if one matches; the advertised address itself; the bootstrap
server that was found to be this very node; the one bootstrap address, if the cluster has just one broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kproxy.address import Address


class Via(Enum):
    """Why an address is dialled."""

    MAP = "map"
    ADVERTISED = "advertised"
    LEARNED = "learned"
    ONLY_BROKER = "only broker"


class Map(Protocol):
    """One `--map`; the config room's Map."""

    def matches(self, advertised: Address, node: str) -> bool: ...
    def dial(self, advertised: Address) -> Address: ...


@dataclass(frozen=True, slots=True)
class Route:
    """An address to dial, and why."""

    dial: Address
    via: Via


class Routes:
    """The routes of one cluster. `learned` and `only_broker` are filled in by whoever finds out."""

    def __init__(self, maps: Sequence[Map]) -> None:
        self._maps = maps
        self._used: set[int] = set()
        self.learned: dict[str, Address] = {}  # by a node's label
        self.only_broker: Address | None = None

    def candidates(self, label: str, advertised: Address) -> list[Route]:
        """The routes to the node with this label, best first."""
        for at, one in enumerate(self._maps):
            if one.matches(advertised, label):
                self._used.add(at)
                return [Route(one.dial(advertised), Via.MAP)]
        routes = [Route(advertised, Via.ADVERTISED)]
        learned = self.learned.get(label)
        if learned is not None:
            routes.append(Route(learned, Via.LEARNED))
        elif self.only_broker is not None:
            routes.append(Route(self.only_broker, Via.ONLY_BROKER))
        return routes

    def unused_maps(self) -> list[Map]:
        """The maps that no node has matched so far."""
        return [one for at, one in enumerate(self._maps) if at not in self._used]
