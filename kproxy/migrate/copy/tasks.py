"""What runs in Spark's Python workers: copying the slices of one task.

A worker process is used for one task after the other, and keeps its connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kproxy.migrate.copier.clusterclient import Cluster
from kproxy.migrate.copier.slices import Job, Outcome, Slice

# Of this process, by address.
_clusters: dict[str, Cluster] = {}


def _cluster(bootstrap: str) -> Cluster:
    if bootstrap not in _clusters:
        _clusters[bootstrap] = Cluster(bootstrap)
    return _clusters[bootstrap]


def copying(source: str, target: str, job: Job) -> Callable[[Iterator[Sequence[Slice]]], Iterator[Outcome]]:
    """A function for `RDD.mapPartitions`; the addresses are those of kproxy on every host."""

    def run(tasks: Iterator[Sequence[Slice]]) -> Iterator[Outcome]:
        from kproxy.migrate.copier.copier import Copier

        copier = Copier(_cluster(source), _cluster(target), job)
        for slices in tasks:
            for one in slices:
                yield copier.copy(one)

    return run
