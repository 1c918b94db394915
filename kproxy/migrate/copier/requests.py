"""Encoding of the copier's requests, and decoding of their responses. Pure.

Every broker from 0.11 to 4.x supports the versions that are used: Fetch 4 to 11, Produce 3 to 8, Metadata 4 or 12,
ListOffsets 2, FindCoordinator 1, InitProducerId 0, AddPartitionsToTxn 0, EndTxn 0, ApiVersions 0. Source: Kafka's
message definitions, `clients/src/main/resources/common/message`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kproxy.protocol.wire.primitives import INT32, Buffer, Underflow, malformed, string, uvarint
from kproxy.protocol.wire.reader import ResponseReader

T = TypeVar("T")

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 22, 24, 26
# The Metadata version that is used if a broker supports it: with topic ids, flexible (KIP-482).
_FLEXIBLE_METADATA = 12
# The versions of each API that this module encodes and decodes.
VERSIONS: Mapping[int, range] = {
    PRODUCE: range(3, 9),
    FETCH: range(4, 12),
    LIST_OFFSETS: range(2, 3),
    METADATA: range(4, _FLEXIBLE_METADATA + 1, _FLEXIBLE_METADATA - 4),
    FIND_COORDINATOR: range(1, 2),
    API_VERSIONS: range(1),
    INIT_PRODUCER_ID: range(1),
    ADD_PARTITIONS: range(1),
    END_TXN: range(1),
}
# ListOffsets: the timestamps that mean the last and the first offset.
LATEST, EARLIEST = -1, -2


_PRODUCE_TOPIC = struct.Struct(
    ">ih"
)  # Produce response: number of topics, length of the first topic's name, which follows
_PRODUCE_PARTITION = struct.Struct(">iihq")  # number of partitions; index, error, base offset of the first


def parse_response(reader: Callable[..., T], *arguments: object) -> T:
    """Decode a response with `reader`. Raises WireError if the response is truncated."""
    try:
        return reader(*arguments)
    except Underflow:
        raise malformed("the broker's response is truncated") from None


def _text(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string(text.encode(), compact=False)


def _array(items: Sequence[bytes]) -> bytes:
    return INT32.pack(len(items)) + b"".join(items)


def read_versions(body: Buffer) -> dict[int, range]:
    """Decode an ApiVersions response: the supported versions by API key, empty if the broker returned an error."""
    reader = ResponseReader(body)
    if reader.int16():
        return {}
    ranges = reader.array(lambda: (reader.int16(), reader.int16(), reader.int16()))
    return {key: range(low, high + 1) for key, low, high in ranges}


# Metadata


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The leader of a partition: a node id, -1 if there is none. `error` is Kafka's error code."""

    error: int
    index: int
    leader: int


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """A Metadata response."""

    cluster_id: str
    brokers: Mapping[int, tuple[str, int]]
    """Host and port by node id."""
    topics: Mapping[str, tuple[int, tuple[PartitionMetadata, ...]]]
    """Error code and partitions by topic."""
    ids: Mapping[str, str]
    """Topic ids by topic. An id changes when the topic is recreated; "" before Kafka 2.8 (KIP-516)."""


def encode_metadata(version: int, topics: Sequence[str] | None) -> bytes:
    """Encode a request for these topics, or for all topics if None. It creates no topic."""
    if version < _FLEXIBLE_METADATA:
        names = b"\xff\xff\xff\xff" if topics is None else _array([_text(topic) for topic in topics])
        return names + b"\0"
    encoded = b"\0"
    if topics is not None:
        entries = [bytes(16) + string(topic.encode(), compact=True) + b"\0" for topic in topics]
        encoded = uvarint(len(entries) + 1) + b"".join(entries)
    return encoded + b"\0\0\0"  # create no topics, return no authorized operations, no tagged fields


def read_metadata(version: int, body: Buffer) -> ClusterMetadata:
    """Decode a Metadata response. Raises WireError and Underflow."""
    is_flexible = version >= _FLEXIBLE_METADATA
    reader = ResponseReader(body, compact=is_flexible)
    reader.tags()  # of the header
    reader.int32()  # throttle time

    def broker() -> tuple[int, tuple[str, int]]:
        node = reader.int32(), (reader.text(), reader.int32())
        reader.text()  # the rack
        reader.tags()
        return node

    def partition() -> PartitionMetadata:
        metadata = PartitionMetadata(reader.int16(), reader.int32(), reader.int32())
        if is_flexible:
            reader.int32()  # the leader's epoch
        for _ in range(3 if is_flexible else 2):  # replicas, in sync, offline
            reader.int32s()
        reader.tags()
        return metadata

    brokers = reader.array(broker)
    cluster_id = reader.text()
    reader.int32()  # the controller
    topics: dict[str, tuple[int, tuple[PartitionMetadata, ...]]] = {}
    ids: dict[str, str] = {}
    for _ in range(reader.count()):
        error, name = reader.int16(), reader.text()
        ids[name] = reader.uuid() if is_flexible else ""
        reader.boolean()
        topics[name] = error, reader.array(partition)
        if is_flexible:
            reader.int32()  # authorized operations
        reader.tags()
    return ClusterMetadata(cluster_id, dict(brokers), topics, ids)


# Offsets


def encode_list_offsets(partitions: Mapping[str, Sequence[int]], timestamp: int, *, committed: bool = True) -> bytes:
    """Encode a ListOffsets request.

    LATEST is the last stable offset, where read_committed consumers end. Without `committed` it is the high watermark,
    which is higher while a transaction is open.
    """
    topics = [
        _text(topic) + _array([struct.pack(">iq", index, timestamp) for index in indexes])
        for topic, indexes in partitions.items()
    ]
    return struct.pack(">ib", -1, committed) + _array(topics)


def read_list_offsets(body: Buffer) -> dict[tuple[str, int], tuple[int, int]]:
    """Decode a ListOffsets response: error code and offset by topic and partition."""
    reader = ResponseReader(body)
    reader.int32()
    offsets = {}
    for _ in range(reader.count()):
        topic = reader.text()
        for _ in range(reader.count()):
            index, error = reader.int32(), reader.int16()
            reader.int64()  # the timestamp
            offsets[topic, index] = error, reader.int64()
    return offsets


# Fetch


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The data of one partition in a Fetch response."""

    error: int
    high: int
    """High watermark."""
    stable: int
    """Last stable offset."""
    start: int
    """Log start offset, -1 before Kafka 1.0."""
    aborted: tuple[tuple[int, int], ...]
    """Producer id and first offset of each aborted transaction in `records`."""
    records: Buffer


def encode_fetch(
    version: int, topic: str, partition: int, offset: int, *, size: int, wait_ms: int, committed: bool = True
) -> bytes:
    """Encode a Fetch request for about `size` bytes of one partition from an offset.

    With `committed`, the broker ends at the last stable offset and returns the aborted transactions.
    """
    body = struct.pack(">iiiib", -1, wait_ms, 1, size, int(committed))
    if version >= 7:
        body += struct.pack(">ii", 0, -1)  # outside of any fetch session (KIP-227)
    entry = INT32.pack(partition)
    if version >= 9:
        entry += INT32.pack(-1)  # no check of the leader's epoch
    entry += struct.pack(">q", offset)
    if version >= 5:
        entry += struct.pack(">q", -1)
    body += _array([_text(topic) + _array([entry + INT32.pack(size)])])
    if version >= 7:
        body += INT32.pack(0)
    return body + (_text("") if version >= 11 else b"")


def read_fetch(version: int, body: Buffer) -> FetchResponse:
    """Decode a Fetch response for one partition. Raises WireError and Underflow."""
    reader = ResponseReader(body)
    reader.int32()
    if version >= 7:
        error = reader.int16()
        reader.int32()
        if error:
            return FetchResponse(error, -1, -1, -1, (), b"")
    for _ in range(reader.count()):
        reader.text()
        for _ in range(reader.count()):
            reader.int32()
            error, high, stable = reader.int16(), reader.int64(), reader.int64()
            start = reader.int64() if version >= 5 else -1
            aborted = reader.array(lambda: (reader.int64(), reader.int64()))
            if version >= 11:
                reader.int32()  # preferred read replica
            return FetchResponse(error, high, stable, start, aborted, reader.blob())
    return FetchResponse(_UNKNOWN_SERVER_ERROR, -1, -1, -1, (), b"")


_UNKNOWN_SERVER_ERROR = -1


# Produce and transactions


def encode_produce(transactional_id: str | None, topic: str, partition: int, size: int, timeout_ms: int) -> bytes:
    """Encode a Produce request up to its only batch, which must follow and has `size` bytes."""
    prefix = _text(transactional_id) + struct.pack(">hi", -1, timeout_ms)
    return prefix + INT32.pack(1) + _text(topic) + struct.pack(">iii", 1, partition, size)


def read_produce(body: Buffer) -> tuple[int, int]:
    """Decode a Produce response for one batch: error code and base offset.

    It is optimized because each batch has one. Raises Underflow.
    """
    try:
        _, name_length = _PRODUCE_TOPIC.unpack_from(body)
        _, _, error, offset = _PRODUCE_PARTITION.unpack_from(body, _PRODUCE_TOPIC.size + max(name_length, 0))
    except struct.error:
        raise Underflow from None
    return error, offset


def encode_find_coordinator(key: str, kind: int) -> bytes:
    """Encode a FindCoordinator request for a group (kind 0) or a transactional id (kind 1)."""
    return _text(key) + struct.pack(">b", kind)


def read_find_coordinator(body: Buffer) -> tuple[int, int, tuple[str, int]]:
    """Decode a FindCoordinator response: error code, node id, host and port."""
    reader = ResponseReader(body)
    reader.int32()
    error = reader.int16()
    reader.text()
    return error, reader.int32(), (reader.text(), reader.int32())


def encode_init_producer_id(transactional_id: str | None, timeout_ms: int) -> bytes:
    """Encode an InitProducerId request."""
    return _text(transactional_id) + INT32.pack(timeout_ms)


def read_init_producer_id(body: Buffer) -> tuple[int, int, int]:
    """Decode an InitProducerId response: error code, producer id, epoch."""
    reader = ResponseReader(body)
    reader.int32()
    return reader.int16(), reader.int64(), reader.int16()


def encode_add_partitions(
    transactional_id: str, producer_id: int, epoch: int, partitions: Mapping[str, Sequence[int]]
) -> bytes:
    """Encode an AddPartitionsToTxn request."""
    topics = [_text(topic) + _array([INT32.pack(index) for index in indexes]) for topic, indexes in partitions.items()]
    return _text(transactional_id) + struct.pack(">qh", producer_id, epoch) + _array(topics)


def read_add_partitions(body: Buffer) -> int:
    """Decode an AddPartitionsToTxn response: the first error code, or 0."""
    reader = ResponseReader(body)
    reader.int32()
    first_error = 0
    for _ in range(reader.count()):
        reader.text()
        for _ in range(reader.count()):
            reader.int32()
            error = reader.int16()
            # 55 OPERATION_NOT_ATTEMPTED: this partition has no error, but another one has
            first_error = error if first_error in (0, 55) and error else first_error
    return first_error


def encode_end_txn(transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> bytes:
    """Encode an EndTxn request."""
    return _text(transactional_id) + struct.pack(">qh?", producer_id, epoch, commit)


def read_end_txn(body: Buffer) -> int:
    """Decode an EndTxn response: the error code."""
    reader = ResponseReader(body)
    reader.int32()
    return reader.int16()
