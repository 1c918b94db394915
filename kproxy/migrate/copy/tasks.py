"""The code that runs in Spark's Python workers: copying the slices of one task.

A worker process runs one task after the other, and keeps its connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.slices import Slice, SliceResult
from kproxy.migrate.copier.state import Job

# Of this process, by address.
_clusters: dict[str, ClusterClient] = {}


def _cluster(bootstrap: str) -> ClusterClient:
    if bootstrap not in _clusters:
        _clusters[bootstrap] = ClusterClient(bootstrap)
    return _clusters[bootstrap]


def make_copy_task(source: str, target: str, job: Job) -> Callable[[Iterator[Sequence[Slice]]], Iterator[SliceResult]]:
    """Return a function for `RDD.mapPartitions`; the addresses are those of kproxy on every host."""

    def run(tasks: Iterator[Sequence[Slice]]) -> Iterator[SliceResult]:
        from kproxy.migrate.copier.copier import Copier

        copier = Copier(_cluster(source), _cluster(target), job)
        for slices in tasks:
            for slice in slices:
                yield copier.copy(slice)

    return run
