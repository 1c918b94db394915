"""How many clients of one cluster may be on their way to their nodes at the same time.

A client that has no session yet costs two file descriptors and time of the event loop, and a broker can make more of
them: two kproxies that lead to each other open one connection after the other. So each cluster has a bound, and each
node a part of it. The clients beyond it wait. While a node is out of reach, one client tries it for all.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable

from kproxy.base.errors import UpstreamError

# One node has this part of the bound: while it is slow, clients still reach the others.
_PART = 2
# Nodes that are remembered as out of reach.
_MOST_FAILING = 1000


class DialSlot:
    """A client on its way; `end` must be called, and may be called twice."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end: Callable[[], None] | None = on_end

    def end(self) -> None:
        """Let the next one go."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()


class DialQueue:
    """At most `most` at the same time; `taken` are on their way now. A node is whatever the caller names it by."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._each = max(1, most // _PART)
        self.taken = 0
        self._taken: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[DialSlot | UpstreamError]]] = {}
        self._failing: set[Hashable] = set()

    def is_free(self, node: Hashable) -> bool:
        """Tell whether a client of this node need not wait."""
        return self._taken[node] < (1 if node in self._failing else self._each) and self.taken < self._most

    async def take(self, node: Hashable) -> DialSlot | UpstreamError:
        """Wait for a turn. Returns why the node is out of reach, if another client found that out meanwhile."""
        if self.is_free(node):
            return self._begin(node)
        outcome: asyncio.Future[DialSlot | UpstreamError] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(node, deque()).append(outcome)
        try:
            return await outcome
        except asyncio.CancelledError:
            if outcome.done() and not outcome.cancelled() and isinstance(turn := outcome.result(), DialSlot):
                turn.end()
            raise

    def worked(self, node: Hashable) -> None:
        """The node was reached."""
        if node in self._failing:
            self._failing.remove(node)
            self._go_on()

    def failed(self, node: Hashable, error: UpstreamError) -> None:
        """The node is out of reach: those that wait for it need not find out, one after the other."""
        if len(self._failing) >= _MOST_FAILING:
            self._failing.clear()
        self._failing.add(node)
        for outcome in self._waiting.pop(node, ()):
            if not outcome.done():
                outcome.set_result(error)

    def _begin(self, node: Hashable) -> DialSlot:
        self.taken += 1
        self._taken[node] += 1
        return DialSlot(lambda: self._end(node))

    def _end(self, node: Hashable) -> None:
        self.taken -= 1
        self._taken[node] -= 1
        if not self._taken[node]:
            del self._taken[node]
        self._go_on()

    def _go_on(self) -> None:
        """Give turns to those that wait, for each node in their order."""
        for node in list(self._waiting):
            waiting = self._waiting[node]
            while waiting and (waiting[0].done() or self.is_free(node)):
                outcome = waiting.popleft()
                if not outcome.done():  # else its client has gone
                    outcome.set_result(self._begin(node))
            if not waiting:
                del self._waiting[node]
