"""The local addresses that clients were told, for as long as they hold. Pure.

A response that came before brings the same `Endpoints` as then, the very object
(`kproxy.protocol.rewrite.prefixcache`). If nothing has changed that its local addresses depend on, they are the same,
and there is nothing to learn from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.base.address import Address
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.protocol.rewrite.prefixcache import MAX_PREFIX_ENDPOINTS

# Answers to be found again: of each listener, version and local host one.
_MOST = 32


class LocalAddressCache:
    """Answers on one basis: all that they depend on beside the client's host and the endpoints. Another basis ends them
    all."""

    def __init__(self) -> None:
        self._basis: object = None
        # By the host and the identity of the endpoints, which are kept so that no others can have it.
        self._told: dict[tuple[str, int], tuple[Endpoints, Sequence[Address]]] = {}

    def recall(self, host: str, endpoints: Endpoints, basis: object) -> Sequence[Address] | None:
        """What was told of this object to clients that find kproxy at the host; None if that may have changed."""
        if basis != self._basis:
            return None
        told = self._told.get((host, id(endpoints)))
        return None if told is None else told[1]

    def note(self, host: str, endpoints: Endpoints, basis: object, local: Sequence[Address]) -> None:
        """This is told, and holds as long as the basis is the same."""
        if basis != self._basis or len(self._told) >= _MOST:
            self._told.clear()
            self._basis = basis
        if (
            endpoints.complete and len(endpoints.nodes) <= MAX_PREFIX_ENDPOINTS
        ):  # others do not come again as the same object
            self._told[host, id(endpoints)] = endpoints, local
