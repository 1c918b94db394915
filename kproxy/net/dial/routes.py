"""The addresses to dial for a node's advertised address, in order, and for a bootstrap server. Pure.

If a `--map` matches, or else a `--forward-command` fits, its address is the only one. Otherwise they are: the
advertised address itself; other addresses that are known to belong to this node; bootstrap servers that may belong to
any node. A map for a node id matches no bootstrap server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kproxy.base.address import Address


class RouteKind(Enum):
    """The reason for dialling an address."""

    MAPPED = "mapped"
    FORWARDED = "forwarded"
    ADVERTISED = "advertised"
    LEARNED = "learned"
    UNIDENTIFIED = "untold"


class RouteMap(Protocol):
    """One `--map`, as `kproxy.config` has it."""

    def matches(self, advertised: Address, node: str) -> bool: ...
    def dial(self, advertised: Address) -> Address: ...


NO_NODE = ""
"""The label of a bootstrap server, which no `--map` names."""


@dataclass(frozen=True, slots=True)
class Route:
    """An address to dial, and the reason."""

    dial: Address
    kind: RouteKind


class Routes:
    """The routes of one cluster, which follow its maps, and then its forward commands.

    `forwarded` returns the local address at which a command forwards to the node with a label (`NO_NODE`: to a
    bootstrap server), or None. It may raise UpstreamError.
    """

    def __init__(
        self,
        maps: Sequence[RouteMap],
        forwarded: Callable[[str, Address], Address | None] = lambda label, advertised: None,
    ) -> None:
        self._maps = maps
        self._forwarded = forwarded
        self._used: set[int] = set()

    def only(self, label: str, advertised: Address) -> Route | None:
        """Return the only route to a node, or to a bootstrap server (`NO_NODE`), if a map or a command gives one."""
        if (mapped := self._mapped(label, advertised)) is not None:
            return Route(mapped, RouteKind.MAPPED)
        local = self._forwarded(label, advertised)
        return None if local is None else Route(local, RouteKind.FORWARDED)

    def _mapped(self, label: str, advertised: Address) -> Address | None:
        for at, route_map in enumerate(self._maps):
            if route_map.matches(advertised, label):
                self._used.add(at)
                return route_map.dial(advertised)
        return None

    def candidates(
        self, label: str, advertised: Address, learned: Iterable[Address] = (), unidentified: Iterable[Address] = ()
    ) -> list[Route]:
        """Return the routes to the node with this label, best first.

        `learned` has the addresses that are known to belong to this node, `unidentified` the bootstrap servers that may
        belong to any.
        """
        if (only := self.only(label, advertised)) is not None:
            return [only]
        kinds = {advertised: RouteKind.ADVERTISED}
        for kind, addresses in ((RouteKind.LEARNED, learned), (RouteKind.UNIDENTIFIED, unidentified)):
            for address in addresses:
                kinds.setdefault(address, kind)
        return [Route(address, kind) for address, kind in kinds.items()]

    def of_server(self, server: Address) -> Route:
        """Return the route to a bootstrap server."""
        return self.only(NO_NODE, server) or Route(server, RouteKind.ADVERTISED)

    def of_other_server(self, server: Address) -> Address:
        """Return the address to dial for a server that is no broker: only maps apply to it."""
        return self._mapped(NO_NODE, server) or server

    def unused_maps(self) -> list[RouteMap]:
        """Return the maps that no node and no other server has matched so far."""
        return [route_map for at, route_map in enumerate(self._maps) if at not in self._used]
