"""Records on the target after the last copied record, and in partitions to which nothing was copied.

Transaction markers, aborted attempts of the copy, and records that were copied meanwhile are expected there. All other
records come from other producers.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from kproxy.base.errors import KproxyError, UpstreamError, WireError
from kproxy.migrate.clusters.topic_identities import MigratedTopic
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.offsets.log_ranges import count_in_range, fetch_batches
from kproxy.migrate.verify.comparison import PartitionComparison, UnknownRecords, uncopied_partition
from kproxy.migrate.verify.differences import BytesDigest, RecordDigest
from kproxy.migrate.verify.hashing import HASH_DIGITS, HEAD_SIZE
from kproxy.protocol.records.decoding import decode_records
from kproxy.protocol.records.header import Batch

# Maximum number of records that are counted in a partition.
MAX_COUNTED = 100_000
# How long the state of a committed transaction may be invisible, and how often it is checked, in seconds: its markers
# come to one partition after the other.
_SETTLE_TIMEOUT, _POLL_INTERVAL = 5.0, 0.5
# How long a leader may be missing, in seconds.
_TIMEOUT = 30.0
_NO_OFFSETS = (
    "the target returned no offsets of this partition, so the records after the last copied one are unknown: does it"
    " have a leader, and may this principal describe it?"
)


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """The first offset, last stable offset and high watermark of a target partition."""

    begin: int
    stable: int
    high: int


@dataclass(frozen=True, slots=True)
class CopiedEnd:
    """The end of the copied records in a target partition."""

    upto: int
    """Offset after the last copied record."""
    has_marker: bool = False
    """True if the transaction marker of the copy follows that record."""

    @classmethod
    def of(cls, state: PartitionState) -> CopiedEnd:
        """Return the end of a state. A state that a switch wrote, and not a copy, has no marker."""
        runs = state.map
        return cls(state.target_next, bool(runs) and runs.targets[-1] + runs.counts[-1] == state.target_next)


def list_log_offsets(cluster: ClusterClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogOffsets]:
    """Return the offsets of these partitions, without those whose leader returns none for half a minute."""
    wanted, until = set(partitions), time.monotonic() + _TIMEOUT
    stable = cluster.list_offsets_until(wanted, requests.LATEST, until)
    high = cluster.list_offsets_until(stable, requests.LATEST, until, committed=False)
    begin = cluster.list_offsets_until(high, requests.EARLIEST, until)
    if wanted and not begin:
        raise UpstreamError("other", "no broker of the target returned offsets")
    return {
        partition: LogOffsets(first, stable[partition], max(stable[partition], high[partition]))
        for partition, first in begin.items()
    }


def find_unknown_records(
    cluster: ClusterClient,
    ends: Mapping[TopicPartition, LogOffsets],
    read_copied_ends: Callable[[], Mapping[TopicPartition, CopiedEnd]],
    *,
    show_bytes: bool = False,
) -> dict[TopicPartition, UnknownRecords | str]:
    """Return the unknown records before `ends`, by target partition; a text for one that could not be read.

    `read_copied_ends` reads the current copied ends from the state topic.
    """
    suspects = set(ends)
    deadline = time.monotonic() + _SETTLE_TIMEOUT
    while True:
        # After the ends: the state topic has, or soon has, what the copy wrote before them.
        copied_ends = read_copied_ends()
        results = {
            topic_partition: _find_in_partition(
                cluster, topic_partition, ends[topic_partition], copied_ends.get(topic_partition), show_bytes
            )
            for topic_partition in sorted(suspects)
        }
        unknown = {topic_partition: result for topic_partition, result in results.items() if result is not None}
        suspects = set(unknown)
        if not suspects or time.monotonic() >= deadline:
            return unknown
        time.sleep(_POLL_INTERVAL)


def _find_in_partition(
    cluster: ClusterClient,
    topic_partition: TopicPartition,
    ends: LogOffsets,
    copied_end: CopiedEnd | None,
    show_bytes: bool,
) -> UnknownRecords | str | None:
    first = ends.begin if copied_end is None else max(ends.begin, copied_end.upto)
    if copied_end is not None and copied_end.has_marker and ends.stable <= copied_end.upto + 1:
        return None  # only the marker follows
    try:
        return retry(cluster, lambda: _read_unknown(cluster, topic_partition, first, ends.stable, show_bytes), _TIMEOUT)
    except KproxyError as error:
        return f"the records after the last copied record on the target could not be read: {error}"


def _read_unknown(
    cluster: ClusterClient, where: TopicPartition, first: int, last: int, show_bytes: bool
) -> UnknownRecords | None:
    count, first_record, writer = 0, None, ""
    for batch, aborted in fetch_batches(cluster, *where, first, last, complete=True):
        if aborted:
            continue
        if first_record is None:
            first_record, writer = _first_record(batch, first, show_bytes), _writer_text(batch)
        count += count_in_range(batch, first, last)
        if count >= MAX_COUNTED:
            break
    return None if first_record is None else UnknownRecords(count, first_record, writer)


def _first_record(batch: Batch, first: int, show_bytes: bool) -> RecordDigest:
    """Return the first record of a batch at or after an offset."""
    try:
        record = next(record for record in decode_records(batch) if record.offset >= first)
    except (WireError, StopIteration):  # a damaged batch, or one whose last records compaction has removed
        return RecordDigest(max(first, batch.base_offset), batch.base_timestamp * 1000, None, None)
    headers = tuple((name.decode(errors="replace"), _digest(value, show_bytes)) for name, value in record.headers)
    key, value = _digest(record.key, show_bytes), _digest(record.value, show_bytes)
    return RecordDigest(record.offset, record.timestamp * 1000, key, value, headers)


def _digest(data: bytes | None, show_bytes: bool) -> BytesDigest | None:
    if data is None:
        return None
    return BytesDigest(
        len(data), hashlib.sha256(data).hexdigest()[:HASH_DIGITS], data[:HEAD_SIZE] if show_bytes else None
    )


def _writer_text(batch: Batch) -> str:
    if batch.producer_id < 0:
        return "by a producer that is not idempotent"
    kind = "in a transaction of producer id" if batch.is_transactional else "by producer id"
    return f"{kind} {batch.producer_id}, epoch {batch.producer_epoch}"


def check_tails(
    target: str,
    comparisons: MutableMapping[TopicPartition, PartitionComparison],
    topics: Sequence[MigratedTopic],
    *,
    clients_write: Callable[[], bool],
    read_copied_ends: Callable[[], Mapping[TopicPartition, CopiedEnd]],
    show_bytes: bool,
) -> None:
    """Check the records of the target after the copied ones, and partitions to which nothing was copied.

    Adds partitions with unknown records to `comparisons`. `clients_write`: whether clients may write to the target now,
    so that these records cannot be judged. `read_copied_ends` reads the current copied ends from the state topic.
    """
    names = {topic.target_topic for topic in topics}
    checked = {
        comparison.copied.target_where: comparison
        for comparison in comparisons.values()
        if comparison.copied.target_topic in names
    }
    with ClusterClient(target) as cluster:
        metadata = retry(cluster, lambda: cluster.refresh_metadata(sorted(names)), _TIMEOUT)
        topics_by_partition = {
            (topic.target_topic, partition_metadata.index): topic
            for topic in topics
            for partition_metadata in metadata.topics.get(topic.target_topic, (0, ()))[1]
        }
        ends = retry(cluster, lambda: list_log_offsets(cluster, topics_by_partition.keys() | checked.keys()), _TIMEOUT)
        if not clients_write():
            unknown_records = find_unknown_records(cluster, ends, read_copied_ends, show_bytes=show_bytes)
            # Otherwise clients that were routed there just now may have written them.
            if not unknown_records or not clients_write():
                for place, unknown in unknown_records.items():
                    if place not in checked:
                        checked[place] = uncopied_partition(topics_by_partition[place], place[1], "")
                        comparisons[checked[place].where] = checked[place]
                    checked[place].add_unknown(unknown)
                for place, comparison in checked.items():
                    if place in ends:
                        comparison.result.undecided_offsets = ends[place].high - ends[place].stable
                    else:
                        comparison.add_unknown(_NO_OFFSETS)
                return
        copied_ends = read_copied_ends()
        for place, comparison in checked.items():
            if place in ends and place in copied_ends:
                expected = copied_ends[place].upto + copied_ends[place].has_marker
                comparison.result.client_offsets = max(0, ends[place].high - expected)
