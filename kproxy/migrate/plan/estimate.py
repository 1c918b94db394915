"""An estimate of the duration of a migration (pure): from sizes and rates, and from costs that were measured once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kproxy.migrate.clusters.inventory import TopicInventory

# CPU-seconds for 1 GB on the wire: the copier with large batches, and Spark's verification of one side.
COPY_CPU_SECONDS_PER_GB, VERIFY_CPU_SECONDS_PER_GB = 5.0, 15.0
# Of one executor.
CORES_PER_EXECUTOR = 4
_GB = 1e9
# Numbers of executors in the estimate. More than partitions / cores would be idle.
_EXECUTOR_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
_ONE_NIGHT = 8 * 3600.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated cost and duration of a migration."""

    size: int | None
    """Bytes without replicas; None if the size of a topic is not known."""
    rate: float
    """Bytes a second that are written to the source."""
    partitions: int
    cpu_seconds: float
    seconds_by_executors: tuple[tuple[int, float | None], ...]
    """Pairs of executors and seconds to copy and verify, the slowest partition included; None if it never ends."""
    advised_executors: int
    """The fewest executors with which it takes one night, or beyond which more would help little."""


def estimate_migration(topics: Iterable[TopicInventory], max_rate: float | None) -> Estimate:
    """Return the estimate for these topics; `max_rate` is the job's limit in MB/s."""
    topics = list(topics)
    sizes = [topic.size for topic in topics]
    size = None if None in sizes else sum(topic_size or 0 for topic_size in sizes)
    rate = sum(topic.bytes_a_second or 0.0 for topic in topics)
    partitions = [partition for topic in topics for partition in topic.partitions]
    largest = max((partition.size or 0 for partition in partitions), default=0)
    cpu = (size or 0) / _GB * (COPY_CPU_SECONDS_PER_GB + 2 * VERIFY_CPU_SECONDS_PER_GB)
    max_executors = max(1, -(-len(partitions) // CORES_PER_EXECUTOR))
    counts = [count for count in _EXECUTOR_COUNTS if count <= max_executors] or [1]
    times = tuple((count, _seconds(size or 0, rate, largest, count, max_rate)) for count in counts)
    advised = next(
        (count for count, seconds in times if seconds is not None and seconds <= _ONE_NIGHT),
        next((count for count, seconds in reversed(times) if seconds is not None), counts[-1]),
    )
    return Estimate(
        size=size,
        rate=rate,
        partitions=len(partitions),
        cpu_seconds=cpu,
        seconds_by_executors=times,
        advised_executors=advised,
    )


def _seconds(size: float, rate: float, largest: float, executors: int, max_rate: float | None) -> float | None:
    """Return the time to copy and verify the existing records, and those that are written meanwhile."""
    cost = COPY_CPU_SECONDS_PER_GB + 2 * VERIFY_CPU_SECONDS_PER_GB
    speed = executors * CORES_PER_EXECUTOR / cost * _GB
    if max_rate is not None:
        speed = min(speed, max_rate * 1e6)
    if speed <= rate:
        return None
    # One partition is copied by one task at a time.
    return max(size / (speed - rate), largest / _GB * COPY_CPU_SECONDS_PER_GB)


def copy_seconds(topic: TopicInventory, estimate: Estimate) -> float | None:
    """Return how many seconds pass until this topic is copied, if it is the last; None if not known."""
    seconds = dict(estimate.seconds_by_executors)[estimate.advised_executors]
    return None if topic.size is None else seconds
