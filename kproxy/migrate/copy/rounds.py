"""The slices of the next round, their tasks, and the code of a task that runs in Spark's Python workers.

A round is one Spark job. Each partition with new records gives one slice. Slices of partitions that have much to copy
are copied one after the other, each with a transactional id of its own; those of partitions that have little are copied
together (`kproxy.migrate.copier.copier`), and are in the same task if they have the same transactional id. The tasks of
a round have about the same number of bytes, and the largest come first, so that no task runs long after the others have
ended.

A worker process runs one task after the other, and keeps its connections.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.state import LITTLE_SIZE, Job, PartitionState, Slice, SliceResult

# Cost of a transactional id in addition to the bytes (a producer id, a transaction), and of a slice, as a number of
# bytes.
OVERHEAD, SLICE_OVERHEAD = 512 * 1024, 16 * 1024
# Size of the first slice of a partition that has much to copy, before it gets a transactional id of its own, in bytes.
_FIRST_SIZE = 1024 * 1024
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


def slice_size(backlog: PartitionBacklog, state: PartitionState | None, max_size: int) -> int:
    """Return the size of the next slice of a partition, in bytes.

    The shared transactional id copies what is little, and the beginning of what is more.
    """
    if state is not None and state.has_own_id:
        return max_size
    return min(max_size, LITTLE_SIZE if backlog.size <= LITTLE_SIZE else _FIRST_SIZE)


def group_slices(slices: Iterable[tuple[int, Slice]], job: Job) -> dict[str, list[tuple[int, Slice]]]:
    """Return the slices, with their sizes, by transactional id. Each group must be copied in one call."""
    groups: dict[str, list[tuple[int, Slice]]] = {}
    for sized in slices:
        groups.setdefault(sized[1].transactional_id(job), []).append(sized)
    return groups


def pack_tasks(slices: Iterable[tuple[int, Slice]], job: Job, slots: int) -> list[list[list[Slice]]]:
    """Distribute slices, grouped by transactional id, over tasks.

    Each group goes, largest first, to the task with the fewest bytes. `slices` have their sizes. The result has the
    largest task first.
    """
    groups = group_slices(slices, job)
    sizes = {
        transactional_id: OVERHEAD + sum(size + SLICE_OVERHEAD for size, _ in group)
        for transactional_id, group in groups.items()
    }
    ordered = sorted(groups, key=lambda each: (-sizes[each], each))
    count = min(len(ordered), max(1, slots * _TASKS_EACH))
    tasks: list[list[list[Slice]]] = [[] for _ in range(count)]
    loads = [(0, index) for index in range(count)]
    heapq.heapify(loads)
    for transactional_id in ordered:
        load, index = heapq.heappop(loads)
        tasks[index].append([slice for _, slice in groups[transactional_id]])
        heapq.heappush(loads, (load + sizes[transactional_id], index))
    task_sizes = {index: load for load, index in loads}
    return [tasks[index] for index in sorted(range(count), key=lambda index: -task_sizes[index])]


def task_rate(max_rate: float, slots: int, tasks: Sized) -> float:
    """Return the share of one task in the maximum rate while all slots are busy, in bytes a second; 0 is no limit."""
    return max_rate / max(1, min(slots, len(tasks))) if max_rate else 0.0


# Of this process, by address.
_clusters: dict[str, ClusterClient] = {}


def _cluster(bootstrap: str) -> ClusterClient:
    if bootstrap not in _clusters:
        _clusters[bootstrap] = ClusterClient(bootstrap)
    return _clusters[bootstrap]


CopyTask = Callable[[Iterator[Sequence[Sequence[Slice]]]], Iterator[SliceResult]]


def make_copy_task(source: str, target: str, job: Job) -> CopyTask:
    """Return a function for `RDD.mapPartitions`; the addresses are those of kproxy on every host."""

    def run(tasks: Iterator[Sequence[Sequence[Slice]]]) -> Iterator[SliceResult]:
        from kproxy.migrate.copier.copier import Copier

        copier = Copier(_cluster(source), _cluster(target), job)
        for groups in tasks:
            for slices in groups:
                yield from copier.copy(slices)

    return run
