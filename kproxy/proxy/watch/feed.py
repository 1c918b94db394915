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
    """The labels of a session: the cluster's name, the node's label ("bootstrap" if unknown), the client's address.

    `user` is the user who has logged in at kproxy, "" if there is none. `broker_user` is the user name in a login that
    passed to the broker, "" if it is unknown: the broker verifies it, not kproxy. `upstream` is the name of the
    upstream, "" if the cluster has one only.
    """

    cluster: str
    node: str
    client: str
    user: str = ""
    upstream: str = ""
    broker_user: str = ""


@dataclass(frozen=True, slots=True)
class ObservedExchange:
    """An exchange, its session, and its Unix time."""

    time: float
    labels: SessionLabels
    exchange: Exchange


def format_line(observed: ObservedExchange) -> bytes:
    """Return the exchange as one line. Client ids and other names were escaped when they were read."""
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
    if labels.user:
        value["user"] = labels.user
    if exchange.group:
        value["group"] = exchange.group
    if exchange.rewritten:
        value["rewritten"] = [{"from": before, "to": after} for before, after in exchange.rewritten]
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def format_lost(count: int) -> bytes:
    """Return the line that says how many exchanges are missing."""
    return json.dumps({"lost": count}).encode() + b"\n"


def parse_line(line: bytes) -> Mapping[str, Any]:
    """Read a line; an empty line gives an empty mapping. Raises ValueError."""
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
        """Read the filter from the query of a request. Raises ValueError with a message that says what is allowed."""
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

    def chooses(self, labels: SessionLabels, api: str, client_id: str, software: str) -> bool:
        """Return True if the filter lets this session, API and client through; a remark without an API has any."""
        if self.cluster not in (None, labels.cluster) or self.node not in (None, labels.node):
            return False
        if self.api is not None and api and self.api.lower() != api.lower():
            return False
        return self.client is None or any(self.client in text for text in (labels.client, client_id, software))

    def matches(self, labels: SessionLabels, exchange: Exchange) -> bool:
        """Return True if the filter lets this exchange through."""
        if self.slow is not None and (exchange.seconds is None or exchange.seconds < self.slow):
            return False
        if self.errors and exchange.error in (None, 0):
            return False
        return self.chooses(labels, exchange.api, exchange.client_id, exchange.software)


class FeedListener(Protocol):
    """A subscriber inside this process."""

    def offer(self, observed: Any, /) -> None:
        """Take what has passed. It is called in the data plane, and must be quick."""


class LineReader(FeedListener, Protocol):
    """A subscriber outside of this process, which may be slow."""

    @property
    def is_behind(self) -> bool:
        """True if more lines should follow at once."""
        ...

    def take_lines(self) -> bytes:
        """Return some of what is queued, as lines."""
        ...


class Subscription:
    """A reader of exchanges."""

    is_behind = False  # not more than so many lines at a time

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


class LineFeed:
    """The subscribers of something that passes. At most `most` of them read lines.

    `watch` is called with True when the first one is added, and with False after the last one is removed.
    """

    def __init__(self, watch: Callable[[bool], None], most: int, refusal: str) -> None:
        self._watch = watch
        self._most = most
        self._refusal = refusal
        self._listeners: set[FeedListener] = set()
        self._readers = 0

    def add(self, listener: FeedListener) -> None:
        """Add a subscriber."""
        self._listeners.add(listener)
        if len(self._listeners) == 1:
            self._watch(True)

    def remove(self, listener: FeedListener) -> None:
        """Remove a subscriber."""
        self._listeners.discard(listener)
        if not self._listeners:
            self._watch(False)

    def offer(self, observed: object) -> None:
        """Pass this to all subscribers."""
        for listener in self._listeners:
            listener.offer(observed)

    def lines(self, reader: LineReader) -> AsyncGenerator[bytes, None]:
        """Return the lines of a reader, until the generator is closed. Raises TooManyReaders."""
        self._check_room()
        return self._lines(reader)

    def _check_room(self) -> None:
        if self._readers >= self._most:
            raise TooManyReaders(f"{self._most} readers {self._refusal}: kproxy serves no more")

    async def _lines(self, reader: LineReader) -> AsyncGenerator[bytes, None]:
        # Not in `lines`: a generator that was never started does not notice that it is closed.
        self._check_room()
        self._readers += 1
        self.add(reader)
        try:
            quiet = _ALIVE  # the first line is a sign of life
            while True:
                data = reader.take_lines()
                if not data and quiet >= _ALIVE:
                    data = b"\n"
                if data:
                    quiet = 0.0
                    yield data
                wait = 0.0 if reader.is_behind else _EVERY
                await asyncio.sleep(wait)
                quiet += wait
        finally:
            self._readers -= 1
            self.remove(reader)


class Feed(LineFeed):
    """The subscribers of exchanges.

    `watch` is called with `publish` when the first one is added, and with None after the last one is removed.
    """

    def __init__(self, watch: Callable[[Emit | None], None]) -> None:
        super().__init__(lambda on: watch(self.publish if on else None), MOST_READERS, "are connected already")

    def publish(self, labels: SessionLabels, exchange: Exchange) -> None:
        """Pass an exchange to all subscribers."""
        self.offer(ObservedExchange(time() - (perf_counter() - exchange.at), labels, exchange))

    def subscribe(self, filter_: Filter) -> AsyncGenerator[bytes, None]:
        """Return lines of the exchanges that match, until the generator is closed. Raises TooManyReaders."""
        return self.lines(Subscription(filter_))
