"""Repartition topics of Kafka Streams. The application deletes from them what it has read (DeleteRecords, KIP-204), so
records may be gone before they are copied, and nobody misses them: the topic has no other readers.

Streams calls such a topic APPLICATION-NAME-repartition, and lets nothing else delete from it: its retention.ms is -1.
"""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.group_offsets import GroupOffsetsClient

_SUFFIX = "-repartition"


def is_repartition(topic: str, settings: Mapping[str, str | None]) -> bool:
    """By its name and its effective settings (pure)."""
    policy, retention = settings.get("cleanup.policy"), settings.get("retention.ms")
    return topic.endswith(_SUFFIX) and policy == "delete" and retention == "-1"


class StreamsApplications:
    """Those of the cluster behind these bootstrap servers. Their groups have their names."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def have_committed(self, topic: str, partition: int, upto: int) -> bool:
        """Whether the topic's application has committed this offset or a later one. If several groups may be meant by
        its name, each that reads it must have. Raises UpstreamError."""
        with Admin(self._bootstrap) as admin:
            groups = GroupOffsetsClient(admin).read(lambda name: topic.startswith(f"{name}-"))
        there = [group.positions.get((topic, partition)) for group in groups]
        read = [one.offset for one in there if one is not None]
        return bool(read) and all(offset >= upto for offset in read) and not any(group.unreadable for group in groups)
