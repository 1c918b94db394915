"""The queue of one cluster's clients that want a connection to their nodes: how many may dial at the same time.

A client that has no session yet costs two file descriptors and time of the event loop, and a broker can multiply such
clients: two kproxies that are each other's upstreams open one connection after the other. So each cluster has a bound,
and each node a part of it. Clients beyond it wait. While a node is unreachable, one client tries it for all.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Hashable

from kproxy.base.errors import UpstreamError

# One node has at most 1/_PART of the slots: while it is slow, clients still reach the others.
_PART = 2
# The most nodes that are remembered as unreachable.
_MOST_FAILING = 1000


class DialSlot:
    """The right of one client to dial to a node. `release` must be called; a second call does nothing."""

    __slots__ = ("_node", "_queue")

    def __init__(self, queue: DialQueue, node: Hashable) -> None:
        self._queue: DialQueue | None = queue
        self._node = node

    def release(self) -> None:
        """Let the next client dial."""
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.take_back(self._node)


class DialQueue:
    """The dial slots of one cluster: at most `maximum` at the same time, and a part of these for each node.

    `in_use` slots are given out now. A node is any hashable value that the caller uses for it.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._per_node = max(1, maximum // _PART)
        self.in_use = 0
        self._in_use_by_node: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[DialSlot | UpstreamError]]] = {}
        self._unreachable: set[Hashable] = set()

    def take(self, node: Hashable) -> DialSlot | None:
        """Return a slot if a client of this node need not wait."""
        return self._grant(node) if self._is_free(node) else None

    def _is_free(self, node: Hashable) -> bool:
        return (
            self._in_use_by_node[node] < (1 if node in self._unreachable else self._per_node)
            and self.in_use < self._maximum
        )

    async def acquire(self, node: Hashable) -> DialSlot | UpstreamError:
        """Wait for a slot. Returns the error instead if another client meanwhile found the node unreachable."""
        if (slot := self.take(node)) is not None:
            return slot
        outcome: asyncio.Future[DialSlot | UpstreamError] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(node, deque()).append(outcome)
        try:
            return await outcome
        except asyncio.CancelledError:
            if outcome.done() and not outcome.cancelled() and isinstance(turn := outcome.result(), DialSlot):
                turn.release()
            raise

    def note_reached(self, node: Hashable) -> None:
        """Note that the node was reached."""
        if node in self._unreachable:
            self._unreachable.remove(node)
            self._grant_waiting()

    def note_unreachable(self, node: Hashable, error: UpstreamError) -> None:
        """Note that the node is unreachable, so that the clients that wait for it need not try one after the other."""
        if len(self._unreachable) >= _MOST_FAILING:
            self._unreachable.clear()
        self._unreachable.add(node)
        for outcome in self._waiting.pop(node, ()):
            if not outcome.done():
                outcome.set_result(error)

    def _grant(self, node: Hashable) -> DialSlot:
        self.in_use += 1
        self._in_use_by_node[node] += 1
        return DialSlot(self, node)

    def take_back(self, node: Hashable) -> None:
        """Give a slot of this node, which a client no longer needs, to the next one."""
        self.in_use -= 1
        self._in_use_by_node[node] -= 1
        if not self._in_use_by_node[node]:
            del self._in_use_by_node[node]
        if self._waiting:
            self._grant_waiting()

    def _grant_waiting(self) -> None:
        """Give free slots to the waiting clients, for each node in their order."""
        for node in list(self._waiting):
            waiting = self._waiting[node]
            while waiting and (waiting[0].done() or self._is_free(node)):
                outcome = waiting.popleft()
                if not outcome.done():  # else its client has disconnected
                    outcome.set_result(self._grant(node))
            if not waiting:
                del self._waiting[node]
