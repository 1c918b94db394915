"""The plain numbers that the data plane adds to.

A request costs a few attribute additions here, no call, no lock and no label lookup: the holder of a `CallCounters`
increments it in place. All of it belongs to the thread of the event loop.
"""

from __future__ import annotations

from bisect import bisect_left

LATENCY_BOUNDS: tuple[float, ...] = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
    *(0.6, 2.0, 10.0, 30.0),  # an idle consumer's Fetch waits 500 ms (fetch.max.wait.ms): not on an edge
)
"""Upper bounds of the duration buckets, in seconds, ascending. Values above the last have one more bucket."""

MAX_CALLS = 512
"""Pairs of API and version counted apart, per node. A client chooses the version it writes into a request, so
an inventive one could otherwise grow memory and series without end; real clients use a few dozen pairs."""


class Durations:
    """The number of durations in each bucket (not cumulative), and their sum in seconds."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a duration, `times` times. A bound belongs to the bucket below it, as Prometheus's `le` says."""
        self.buckets[bisect_left(LATENCY_BOUNDS, seconds)] += times
        self.seconds += seconds * times

    def plus(self, other: Durations) -> Durations:
        """Return the sum of both, as a new object."""
        total = Durations()
        total.buckets = [count + other_count for count, other_count in zip(self.buckets, other.buckets, strict=True)]
        total.seconds = self.seconds + other.seconds
        return total


class CallCounters(Durations):
    """One API in one version, towards one node.

    `count` is requests sent; the durations are of responses received, so that Produce with acks=0 counts in
    the first and not in the second.
    """

    __slots__ = ("api", "count", "version")

    def __init__(self, api: str, version: int) -> None:
        super().__init__()
        self.api = api
        self.version = version
        self.count = 0


class NodeCounters:
    """The counters of one node ("bootstrap", "1", "controller-3000") of one cluster.

    They stay when the node is retired, so that they do not go back, until kproxy forgets the node.
    """

    __slots__ = (
        "_other",
        "bytes_from_client",
        "bytes_from_upstream",
        "calls",
        "cluster",
        "node",
        "sessions_open",
        "sessions_total",
    )

    def __init__(self, cluster: str, node: str) -> None:
        self.cluster = cluster
        self.node = node
        self.sessions_open = 0
        self.sessions_total = 0
        self.bytes_from_client = 0
        self.bytes_from_upstream = 0
        self.calls: dict[int, CallCounters] = {}
        """By `api_key << 16 | version`; read it, add through `call`."""
        self._other = CallCounters("other", -1)

    def call(self, code: int, api: str, version: int) -> CallCounters:
        """Return the counters of `code`, `api_key << 16 | version`; add them if they are missing.

        `api` is the name in the table of API keys. Beyond `MAX_CALLS` pairs, all new ones share one entry,
        `api="other"`, `version="-1"`.
        """
        counters = self.calls.get(code)
        if counters is not None:
            return counters
        if len(self.calls) >= MAX_CALLS:
            return self._other
        counters = self.calls[code] = CallCounters(api, version)
        return counters

    def all_calls(self) -> list[CallCounters]:
        """Return every entry, including the shared one if it was used."""
        calls = list(self.calls.values())
        return [*calls, self._other] if self._other.count else calls
