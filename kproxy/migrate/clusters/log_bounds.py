"""The first and last offsets of logs, and which topics are compacted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.topic_reader import TOPIC, PermissionAwareQueries
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import EARLIEST, LATEST, TopicPartition

_TIMEOUT, _RETRY_INTERVAL = 60.0, 0.2
# A coordinator replies to a commit before the transaction's markers are in all logs (KIP-98), and readers of committed
# records get the records only after the marker. How long kproxy waits for it, in seconds.
_MARKER_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The first offset of a log and its last stable offset, where readers of committed records stop."""

    begin: int
    end: int
    high: int = -1
    """The high watermark, if an open transaction hides committed records between `end` and it, else -1."""


def read_log_bounds(
    bootstrap: str, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int] | None = None
) -> dict[TopicPartition, LogBounds]:
    """Return the bounds of each partition.

    `committed`: by partition, the offset after a record whose transaction has been committed. If the log has the
    record, and its last stable offset is lower, kproxy waits 10 s for the transaction marker. A partition without an
    answer within a minute is left out. Raises UpstreamError if the cluster does not reply at all.
    """
    wanted = set(partitions)
    begins: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    highs: dict[TopicPartition, int] = {}
    began = time.monotonic()
    with ClusterClient(bootstrap) as cluster:
        while True:
            begins |= cluster.list_offsets(wanted - begins.keys(), EARLIEST)
            ends |= cluster.list_offsets(wanted - ends.keys() | highs.keys(), LATEST)
            behind = {partition: end for partition, end in (committed or {}).items() if ends.get(partition, end) < end}
            highs = cluster.list_offsets(behind, LATEST, committed=False) if behind else {}
            highs = {partition: high for partition, high in highs.items() if high >= behind[partition]}
            complete = begins.keys() & ends.keys()
            waited = time.monotonic() - began
            if waited > _TIMEOUT or (wanted <= complete and (not highs or waited > _MARKER_TIMEOUT)):
                return {
                    partition: LogBounds(begins[partition], ends[partition], highs.get(partition, -1))
                    for partition in wanted & complete
                }
            time.sleep(_RETRY_INTERVAL)
            if not wanted <= complete:
                cluster.invalidate()


def find_compacted_topics(bootstrap: str, topics: Iterable[str]) -> set[str]:
    """Return the topics from which compaction removes records.

    A topic that the principal may not describe counts as not compacted.
    """
    with Admin(bootstrap) as admin:
        configs = PermissionAwareQueries(admin).read_configs(TOPIC, sorted(set(topics)), keys=["cleanup.policy"])
    return {topic for topic, values in configs.items() if "compact" in values.get("cleanup.policy", ("", False))[0]}
