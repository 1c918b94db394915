"""How high a version clients may use in a cluster that can be switched. Pure.

In later versions requests name topics by ids (KIP-516), which differ in each cluster: a client that has the ids of the
former cluster is refused with UNKNOWN_TOPIC_ID until it has asked for metadata, and with several Produce requests under
way a later one may be accepted before the first. Up to these versions the same requests have names. What has ids in
each of its versions (ConsumerGroupHeartbeat, ShareFetch) gets them from the broker it then speaks to, as the member
joins again; and Metadata keeps its ids, by which clients notice that a topic is another one.

franz-go is offered less than that. It takes a topic that has another id for one that was made anew, and gives it up
until it is purged, or its client is started again. So it must never learn an id: its Metadata has none (version 9), and
it has no API of which each version has ids. Without ConsumerGroupHeartbeat it joins groups with the classic protocol by
itself. Nor may it learn a leader's epoch, since it takes no lower one for long: it has none without
OffsetForLeaderEpoch, and with Produce up to 9, whose responses do not name the leader. This is about what it is
offered: one that knows more from before is not refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NEWEST_WITH_TOPIC_NAMES: Mapping[int, int] = MappingProxyType(
    {
        0: 12,  # Produce
        1: 12,  # Fetch
        8: 9,  # OffsetCommit
        9: 9,  # OffsetFetch
    }
)
"""API key → the newest version whose requests name topics by names."""

CAPS: Mapping[int, int] = MappingProxyType({**NEWEST_WITH_TOPIC_NAMES, 26: 4})
"""API key → the newest version that clients may use. With EndTxn 4 there is no transaction.version 2 (KIP-890), in
which a producer cannot go on after an abort without a producer id that the broker gives it: see `transactions`."""

_PRODUCE, _WITHOUT_LEADERS = 0, 9
_METADATA, _WITHOUT_IDS = 3, 9
_OFFSET_FOR_LEADER_EPOCH = 23
_ONLY_IDS = (68, 76, 77, 78, 79)  # ConsumerGroupHeartbeat, and what share groups have
OFFERED_TO_FRANZ_GO: Mapping[int, int] = MappingProxyType(
    {
        **CAPS,
        _PRODUCE: _WITHOUT_LEADERS,
        _METADATA: _WITHOUT_IDS,
        **dict.fromkeys((_OFFSET_FOR_LEADER_EPOCH, *_ONLY_IDS), -1),
    }
)
"""API key → the newest version that franz-go is told of, -1 for none."""


def is_franz_go(software: str) -> bool:
    """Whether a client is franz-go, as it calls itself in ApiVersions."""
    return software.partition(" ")[0] == "kgo"


def is_librdkafka(software: str) -> bool:
    """Whether a client is librdkafka or a library over it, as it calls itself in ApiVersions."""
    return "rdkafka" in software


def is_kafka_python(software: str) -> bool:
    """Whether a client is kafka-python, as it calls itself in ApiVersions."""
    return software.partition(" ")[0] == "kafka-python"


def offered_versions(software: str, highest: Mapping[int, int]) -> Mapping[int, int]:
    """What a client of this software is told of in ApiVersions, where others are told of `highest`."""
    return OFFERED_TO_FRANZ_GO if is_franz_go(software) else highest
