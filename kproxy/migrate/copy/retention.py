"""The forecast when the source deletes records that are not copied yet, by the retention time of its topics.

A broker deletes a segment when its newest record is older than `retention.ms`. ListOffsets with a timestamp tells which
records will be that old at a moment to come: so whether the copy reaches them before is known hours ahead, long before
the source has deleted anything. A segment may stay for longer, so this is the earliest moment. Retention by size
(`retention.bytes`) is seen only by what the source deletes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import TopicPartition

DueOffsets = tuple[tuple[float, int], ...]
"""Moments (time.monotonic), and the offset before which records may be deleted by then, in order."""

_HOURS = (1, 2, 4, 8, 16, 24)
# Between two questions of all partitions, in seconds.
_INTERVAL = 300.0


class RetentionWatch:
    """Asks the source for the offsets that retention reaches."""

    def __init__(self, retention_ms: Mapping[str, int]) -> None:
        """`retention_ms`: by topic, of topics that are deleted by time."""
        self._retention_ms = retention_ms
        self._next = 0.0

    def read_if_due(
        self, source: ClusterClient, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, DueOffsets] | None:
        """Return what retention reaches when, by partition; None if it was asked some minutes ago.

        `ends` are the ends of the logs. A partition without an answer is left out. Raises UpstreamError.
        """
        now = time.monotonic()
        if now < self._next or not self._retention_ms:
            return None
        self._next = now + _INTERVAL
        wall_ms = time.time_ns() // 1_000_000
        due: dict[TopicPartition, DueOffsets] = {}
        for retention, topics in self._topics_by_retention().items():
            places = [place for place in ends if place[0] in topics]
            for hours in _HOURS:
                timestamp = wall_ms - retention + hours * 3_600_000
                if timestamp < 0:
                    continue
                for place, offset in source.list_offsets(places, timestamp).items():
                    # No record is newer: all of them may be deleted by then.
                    reached = ends[place] if offset < 0 else min(offset, ends[place])
                    due[place] = (*due.get(place, ()), (now + hours * 3600.0, reached))
        return due

    def _topics_by_retention(self) -> dict[int, set[str]]:
        topics: dict[int, set[str]] = {}
        for topic, retention in self._retention_ms.items():
            topics.setdefault(retention, set()).add(topic)
        return topics


def retention_of(configs: Mapping[str, str | None]) -> int | None:
    """Return the retention time of a topic with these configurations, in milliseconds; None without one (pure)."""
    text = configs.get("retention.ms") or ""
    if "delete" not in (configs.get("cleanup.policy") or "") or not text.isdigit():
        return None
    return int(text)


def seconds_until_due(due: DueOffsets, position: int, rate: float, now: float) -> float | None:
    """Return after how many seconds retention reaches the copy; None if it does not in the time of `due` (pure).

    `position` is the copied offset now, and `rate` the offsets that are copied in a second. Between two moments of
    `due`, its offsets grow evenly.
    """
    before: tuple[float, float] | None = None
    for at, offset in due:
        lead = position + rate * max(0.0, at - now) - offset
        if lead < 0:
            if before is None or before[1] <= 0:
                return max(0.0, at - now)
            since, former_lead = before
            return max(0.0, since + (at - since) * former_lead / (former_lead - lead) - now)
        before = at, lead
    return None
