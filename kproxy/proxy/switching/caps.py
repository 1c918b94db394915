"""The newest API versions that clients may use in a cluster that can be switched. Pure.

In later versions requests name topics by ids (KIP-516), which differ in each cluster. A client with the ids of the
former cluster gets UNKNOWN_TOPIC_ID until it has refreshed its metadata, and of several Produce requests in flight, a
later one may be accepted before the first. Up to these versions the same requests have names. APIs that have ids in
each version (ConsumerGroupHeartbeat, ShareFetch) get them from the new broker, when the member joins again. Metadata
keeps its ids: by them clients notice that a topic is another one.

franz-go is offered less. It takes a topic with another id for a recreated one, and gives it up until the topic is
purged or the client restarted. So it must never learn an id: its Metadata has none (version 9), and it gets no API of
which each version has ids. Without ConsumerGroupHeartbeat it joins groups with the classic protocol by itself. It must
not learn a leader's epoch either, because it does not accept a lower one for long: it learns none without
OffsetForLeaderEpoch, and with Produce up to version 9, whose responses do not name the leader. These are the versions
that franz-go is offered: one that already knows newer ones is not refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.switching.clientsoftware import is_franz_go

NEWEST_WITH_TOPIC_NAMES: Mapping[int, int] = {
    ApiKey.PRODUCE: 12, ApiKey.FETCH: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9,
    ApiKey.TXN_OFFSET_COMMIT: 5,
}  # fmt: skip
"""API key → the newest version whose requests name topics by names."""

CAPS: Mapping[int, int] = {**NEWEST_WITH_TOPIC_NAMES, ApiKey.END_TXN: 4}
"""API key → the newest version that clients may use. With EndTxn 4 there is no transaction.version 2 (KIP-890), in
which a producer cannot continue after an abort without a producer id that the broker gives it: see `transactions`."""

OFFERED_TO_FRANZ_GO: Mapping[int, int] = {
    **CAPS,
    ApiKey.PRODUCE: 9,  # its responses name no leaders
    ApiKey.METADATA: 9,  # without topic ids
    ApiKey.OFFSET_FOR_LEADER_EPOCH: -1,
    # These have topic ids in each version.
    ApiKey.CONSUMER_GROUP_HEARTBEAT: -1, ApiKey.SHARE_GROUP_HEARTBEAT: -1, ApiKey.SHARE_GROUP_DESCRIBE: -1,
    ApiKey.SHARE_FETCH: -1, ApiKey.SHARE_ACKNOWLEDGE: -1,
}  # fmt: skip
"""API key → the newest version that franz-go is offered, -1 for none."""


def offered_versions(software: str, highest: Mapping[int, int]) -> Mapping[int, int]:
    """Return the newest versions to offer a client in ApiVersions, if others are offered `highest`."""
    return OFFERED_TO_FRANZ_GO if is_franz_go(software) else highest
