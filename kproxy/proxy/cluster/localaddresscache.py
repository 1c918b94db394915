"""The local addresses in responses to clients, cached for as long as they are valid. Pure.

A response that is equal to an earlier one brings the same `Endpoints`, the very object
(`kproxy.protocol.rewrite.prefixcache`). If nothing has changed on which its local addresses depend, they are the same,
and the response teaches nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.base.address import Address
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.protocol.rewrite.prefixcache import MAX_PREFIX_ENDPOINTS

# Answers to be found again: of each listener, version and local host one.
_MOST = 32


class LocalAddressCache:
    """Local addresses, by the client's host and the endpoints.

    All of them depend on one basis: everything else that they are derived from. A different basis clears the cache.
    """

    def __init__(self) -> None:
        self._basis: object = None
        # By the host and the identity of the endpoints, which are kept so that no others can have it.
        self._answers: dict[tuple[str, int], tuple[Endpoints, Sequence[Address]]] = {}

    def get(self, host: str, endpoints: Endpoints, basis: object) -> Sequence[Address] | None:
        """Return the addresses for this object and clients that use kproxy at the host; None if not cached."""
        if basis != self._basis:
            return None
        answer = self._answers.get((host, id(endpoints)))
        return None if answer is None else answer[1]

    def put(self, host: str, endpoints: Endpoints, basis: object, local: Sequence[Address]) -> None:
        """Cache the local addresses for as long as the basis is the same."""
        if basis != self._basis or len(self._answers) >= _MOST:
            self._answers.clear()
            self._basis = basis
        if (
            endpoints.complete and len(endpoints.nodes) <= MAX_PREFIX_ENDPOINTS
        ):  # others do not come again as the same object
            self._answers[host, id(endpoints)] = endpoints, local
