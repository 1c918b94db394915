"""The slices of the next round, their tasks, and the code of a task that runs in Spark's Python workers.

A round is one Spark job. Each partition with new records gives one slice, because one transactional id copies it. A
task copies several slices one after the other. The tasks of a round have about the same number of bytes, and the
largest come first, so that no task runs long after the others have ended.

A worker process runs one task after the other, and keeps its connections.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.state import Job, Slice, SliceResult

# Cost of a slice in addition to its bytes (a producer id, a transaction, its state), as a number of bytes.
OVERHEAD = 512 * 1024
# Tasks per slot: with more tasks, the last ones are shorter, and a retried task costs less.
_TASKS_EACH = 3


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """The part of a partition that is not copied: from `position` to `stable`, with an estimated size per offset."""

    topic: str
    partition: int
    position: int
    stable: int
    bytes_per_offset: float

    @property
    def lag(self) -> int:
        """The number of offsets that are not copied."""
        return max(0, self.stable - self.position)

    @property
    def size(self) -> int:
        """The estimated number of bytes that are not copied."""
        return int(self.lag * self.bytes_per_offset)


def pack_tasks(slices: Iterable[tuple[int, Slice]], slots: int) -> list[list[Slice]]:
    """Distribute slices over tasks: each slice goes, largest first, to the task with the fewest bytes.

    `slices` have their sizes. The result has the largest task first.
    """
    ordered = sorted(slices, key=lambda sized: (-sized[0], sized[1].topic, sized[1].partition))
    count = min(len(ordered), max(1, slots * _TASKS_EACH))
    tasks: list[list[Slice]] = [[] for _ in range(count)]
    loads = [(0, index) for index in range(count)]
    heapq.heapify(loads)
    for size, slice in ordered:
        load, index = heapq.heappop(loads)
        tasks[index].append(slice)
        heapq.heappush(loads, (load + size + OVERHEAD, index))
    sizes = {index: load for load, index in loads}
    return [tasks[index] for index in sorted(range(count), key=lambda index: -sizes[index])]


def task_rate(max_rate: float, slots: int, tasks: Sequence[object]) -> float:
    """Return the share of one task in the maximum rate while all slots are busy, in bytes a second; 0 is no limit."""
    return max_rate / max(1, min(slots, len(tasks))) if max_rate else 0.0


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
