"""The check of the end of each partition of the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence

from kproxy.migrate.clusters.topic_identities import MigratedTopic
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.verify.comparison import PartitionComparison, uncopied_partition
from kproxy.migrate.verify.trailing_records import CopiedEnd, LogOffsets, find_unknown_records, list_log_offsets

TopicPartition = tuple[str, int]

# How long a leader may be missing, in seconds.
_TIMEOUT = 30.0
_NO_OFFSETS = (
    "the target returned no offsets of this partition, so the records after the last copied one are unknown: does it"
    " have a leader, and may this principal describe it?"
)


class TailCheck:
    """Checks the target's partitions after the last copied record.

    `clients_write`: whether clients may write to the target now, so that these records cannot be judged.
    `read_copied_ends` reads the current copied ends from the state topic; None: as when the verification began.
    """

    def __init__(
        self,
        target: str,
        clients_write: Callable[[], bool],
        read_copied_ends: Callable[[], Mapping[TopicPartition, CopiedEnd]] | None,
        show_bytes: bool,
    ) -> None:
        self._target, self._clients_write = target, clients_write
        self._read_copied_ends, self._show_bytes = read_copied_ends, show_bytes

    def check(
        self, comparisons: MutableMapping[TopicPartition, PartitionComparison], topics: Sequence[MigratedTopic]
    ) -> None:
        """Check the records after the copied ones, and partitions to which nothing was copied.

        Adds partitions with unknown records to `comparisons`.
        """
        names = {comparison.target_topic for comparison in topics}
        by_target_partition = {
            (comparison.copied.target_topic, comparison.copied.partition): comparison
            for comparison in comparisons.values()
        }
        checked = {
            target_partition: comparison
            for target_partition, comparison in by_target_partition.items()
            if target_partition[0] in names
        }
        with ClusterClient(self._target) as cluster:
            metadata = retry(cluster, lambda: cluster.refresh_metadata(sorted(names)), _TIMEOUT)
            topics_by_partition = {
                (comparison.target_topic, partition_metadata.index): comparison
                for comparison in topics
                for partition_metadata in metadata.topics.get(comparison.target_topic, (0, ()))[1]
            }
            ends = retry(
                cluster, lambda: list_log_offsets(cluster, topics_by_partition.keys() | checked.keys()), _TIMEOUT
            )
            read_copied_ends = self._read_copied_ends or (
                lambda: {
                    target_partition: CopiedEnd(comparison.copied.target_next)
                    for target_partition, comparison in checked.items()
                }
            )
            if not self._clients_write():
                unknown_records = find_unknown_records(cluster, ends, read_copied_ends, show_bytes=self._show_bytes)
                # Otherwise clients that were routed there just now may have written them.
                if not unknown_records or not self._clients_write():
                    for target_partition, unknown in unknown_records.items():
                        if target_partition not in checked:
                            checked[target_partition] = uncopied_partition(
                                topics_by_partition[target_partition], target_partition[1], ""
                            )
                            comparisons[checked[target_partition].where] = checked[target_partition]
                        checked[target_partition].add_unknown(unknown)
                    _count_undecided(checked, ends)
                    for target_partition in checked.keys() - ends.keys():
                        checked[target_partition].add_unknown(_NO_OFFSETS)
                    return
            _count_client_offsets(checked, ends, read_copied_ends())


def _count_undecided(
    comparisons: Mapping[TopicPartition, PartitionComparison], ends: Mapping[TopicPartition, LogOffsets]
) -> None:
    for target_partition, comparison in comparisons.items():
        if target_partition in ends:
            comparison.undecided_offsets = ends[target_partition].high - ends[target_partition].stable


def _count_client_offsets(
    comparisons: Mapping[TopicPartition, PartitionComparison],
    ends: Mapping[TopicPartition, LogOffsets],
    copied_ends: Mapping[TopicPartition, CopiedEnd],
) -> None:
    for target_partition, comparison in comparisons.items():
        if target_partition in ends and target_partition in copied_ends:
            marker = 1 if copied_ends[target_partition].has_marker else 0
            comparison.client_offsets = max(
                0, ends[target_partition].high - copied_ends[target_partition].upto - marker
            )
