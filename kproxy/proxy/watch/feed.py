"""Passes observed exchanges to subscribers. Nothing is observed while there are none.

Each subscription has a filter and a queue of its own. Exchanges that do not fit the queue are lost to that
subscription, and counted: a slow reader costs a fixed amount of memory, and never makes the data plane wait.

`GET /tap` sends exchanges as lines of JSON, and `kproxy tap` reads them. A line with `lost` has the number of exchanges
that were left out since the last line, because the reader was too slow. An empty line is a sign of life of kproxy.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, time
from typing import Any, Protocol

from kproxy.proxy.relay.observer import Exchange


@dataclass(frozen=True, slots=True)
class SessionLabels:
    """The labels of a session: the cluster's name, the node's label ("bootstrap" if unknown), the client's address."""

    cluster: str
    node: str
    client: str


@dataclass(frozen=True, slots=True)
class ObservedExchange:
    """An exchange, its session, and its Unix time."""

    time: float
    labels: SessionLabels
    exchange: Exchange


def format_line(observed: ObservedExchange) -> bytes:
    """Return the exchange as one line.

    Client ids and other names were escaped when they were read.
    """
    exchange, labels = observed.exchange, observed.labels
    value: dict[str, Any] = {
        "time": round(observed.time, 6),
        "cluster": labels.cluster,
        "node": labels.node,
        "client": labels.client,
        "client_id": exchange.client_id,
        "software": exchange.software,
        "api": exchange.api,
        "version": exchange.version,
        "request_bytes": exchange.request_size,
        "response_bytes": exchange.response_size,
        "seconds": None if exchange.seconds is None else round(exchange.seconds, 6),
        "error": exchange.error,
    }
    if exchange.group:
        value["group"] = exchange.group
    if exchange.rewritten:
        value["rewritten"] = [{"from": before, "to": after} for before, after in exchange.rewritten]
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def format_lost(count: int) -> bytes:
    """Return the line that says how many exchanges are missing."""
    return json.dumps({"lost": count}).encode() + b"\n"


def parse_line(line: bytes) -> Mapping[str, Any]:
    """Read a line; an empty line gives an empty mapping.

    Raises ValueError.
    """
    value = json.loads(line) if line.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("a line of kproxy's tap is no JSON object")
    return value


Emit = Callable[[SessionLabels, Exchange], None]

# Exchanges that wait for one reader, and readers at the same time.
MOST_WAITING = 10_000
MOST_READERS = 8
# How often a reader gets the queued lines, and how often a sign of life, in seconds.
_EVERY, _ALIVE = 0.1, 5.0
# Lines written in one go: the data plane shares this thread.
_AT_ONCE = 500
_NAMES = ("cluster", "node", "api", "client")


class TooManyReaders(Exception):
    """The limit of readers at the same time is reached."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The exchanges that a reader asks for; a field that is None allows all."""

    cluster: str | None = None
    node: str | None = None
    api: str | None = None
    client: str | None = None
    """A part of the client's address, id or software."""
    slow: float | None = None
    """The least duration, in seconds."""
    errors: bool = False
    """Only exchanges with an error code other than 0."""

    @classmethod
    def from_query(cls, query: Mapping[str, Sequence[str]]) -> Filter:
        """Read the filter from the query of a request.

        Raises ValueError with a message that says what is allowed.
        """
        unknown = query.keys() - {*_NAMES, "slow", "errors"}
        if unknown:
            raise ValueError(f"allowed: {', '.join(_NAMES)}, slow, errors")
        names = {name: query[name][-1] for name in _NAMES if name in query}
        slow = query.get("slow")
        try:
            seconds = None if slow is None else float(slow[-1])
        except ValueError:
            raise ValueError("slow: allowed is a number of seconds") from None
        return cls(**names, slow=seconds, errors=query.get("errors", ["0"])[-1] not in ("0", "false", ""))

    def matches(self, labels: SessionLabels, exchange: Exchange) -> bool:
        """Return True if the filter lets this exchange through."""
        if self.cluster is not None and self.cluster != labels.cluster:
            return False
        if self.node is not None and self.node != labels.node:
            return False
        if self.api is not None and self.api.lower() != exchange.api.lower():
            return False
        if self.client is not None and not any(
            self.client in text for text in (labels.client, exchange.client_id, exchange.software)
        ):
            return False
        if self.slow is not None and (exchange.seconds is None or exchange.seconds < self.slow):
            return False
        return not self.errors or exchange.error not in (None, 0)


class FeedListener(Protocol):
    """A subscriber inside this process."""

    def offer(self, observed: ObservedExchange) -> None:
        """Take an exchange that has passed.

        It is called in the data plane, and must be quick.
        """


class Subscription:
    """A reader outside of this process, which may be slow."""

    def __init__(self, filter_: Filter) -> None:
        self._wanted = filter_
        self._waiting: deque[ObservedExchange] = deque()
        self._lost = 0

    def offer(self, observed: ObservedExchange) -> None:
        """Queue the exchange, if the filter matches and there is room."""
        if not self._wanted.matches(observed.labels, observed.exchange):
            return
        if len(self._waiting) >= MOST_WAITING:
            self._lost += 1
        else:
            self._waiting.append(observed)

    def take_lines(self) -> bytes:
        """Return some of the queued exchanges, as lines."""
        pieces = [format_line(self._waiting.popleft()) for _ in range(min(_AT_ONCE, len(self._waiting)))]
        if self._lost:
            pieces.append(format_lost(self._lost))
            self._lost = 0
        return b"".join(pieces)


class Feed:
    """All subscribers.

    `watch` is called with `publish` when the first one is added, and with None after the last one is removed.
    """

    def __init__(self, watch: Callable[[Emit | None], None]) -> None:
        self._watch = watch
        self._listeners: set[FeedListener] = set()
        self.readers = 0
        """The number of subscribers that read lines."""

    def add(self, listener: FeedListener) -> None:
        """Add a subscriber."""
        self._listeners.add(listener)
        if len(self._listeners) == 1:
            self._watch(self.publish)

    def remove(self, listener: FeedListener) -> None:
        """Remove a subscriber."""
        self._listeners.discard(listener)
        if not self._listeners:
            self._watch(None)

    def publish(self, labels: SessionLabels, exchange: Exchange) -> None:
        """Pass an exchange to all subscribers."""
        passed = ObservedExchange(time() - (perf_counter() - exchange.at), labels, exchange)
        for listener in self._listeners:
            listener.offer(passed)

    def subscribe(self, filter_: Filter) -> AsyncGenerator[bytes, None]:
        """Return lines of the exchanges that match, until the generator is closed.

        Raises TooManyReaders.
        """
        self._check_room()
        return self._lines(Subscription(filter_))

    def _check_room(self) -> None:
        if self.readers >= MOST_READERS:
            raise TooManyReaders(f"{MOST_READERS} readers are connected already: kproxy serves no more")

    async def _lines(self, subscription: Subscription) -> AsyncGenerator[bytes, None]:
        # Not in `subscribe`: a generator that was never started does not notice that it is closed.
        self._check_room()
        self.readers += 1
        self.add(subscription)
        try:
            quiet = _ALIVE  # the first line is a sign of life
            while True:
                data = subscription.take_lines()
                if not data and quiet >= _ALIVE:
                    data = b"\n"
                if data:
                    quiet = 0.0
                    yield data
                await asyncio.sleep(_EVERY)
                quiet += _EVERY
        finally:
            self.readers -= 1
            self.remove(subscription)
