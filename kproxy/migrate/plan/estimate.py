"""How long a migration takes (pure): from sizes and rates, and from figures that were measured once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kproxy.migrate.clusters.inventory import TopicInventory

# CPU-seconds for 1 GB on the wire: the copier with large batches, and Spark's verification of one side.
COPY_CPU_SECONDS_PER_GB, VERIFY_CPU_SECONDS_PER_GB = 5.0, 15.0
# Of one executor.
CORES_PER_EXECUTOR = 4
_GB = 1e9
# Executors for which it is said. More than partitions / cores would have nothing to do.
_EXECUTOR_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
_ONE_NIGHT = 8 * 3600.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """`size` in bytes, without replicas, None if it is not known of every topic; `rate` in bytes a second. `seconds`:
    how long it takes with so many executors, copy and verification, the slowest partition included; None if it never
    ends. `advised`: the fewest executors with which more would help little, or with which it takes one night."""

    size: int | None
    rate: float
    partitions: int
    cpu_seconds: float
    seconds_by_executors: tuple[tuple[int, float | None], ...]
    advised_executors: int


def estimate_migration(topics: Iterable[TopicInventory], max_rate: float | None) -> Estimate:
    """`max_rate` is the job's limit in MB/s."""
    topics = list(topics)
    sizes = [topic.size for topic in topics]
    size = None if None in sizes else sum(one or 0 for one in sizes)
    rate = sum(topic.bytes_a_second or 0.0 for topic in topics)
    partitions = [one for topic in topics for one in topic.partitions]
    largest = max((one.size or 0 for one in partitions), default=0)
    cpu = (size or 0) / _GB * (COPY_CPU_SECONDS_PER_GB + 2 * VERIFY_CPU_SECONDS_PER_GB)
    most = max(1, -(-len(partitions) // CORES_PER_EXECUTOR))
    counts = [count for count in _EXECUTOR_COUNTS if count <= most] or [1]
    times = tuple((count, _seconds(size or 0, rate, largest, count, max_rate)) for count in counts)
    advised = next(
        (count for count, seconds in times if seconds is not None and seconds <= _ONE_NIGHT),
        next((count for count, seconds in reversed(times) if seconds is not None), counts[-1]),
    )
    return Estimate(size, rate, len(partitions), cpu, times, advised)


def _seconds(size: float, rate: float, largest: float, executors: int, max_rate: float | None) -> float | None:
    """Everything that is there, and what comes meanwhile."""
    cost = COPY_CPU_SECONDS_PER_GB + 2 * VERIFY_CPU_SECONDS_PER_GB
    speed = executors * CORES_PER_EXECUTOR / cost * _GB
    if max_rate is not None:
        speed = min(speed, max_rate * 1e6)
    if speed <= rate:
        return None
    # One partition is copied by one task at a time.
    return max(size / (speed - rate), largest / _GB * COPY_CPU_SECONDS_PER_GB)


def copy_seconds(topic: TopicInventory, whole: Estimate) -> float | None:
    """For how many seconds this topic is copied, if it is the last; None if that is not known."""
    seconds = dict(whole.seconds_by_executors)[whole.advised_executors]
    return None if topic.size is None else seconds
