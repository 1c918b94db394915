"""A cache of the prefixes of recent responses, recognised by their bytes.

Clients ask for the nodes of a cluster again and again, and the response is nearly always the same up to its topics,
which stand behind the addresses. The result of a walk depends only on the plan and the bytes: the same bytes have the
same endpoints at the same indexes, whichever broker sends them. So an entry is never out of date, and belongs to no
session. Local addresses do change, so they are looked up for each response; only the bytes for the last ones are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.base.address import Address
from kproxy.protocol.rewrite import splice
from kproxy.protocol.rewrite.endpoints import Endpoints
from kproxy.protocol.rewrite.walk import Walk
from kproxy.protocol.rewrite.walkplan import WalkPlan
from kproxy.protocol.wire.primitives import Buffer

# A cluster has one prefix for each listener of its brokers and each version that clients use. These bounds keep the
# memory of a process below 4 MiB, whatever brokers send.
MAX_PREFIXES = 16
MAX_PREFIX_ENDPOINTS = 256
MAX_PREFIX_SIZE = 16 * 1024


class ResponsePrefix:
    """The bytes frame[begin:end] of a response.

    They begin at the first byte that matters (`WalkPlan.same_from`), and end behind the last address. They contain
    `location_count` addresses.
    """

    __slots__ = ("_last", "_walk", "begin", "data", "end", "endpoints", "location_count", "plan")

    def __init__(self, plan: WalkPlan, data: bytes, walk: Walk) -> None:
        self.plan = plan
        self.begin = plan.same_from
        self.end = plan.same_from + len(data)
        self.data = data
        self.endpoints = Endpoints(tuple(walk.endpoints), plan.rule.complete)
        self.location_count = len(walk.locations)
        self._walk = walk
        # The last local addresses, and the prefix with them. One value, because another thread may use it too.
        self._last: tuple[tuple[Address, ...], bytes] | None = None

    def rewrite(self, local: Sequence[Address]) -> bytes:
        """Return the prefix with local addresses for the endpoints, in order; `data` itself if they are the same."""
        local = tuple(local)
        last = self._last
        if last is None or last[0] != local:
            shift = 8 - self.begin
            edits = [(a + shift, b + shift, new) for a, b, new in splice.edits(self.plan, self._walk, local)]
            data = b"".join(splice.apply(self.data, edits, 0, len(self.data))) if edits else self.data
            last = self._last = (local, data)
        return last[1]


class PrefixCache:
    """The last few prefixes, the newest first."""

    def __init__(self) -> None:
        self._prefixes: tuple[ResponsePrefix, ...] = ()  # replaced as a whole: other threads may be reading it

    def find(self, plan: WalkPlan, frame: Buffer) -> ResponsePrefix | None:
        """Return the prefix of the frame, which has more than 8 bytes so far, if it is in the cache."""
        if not plan.same_from or (plan.compact and frame[8]):
            return None
        for prefix in self._prefixes:
            # bytes() since a memoryview is compared item by item
            if prefix.plan is plan and bytes(frame[prefix.begin : prefix.end]) == prefix.data:
                return prefix
        return None

    def add(self, plan: WalkPlan, frame: Buffer, walk: Walk) -> ResponsePrefix | None:
        """Add the prefix of a frame that was walked over as far as its last address.

        Return None if it cannot be cached: it names no endpoint, has another form, or is too large.
        """
        begin, end = plan.same_from, walk.offset + 8
        if not begin or (plan.compact and frame[8]):
            return None
        if end - begin > MAX_PREFIX_SIZE or not 0 < len(walk.locations) <= MAX_PREFIX_ENDPOINTS:
            return None
        prefix = ResponsePrefix(plan, bytes(frame[begin:end]), walk)
        self._prefixes = (prefix, *self._prefixes[: MAX_PREFIXES - 1])
        return prefix

    def clear(self) -> None:
        """Remove all entries."""
        self._prefixes = ()


PREFIXES = PrefixCache()
"""The cache of this process."""
