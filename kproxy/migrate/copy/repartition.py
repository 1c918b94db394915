"""Repartition topics of Kafka Streams.

The application deletes the records that it has read from them (DeleteRecords, KIP-204). So records may be deleted
before they are copied, which is harmless: these topics have no other readers. Streams calls such a topic
APPLICATION-NAME-repartition, and sets its retention.ms to -1, so nothing else deletes from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.group_offsets import GroupOffsetsClient

_SUFFIX = "-repartition"


def is_repartition(topic: str, settings: Mapping[str, str | None]) -> bool:
    """Return True if name and effective settings of a topic are those of a repartition topic (pure)."""
    policy, retention = settings.get("cleanup.policy"), settings.get("retention.ms")
    return topic.endswith(_SUFFIX) and policy == "delete" and retention == "-1"


class StreamsApplications:
    """The Kafka Streams applications of one cluster; their groups have their names."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def have_committed(self, topic: str, partition: int, end: int) -> bool:
        """Return True if the topic's application has committed `end` or a later offset.

        If several groups match the topic's name, each group that reads the topic must have.
        """
        with Admin(self._bootstrap) as admin:
            groups = GroupOffsetsClient(admin).read(lambda name: topic.startswith(f"{name}-"))
        offsets = [group.positions.get((topic, partition)) for group in groups]
        committed = [committed_offset.offset for committed_offset in offsets if committed_offset is not None]
        return (
            bool(committed)
            and all(committed_offset >= end for committed_offset in committed)
            and not any(group.unreadable for group in groups)
        )
