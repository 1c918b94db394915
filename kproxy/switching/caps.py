"""How high a version clients may use in a cluster that can be switched. Pure.

In later versions requests name topics by ids (KIP-516), which differ in each cluster: a client that has the ids of the
former cluster is refused with UNKNOWN_TOPIC_ID until it has asked for metadata, and with several Produce requests under
way a later one may be accepted before the first. Up to these versions the same requests have names. What has ids in
each of its versions (ConsumerGroupHeartbeat, ShareFetch) gets them from the broker it then speaks to, as the member
joins again; and Metadata keeps its ids, by which clients notice that a topic is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NAMED: Mapping[int, int] = MappingProxyType(
    {
        0: 12,  # Produce
        1: 12,  # Fetch
        8: 9,  # OffsetCommit
        9: 9,  # OffsetFetch
    }
)
"""API key → the newest version whose requests name topics by names."""

CAPS: Mapping[int, int] = MappingProxyType({**NAMED, 26: 4})
"""API key → the newest version that clients may use. With EndTxn 4 there is no transaction.version 2 (KIP-890), in
which a producer cannot go on after an abort without a producer id that the broker gives it: see `transactions`."""
