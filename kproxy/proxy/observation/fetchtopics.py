"""The topics in Fetch and ShareFetch requests. Pure; the layout of Fetch is that of Kafka's FetchRequest.json."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import INT32, Buffer, Underflow, read_size, read_string, skip_tags
from kproxy.proxy.access.names import body_at, decode_request
from kproxy.proxy.observation.record import Topic

BY_ID = 13
"""The first version whose topics have ids in place of names (KIP-516)."""
_SESSIONS = 7


def read_fetch_topics(frame: Buffer, version: int) -> tuple[Sequence[Topic], bool]:
    """Return the topics in a whole request, and whether it lists all topics of the client and begins no fetch session.

    In a fetch session (KIP-227), a request names only what has changed. Raises Underflow and WireError.
    """
    compact, end = ApiKey.FETCH.is_flexible(version), len(frame)
    width = 0 if compact else 4
    at = body_at(frame, ApiKey.FETCH, version)
    # ReplicaId until version 14, MaxWaitMs, MinBytes, MaxBytes, IsolationLevel, SessionId and SessionEpoch
    at += 8 + 4 * (version < 15) + 4 * (version >= 3) + (version >= 4) + 8 * (version >= _SESSIONS)
    epoch = _int32(frame, at - 4, end) if version >= _SESSIONS else -1
    # Partition, CurrentLeaderEpoch, FetchOffset, LastFetchedEpoch, LogStartOffset, PartitionMaxBytes
    partition_size = 16 + 4 * (version >= 9) + 4 * (version >= 12) + 8 * (version >= 5)
    topics: list[Topic] = []
    count, at = read_size(frame, at, end, width, False)
    for _ in range(count):
        if version >= BY_ID:
            topics.append(Topic("", bytes(frame[at : at + 16])))
            at += 16
        else:
            name, at = read_string(frame, at, end, compact=compact, nullable=False)
            topics.append(Topic((name or b"").decode("utf-8", "replace")))
        partitions, at = read_size(frame, at, end, width, False)
        if compact:
            for _ in range(partitions):
                at += partition_size
                at = at + 1 if at < end and not frame[at] else skip_tags(frame, at, end)
            at = skip_tags(frame, at, end)
        else:
            at += partitions * partition_size
        if at > end:
            raise Underflow
    return topics, epoch == -1


def _int32(frame: Buffer, at: int, end: int) -> int:
    if end - at < 4:
        raise Underflow
    return int(INT32.unpack_from(frame, at)[0])


def read_share_fetch_topics(frame: Buffer) -> Sequence[Topic]:
    """Return the topics in a whole ShareFetch request, which have ids. Raises Underflow and WireError."""
    return [Topic("", topic["TopicId"]) for topic in decode_request(frame).fields["Topics"] or ()]
