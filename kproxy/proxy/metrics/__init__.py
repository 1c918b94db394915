"""Each metric name and label of kproxy, in one object that callers pass in. Nothing here is global.

    counters     the plain numbers that the data plane adds to
    registry     `Metrics`: the counters of the process, by cluster and node
    families     the only table of metrics: name, kind, labels, help, where the numbers are
    exposition   the table as text for Prometheus

Label values never come from a client. `cluster` is configured, `node` is a node id that a broker
announced ("1", "controller-3000") or "bootstrap", `api` and `version` come from the table of API keys,
and `reason` is a fixed word in kproxy's source. The number of other values is bounded: see `MAX_CALLS`
and `MAX_REASONS`.

docs/metrics.md describes the metrics for users; a test keeps it equal to the table.
"""

from kproxy.proxy.metrics.counters import LATENCY_BOUNDS, MAX_CALLS, CallCounters, Durations, NodeCounters
from kproxy.proxy.metrics.registry import MAX_REASONS, Metrics

__all__ = [
    "LATENCY_BOUNDS",
    "MAX_CALLS",
    "MAX_REASONS",
    "CallCounters",
    "Durations",
    "Metrics",
    "NodeCounters",
]
