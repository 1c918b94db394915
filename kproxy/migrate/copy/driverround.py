"""Copies small rounds in threads of the driver, without a Spark job: the last records, while writes are held.

The code is that of Spark's tasks, `Copier`; so are its transactions, its fences, and what it does after an error.
Memory is bounded by the size of a slice and the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from zlib import crc32

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.copier import Copier
from kproxy.migrate.copier.state import Job, Slice, SliceResult
from kproxy.migrate.copy.rounds import group_slices, task_rate

# The most that a small round has: partitions, and bytes by their estimate.
MAX_SLICES, MAX_SIZE = 256, 8 << 20
# A slice ends after so many bytes, whatever was estimated.
_SLICE_SIZE = 2 << 20
_THREADS = 4


class DriverRounds:
    """The threads of one run of the copy, with their connections."""

    def __init__(self, source: str, target: str) -> None:
        self._clusters = [(ClusterClient(source), ClusterClient(target)) for _ in range(_THREADS)]
        self._pool = ThreadPoolExecutor(_THREADS, "kproxy migrate: round")

    @staticmethod
    def can_copy(slices: Sequence[tuple[int, Slice]]) -> bool:
        """Return True if the round is small. `slices` have their estimated sizes."""
        return len(slices) <= MAX_SLICES and sum(size for size, _ in slices) <= MAX_SIZE

    def copy(
        self, job: Job, slices: Sequence[tuple[int, Slice]], max_rate: float, is_cancelled: Callable[[], bool]
    ) -> list[SliceResult]:
        """Copy the slices, and return their results; without those that had not begun when it was cancelled.

        `max_rate`: bytes a second of the whole round; 0 is no limit.
        """
        shares: list[list[list[Slice]]] = [[] for _ in self._clusters]
        groups = group_slices(slices, job)
        rate = task_rate(max_rate, len(shares), groups)
        for transactional_id, group in groups.items():
            # A transactional id is always used with the same connections, which know its coordinator.
            share = shares[crc32(transactional_id.encode()) % len(shares)]
            share.append([replace(slice, size=min(slice.size, _SLICE_SIZE), rate=rate) for _, slice in group])

        def run(clusters: tuple[ClusterClient, ClusterClient], share: Sequence[Sequence[Slice]]) -> list[SliceResult]:
            copier = Copier(*clusters, job)
            return [result for group in share if not is_cancelled() for result in copier.copy(group)]

        return [result for results in self._pool.map(run, self._clusters, shares) for result in results]

    def close(self) -> None:
        self._pool.shutdown()
        for source, target in self._clusters:
            source.close()
            target.close()
