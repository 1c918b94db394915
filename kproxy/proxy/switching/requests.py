"""The requests that kproxy reads of a client that was connected during a switch, and its own responses. Pure.

Requests are whole frames, from their size field on, in the versions up to those of `caps`. Each function raises
Underflow or WireError if a frame is malformed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import Any

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import encode_response, read_request
from kproxy.protocol.wire.primitives import INT16, INT32, Buffer
from kproxy.proxy.switching.positions import Partition, Position


@dataclass(frozen=True, slots=True)
class PositionsRequest:
    """A request with positions: OffsetCommit, or OffsetForLeaderEpoch, whose offsets are all 0 here."""

    version: int
    correlation_id: int
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A Fetch request."""

    version: int
    correlation_id: int
    max_wait: int
    in_session: bool
    """The request continues a fetch session (KIP-227)."""
    positions: tuple[Position, ...]
    """The positions in the request; outside of a fetch session, all positions of the client."""
    forgotten: tuple[Partition, ...] = ()
    """The partitions that leave the fetch session."""


def read_fetch(request: Buffer) -> FetchRequest:
    """Read a Fetch request of version 12 or older."""
    _, version, correlation_id, fields = read_request(request)
    positions = tuple(
        (topic["Topic"], partition["Partition"], partition["FetchOffset"])
        for topic in fields["Topics"]
        for partition in topic["Partitions"]
    )
    forgotten = tuple(
        (topic["Topic"], index) for topic in fields.get("ForgottenTopicsData", ()) for index in topic["Partitions"]
    )
    in_session = fields.get("SessionId", 0) != 0 and fields["SessionEpoch"] > 0
    return FetchRequest(version, correlation_id, fields["MaxWaitMs"], in_session, positions, forgotten)


def _fixed_size(version: int) -> int:
    """Return the size of the fields before the topics."""
    return 12 + 4 * (version >= 3) + (version >= 4) + 8 * (version >= 7)


def _partition_struct(version: int) -> Struct:
    """Return the struct of a partition: its number and position."""
    parts = ("i", "4x" * (version >= 9), "q", "4x" * (version >= 12), "8x" * (version >= 5), "4x")
    return Struct(">" + "".join(parts) + "x" * (version >= _COMPACT))


_COMPACT, _SESSIONS = 12, 7  # the first versions of each
_SESSION = Struct(">ii").unpack_from
_FIXED = [_fixed_size(version) for version in range(_COMPACT + 1)]
_PARTITIONS = [_partition_struct(version) for version in range(_COMPACT + 1)]


def read_fetch_positions(request: Buffer) -> tuple[Sequence[Position], bool] | None:
    """Return `positions` and `in_session` of `read_fetch`, several times as fast.

    Each Fetch passes here. None if the request differs from what all clients usually send, or forgets partitions: then
    `read_fetch` must read it.
    """
    try:
        return _read_fetch_positions(request)
    except (IndexError, struct_error):
        return None


def _read_fetch_positions(request: Buffer) -> tuple[Sequence[Position], bool] | None:
    version = INT16.unpack_from(request, 6)[0]
    if version > _COMPACT:
        return None
    compact = version == _COMPACT
    at = 14 + max(0, INT16.unpack_from(request, 12)[0])
    if compact and request[at]:
        return None  # tagged fields
    at += compact + _FIXED[version]
    session, epoch = _SESSION(request, at - 8) if version >= _SESSIONS else (0, -1)
    unpack, size = _PARTITIONS[version].unpack_from, _PARTITIONS[version].size
    positions: list[Position] = []
    topics = request[at] - 1 if compact else INT32.unpack_from(request, at)[0]
    at += 1 if compact else 4
    if not 0 <= topics < _ONE_BYTE:
        return None
    for _ in range(topics):
        length = request[at] - 1 if compact else INT16.unpack_from(request, at)[0]
        at += 1 if compact else 2
        topic = bytes(request[at : at + length])
        at += length
        count = request[at] - 1 if compact else INT32.unpack_from(request, at)[0]
        at += 1 if compact else 4
        if not (0 <= length < _ONE_BYTE and 0 <= count < _ONE_BYTE):
            return None
        for _ in range(count):
            number, offset = unpack(request, at)
            at += size
            if compact and request[at - 1]:
                return None
            positions.append((topic, number, offset))
        if compact:
            if request[at]:
                return None
            at += 1
    if version >= _SESSIONS and (request[at] - 1 if compact else INT32.unpack_from(request, at)[0]):
        return None  # it forgets some
    return positions, session != 0 and epoch > 0


_ONE_BYTE = 0x7F
"""Lengths and counts that are less take one byte in a flexible version."""


def empty_fetch_response(fetch: FetchRequest, out_of_range: Position | None = None) -> bytes:
    """Return a response without new records, outside of any fetch session.

    `out_of_range`: the position that gets OFFSET_OUT_OF_RANGE.
    """
    if fetch.in_session:
        # In a fetch session a request names only what has changed. The client must begin another one, and then it
        # names everything.
        fields: dict[str, Any] = {"ErrorCode": ErrorCode.FETCH_SESSION_ID_NOT_FOUND}
    else:
        unknown = dict.fromkeys(("HighWatermark", "LastStableOffset", "LogStartOffset", "PreferredReadReplica"), -1)
        partitions = [
            {"ErrorCode": ErrorCode.OFFSET_OUT_OF_RANGE if position == out_of_range else ErrorCode.NONE, **unknown}
            for position in fetch.positions
        ]
        fields = {"Responses": _by_topic(fetch.positions, partitions, "Topic", "PartitionIndex")}
    return encode_response(ApiKey.FETCH, fetch.version, fetch.correlation_id, fields)


def read_commit(request: Buffer) -> PositionsRequest:
    """Read an OffsetCommit request of version 9 or older."""
    _, version, correlation_id, fields = read_request(request)
    positions = (
        (topic["Name"], partition["PartitionIndex"], partition["CommittedOffset"])
        for topic in fields["Topics"]
        for partition in topic["Partitions"]
    )
    return PositionsRequest(version, correlation_id, tuple(positions))


def commit_refusal(commit: PositionsRequest, *, keeps_positions: bool = False) -> bytes:
    """Return a response that refuses a commit, because the client is no member of the group.

    `keeps_positions`: at that error the client would join again and keep its partitions and positions, as franz-go does
    in a cooperative group. So it gets REBALANCE_IN_PROGRESS, and learns from its next heartbeat that it is no member.
    """
    error = ErrorCode.REBALANCE_IN_PROGRESS if keeps_positions else ErrorCode.UNKNOWN_MEMBER_ID
    topics = _by_topic(commit.positions, {"ErrorCode": error}, "Name", "PartitionIndex")
    return encode_response(ApiKey.OFFSET_COMMIT, commit.version, commit.correlation_id, {"Topics": topics})


def deletion_refusal(request: Buffer) -> bytes:
    """Return a response to a DeleteRecords request of any version: its offsets are out of range."""
    key, version, correlation_id, fields = read_request(request)
    result = {"LowWatermark": -1, "ErrorCode": ErrorCode.OFFSET_OUT_OF_RANGE}
    topics = [
        {**topic, "Partitions": [{**partition, **result} for partition in topic["Partitions"]]}
        for topic in fields["Topics"]
    ]
    return encode_response(key, version, correlation_id, {"Topics": topics})


def read_epochs(request: Buffer) -> PositionsRequest:
    """Read an OffsetForLeaderEpoch request of any version."""
    _, version, correlation_id, fields = read_request(request)
    positions = (
        (topic["Topic"], partition["Partition"], 0) for topic in fields["Topics"] for partition in topic["Partitions"]
    )
    return PositionsRequest(version, correlation_id, tuple(positions))


def epochs_refusal(epochs: PositionsRequest, *, for_good: bool = False) -> bytes:
    """Return a response that the broker does not lead the partitions.

    The client asks again later, and fetches nothing before. `for_good`: the broker has nothing of these epochs, so the
    client's position is out of range.
    """
    error = ErrorCode.NONE if for_good else ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition = {"ErrorCode": error, "LeaderEpoch": -1, "EndOffset": -1}
    topics = _by_topic(epochs.positions, partition, "Topic", "Partition")
    return encode_response(ApiKey.OFFSET_FOR_LEADER_EPOCH, epochs.version, epochs.correlation_id, {"Topics": topics})


def _by_topic(
    positions: Sequence[Position], partition: dict[str, Any] | Sequence[dict[str, Any]], name: str, index: str
) -> list[dict[str, Any]]:
    """Return the topics of a response with these fields for all partitions, or for each."""
    topics: dict[bytes, list[dict[str, Any]]] = {}
    for at, (topic, number, _) in enumerate(positions):
        fields = partition if isinstance(partition, dict) else partition[at]
        topics.setdefault(topic, []).append({index: number, **fields})
    return [{name: topic, "Partitions": partitions} for topic, partitions in topics.items()]
