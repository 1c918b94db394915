"""The responses that kproxy reads for a client that was connected during a switch, and its changes to some. Pure.

Responses are whole frames, from their size field on. Each function raises Underflow or WireError if a frame is
malformed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import response_reader
from kproxy.protocol.wire.primitives import INT16, INT32, Buffer, Underflow, skip_tags
from kproxy.proxy.switching.positions import Position

MAX_TOPICS = 100_000
"""Topics whose metadata a client has got without an epoch; no more are remembered."""
# Errors of a batch after which no client sends it again: it is there already (46), its topic's name, its size or a
# record is wrong, the client may not write, or its transaction has to be aborted.
_FINAL = frozenset({
    ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_RECORD, ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE,
})  # fmt: skip


# Where a response starts behind its size and correlation id.
_BODY = 8
# The names of a topic, its partition and an offset. The offset is -1 if there is none, or an error.
_POSITION_FIELDS: Mapping[int, tuple[str, str, str]] = {
    ApiKey.OFFSET_FETCH: ("Name", "PartitionIndex", "CommittedOffset"),
    ApiKey.LIST_OFFSETS: ("Name", "PartitionIndex", "Offset"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("Topic", "Partition", "EndOffset"),
}
# Heartbeats that have no definition here: throttle time, error code, …
_HEARTBEATS = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT)


def read_offsets(response: Buffer, key: int, version: int) -> list[Position]:
    """Return the positions in a response to OffsetFetch, ListOffsets or OffsetForLeaderEpoch; offset -1 means none."""
    name, index, offset = _POSITION_FIELDS[key]
    fields = response_reader(key, version).read(response, _BODY)
    positions: list[Position] = []
    for group in fields.get("Groups", [fields]):
        for topic in group["Topics"]:
            for partition in topic["Partitions"]:
                offsets = partition.get("OldStyleOffsets") or [partition.get(offset, -1)]
                positions += ((topic[name], partition[index], offset) for offset in offsets)
    return positions


def has_retriable_error(response: Buffer, version: int) -> bool:
    """Return True if a Produce response has an error at which a client may send a batch again.

    The response has version 12 or older.
    """
    fields = response_reader(ApiKey.PRODUCE, version).read(response, _BODY)
    return any(
        partition["ErrorCode"] not in _FINAL
        for topic in fields["Responses"]
        for partition in topic["PartitionResponses"]
    )


def replace_errors(response: Buffer, key: int, version: int, substitutes: Mapping[int, int]) -> Buffer:
    """Return a response with other error codes: those of `substitutes` in place of its keys."""
    changed: bytearray | None = None
    for at in _error_indexes(response, key, version):
        (code,) = INT16.unpack_from(response, at)
        if code in substitutes:
            changed = bytearray(response) if changed is None else changed
            INT16.pack_into(changed, at, substitutes[code])
    return response if changed is None else changed


def _error_indexes(response: Buffer, key: int, version: int) -> Sequence[int]:
    if key in _HEARTBEATS:
        at = skip_tags(response, _BODY, len(response)) + 4
        if at + 2 > len(response):
            raise Underflow
        return [at]
    reader = response_reader(key, version, "ErrorCode", "PartitionErrorCode")
    reader.read(response, _BODY)
    return reader.indexes


def replace_unknown_group(response: Buffer, key: int, version: int) -> Buffer:
    """Replace GROUP_ID_NOT_FOUND by UNKNOWN_MEMBER_ID in a response to OffsetCommit or a heartbeat (KIP-848).

    The member's group exists in the former cluster only. At GROUP_ID_NOT_FOUND such a client gives up; at
    UNKNOWN_MEMBER_ID it joins the group again.
    """
    return replace_errors(response, key, version, {ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.UNKNOWN_MEMBER_ID})


def replace_success_by_unknown_member(response: Buffer, key: int, version: int) -> Buffer:
    """Replace success, and a group that is not found, by UNKNOWN_MEMBER_ID in a response to a heartbeat.

    The client joins the group again, and asks for its positions. Other errors stay.
    """
    replaced = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
    return replace_errors(response, key, version, dict.fromkeys(replaced, ErrorCode.UNKNOWN_MEMBER_ID))


def remove_leader_epochs(response: Buffer, version: int, shown: set[bytes]) -> Buffer:
    """Set the leader epochs to -1 in a Metadata response, for topics that are not in `shown`; add them to it.

    librdkafka takes no leader whose epoch is lower than one that it knows, not even of a topic with another id
    (librdkafka #4898). Since 2.8 it takes one without an epoch, and any after that.
    """
    if version < 7:
        return response
    fields, changed = (
        response_reader(ApiKey.METADATA, version, "LeaderEpoch").read(response, _BODY),
        bytearray(response),
    )
    for topic in fields["Topics"]:
        name = topic["Name"] or b""
        if name in shown:
            continue
        if topic["Partitions"] and len(shown) < MAX_TOPICS:
            shown.add(name)
        for partition in topic["Partitions"]:
            INT32.pack_into(changed, partition["LeaderEpoch"], -1)
    return changed
