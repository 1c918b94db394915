"""Which slices are copied next, and in which tasks (pure).

A round is one Spark job. Each partition that has something new gives one slice, as one transactional id copies it. A
task copies several slices one after the other; the tasks of a round have about the same number of bytes, and the
largest come first, so that no task is still running when all others have long ended.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kproxy.migrate.copier.slices import Slice

# What a slice costs beside its bytes: a producer id, a transaction and its state, as if they were so many bytes.
OVERHEAD = 512 * 1024
# So many tasks for each slot: the last ones are shorter, and a task that is tried again costs less.
_TASKS_EACH = 3


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """What is still to be copied of a partition: from `position` up to `stable`, about `each` bytes an offset."""

    topic: str
    partition: int
    position: int
    stable: int
    bytes_per_offset: float

    @property
    def lag(self) -> int:
        """In offsets."""
        return max(0, self.stable - self.position)

    @property
    def size(self) -> int:
        """In bytes, estimated."""
        return int(self.lag * self.bytes_per_offset)


def pack_tasks(slices: Iterable[tuple[int, Slice]], slots: int) -> list[list[Slice]]:
    """Slices with their sizes, as tasks: each slice goes, largest first, to the task that has least. The tasks come
    largest first."""
    ordered = sorted(slices, key=lambda each: (-each[0], each[1].topic, each[1].partition))
    count = min(len(ordered), max(1, slots * _TASKS_EACH))
    tasks: list[list[Slice]] = [[] for _ in range(count)]
    loads = [(0, at) for at in range(count)]
    heapq.heapify(loads)
    for size, one in ordered:
        load, at = heapq.heappop(loads)
        tasks[at].append(one)
        heapq.heappush(loads, (load + size + OVERHEAD, at))
    sizes = {at: load for load, at in loads}
    return [tasks[at] for at in sorted(range(count), key=lambda at: -sizes[at])]


def task_rate(max_rate: float, slots: int, tasks: Sequence[object]) -> float:
    """Of the whole job's bytes a second, what one task may take while all slots are busy; 0 is without a limit."""
    return max_rate / max(1, min(slots, len(tasks))) if max_rate else 0.0
