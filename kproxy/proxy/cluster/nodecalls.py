"""The calls towards each node of one cluster, which all sessions to the node share."""

from __future__ import annotations

from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.cluster.verifiedconnection import VerifiedConnection
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.metrics.counters import NodeCounters
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.switching.caps import CAPS


class NodeCalls:
    """The calls towards each node of one cluster, by the node's label and its newest version of ApiVersions."""

    def __init__(self, metrics: Metrics, cluster: str) -> None:
        self._metrics = metrics
        self._cluster = cluster
        self._calls: dict[tuple[str, int | None], tuple[NodeCounters, Calls]] = {}

    def of(self, upstream: VerifiedConnection, counters: NodeCounters, *, switches: bool) -> Calls:
        """Return the calls towards a node. Those of forgotten nodes go together with their counters.

        `switches`: the cluster can be switched, so fewer versions are offered. `clear` must be called when it changes.
        """
        label, newest = upstream.label, upstream.newest_versions
        cached = self._calls.get((label, newest))
        if cached is not None and cached[0] is counters:
            return cached[1]
        nodes = self._metrics.nodes
        self._calls = {
            (node_label, versions): cached_calls
            for (node_label, versions), cached_calls in self._calls.items()
            if nodes.get((self._cluster, node_label)) is cached_calls[0]
        }
        highest = CAPS if switches else TABLE_VERSIONS
        if newest is not None and newest < ApiKey.API_VERSIONS.newest:
            # kproxy answers a newer version itself, as the broker would: that costs no round trip.
            highest = {**highest, ApiKey.API_VERSIONS: newest}
        calls = Calls(counters.call, highest)
        self._calls[label, newest] = counters, calls
        return calls

    def clear(self) -> None:
        """Forget all calls: sessions begin to use others, because the cluster can be switched now, or no longer."""
        self._calls.clear()
