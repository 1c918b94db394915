"""What one process has counted, in a form that goes to another process and can be added up there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import Metric, ProcessCollector
from prometheus_client.registry import Collector

from kproxy.proxy.metrics.counters import Durations, NodeCounters

BOOTSTRAP = "bootstrap"
"""The label of the bootstrap servers in the place of a node's."""

_CPU, _START = "process_cpu_seconds_total", "process_start_time_seconds"


@dataclass(slots=True)
class Numbers:
    """The numbers of one process, or of several together. The keys are those of `Metrics`."""

    nodes: dict[tuple[str, str], NodeCounters] = field(default_factory=dict)
    refusals: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    dials: dict[tuple[str, ...], Durations] = field(default_factory=dict)
    dial_failures: Counter[tuple[str, ...]] = field(default_factory=Counter)
    endpoints_rewritten: Counter[tuple[str, str]] = field(default_factory=Counter)
    in_flight: Counter[tuple[str, str]] = field(default_factory=Counter)
    process: dict[str, float] = field(default_factory=dict)
    """Of `process_*`, by name: what makes sense as a sum."""

    def add(self, other: Numbers) -> None:
        """Add another process's; `other` stays as it is."""
        for (cluster, name), node in other.nodes.items():
            self.nodes.setdefault((cluster, name), NodeCounters(cluster, name)).include(node)
        for key, durations in other.dials.items():
            self.dials.setdefault(key, Durations()).include(durations)
        self.refusals.update(other.refusals)
        self.dial_failures.update(other.dial_failures)
        self.endpoints_rewritten.update(other.endpoints_rewritten)
        self.in_flight.update(other.in_flight)
        for name, value in other.process.items():
            self.process[name] = self.process.get(name, 0) + value

    def keep_only(self, cluster: str, nodes: Collection[str]) -> None:
        """Forget the nodes of this cluster that it has no more: a broker may name others for ever. One to which clients
        are still connected stays."""
        stays = {*nodes, BOOTSTRAP}
        stays |= {name for (of, name), node in self.nodes.items() if of == cluster and node.sessions_open}
        for name in [name for of, name in self.nodes if of == cluster and name not in stays]:
            del self.nodes[cluster, name]
        for numbers in (self.dials, self.dial_failures):
            for key in [key for key in numbers if key[0] == cluster and key[1] not in stays]:
                del numbers[key]

    def add_ended(self, other: Numbers) -> None:
        """Add those of a process that has ended: what only grows stays, or a counter would go back."""
        self.add(other)
        for node in self.nodes.values():
            node.sessions_open = 0
        self.in_flight.clear()
        self.process = {_CPU: self.process.get(_CPU, 0)}


def of_this_process() -> dict[str, float]:
    """`process_*` of this process, but its start."""
    found = ProcessCollector(registry=None).collect()
    return {s.name: s.value for metric in found for s in metric.samples if s.name != _START}


class ProcessSums(Collector):
    """`process_*` of several processes together; the start is this one's."""

    def __init__(self, sums: Mapping[str, float]) -> None:
        self._sums = sums

    def collect(self) -> Iterator[Metric]:
        for metric in ProcessCollector(registry=None).collect():
            metric.samples = [s._replace(value=self._sums.get(s.name, s.value)) for s in metric.samples]
            yield metric
