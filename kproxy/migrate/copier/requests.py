"""Encoding of the copier's requests, and decoding of their responses. Pure.

Every broker from 0.11 to 4.x supports the versions that are used: Fetch 4 to 11, Produce 3 to 8, Metadata 4 or 12,
ListOffsets 2, FindCoordinator 1, InitProducerId 0, AddPartitionsToTxn 0, EndTxn 0, ApiVersions 0. Source: Kafka's
message definitions, `clients/src/main/resources/common/message`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import encode_fields, response_reader, text
from kproxy.protocol.wire.primitives import Buffer, Underflow, malformed, string

T = TypeVar("T")

# The versions of each API that this module encodes and decodes.
VERSIONS: Mapping[int, range] = {
    ApiKey.PRODUCE: range(3, 9),  # whose requests are all alike
    ApiKey.FETCH: range(4, 12),
    ApiKey.LIST_OFFSETS: range(2, 3),
    ApiKey.METADATA: range(4, 13, 8),  # 12, with topic ids, or 4
    ApiKey.FIND_COORDINATOR: range(1, 2),
    ApiKey.API_VERSIONS: range(1),
    ApiKey.INIT_PRODUCER_ID: range(1),
    ApiKey.ADD_PARTITIONS_TO_TXN: range(1),
    ApiKey.END_TXN: range(1),
}
TopicPartition = tuple[str, int]
"""A topic's name and a partition's index."""
# ListOffsets: the timestamps that mean the last and the first offset.
LATEST, EARLIEST = -1, -2


# Produce response, of one partition: index, error, base offset, time of the append; since version 5 the log start
# offset; since version 8 the number of errors of single records, each with a text, and a text of the batch.
_PRODUCED = {version: struct.Struct(">ihqq" if version < 5 else ">ihqqq") for version in VERSIONS[ApiKey.PRODUCE]}
_RECORD_ERRORS_VERSION = 8
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


def parse_response(reader: Callable[..., T], *arguments: object) -> T:
    """Decode a response with `reader`. Raises WireError if the response is truncated."""
    try:
        return reader(*arguments)
    except Underflow:
        raise malformed("the broker's response is truncated") from None


def _fields(key: int, version: int, body: Buffer) -> dict[str, Any]:
    return response_reader(key, version).read(body)


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

    def topic_error(self, topic: str) -> int:
        """Return the error code of a topic: UNKNOWN_TOPIC_OR_PARTITION if the response does not name it."""
        return self.topics[topic][0] if topic in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def encode_metadata(version: int, topics: Sequence[str] | None) -> bytes:
    """Encode a request for these topics, or for all topics if None. It creates no topic."""
    requested = None if topics is None else [{"Name": topic} for topic in topics]
    return encode_fields("MetadataRequest", version, {"Topics": requested})


def read_metadata(version: int, body: Buffer) -> ClusterMetadata:
    """Decode a Metadata response. Raises WireError and Underflow."""
    fields = _fields(ApiKey.METADATA, version, body)
    topics = {text(topic["Name"]): topic for topic in fields["Topics"]}
    return ClusterMetadata(
        text(fields["ClusterId"]),
        {broker["NodeId"]: (text(broker["Host"]), broker["Port"]) for broker in fields["Brokers"]},
        {name: (topic["ErrorCode"], tuple(map(_partition, topic["Partitions"]))) for name, topic in topics.items()},
        {name: _topic_id(topic.get("TopicId", bytes(16))) for name, topic in topics.items()},
    )


def _partition(fields: dict[str, Any]) -> PartitionMetadata:
    return PartitionMetadata(fields["ErrorCode"], fields["PartitionIndex"], fields["LeaderId"])


def _topic_id(uuid: bytes) -> str:
    return uuid.hex() if any(uuid) else ""  # zero means none (KIP-516)


# Offsets


def encode_list_offsets(partitions: Mapping[str, Sequence[int]], timestamp: int, *, committed: bool = True) -> bytes:
    """Encode a ListOffsets request.

    LATEST is the last stable offset, where read_committed consumers end. Without `committed` it is the high watermark,
    which is higher while a transaction is open.
    """
    topics = [
        {"Name": topic, "Partitions": [{"PartitionIndex": index, "Timestamp": timestamp} for index in indexes]}
        for topic, indexes in partitions.items()
    ]
    return encode_fields("ListOffsetsRequest", 2, {"ReplicaId": -1, "IsolationLevel": committed, "Topics": topics})


def read_list_offsets(body: Buffer) -> dict[TopicPartition, tuple[int, int]]:
    """Decode a ListOffsets response: error code and offset by topic and partition."""
    return {
        (text(topic["Name"]), partition["PartitionIndex"]): (partition["ErrorCode"], partition["Offset"])
        for topic in _fields(ApiKey.LIST_OFFSETS, 2, body)["Topics"]
        for partition in topic["Partitions"]
    }


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
    offsets = {(topic, partition): offset}
    return encode_fetch_many(version, offsets, size=size, partition_size=size, wait_ms=wait_ms, committed=committed)


def encode_fetch_many(
    version: int,
    offsets: Mapping[TopicPartition, int],
    *,
    size: int,
    partition_size: int,
    wait_ms: int,
    committed: bool = True,
) -> bytes:
    """Encode a Fetch request for about `size` bytes of several partitions, from an offset of each.

    No partition has much more than `partition_size` bytes in the response.
    """
    requested: dict[str, list[dict[str, int]]] = {}
    for (topic, partition), offset in offsets.items():
        requested.setdefault(topic, []).append(
            {
                "Partition": partition,
                "CurrentLeaderEpoch": -1,  # no check of the leader's epoch
                "FetchOffset": offset,
                "LogStartOffset": -1,
                "PartitionMaxBytes": partition_size,
            }
        )
    fields = {
        "ReplicaId": -1,
        "MaxWaitMs": wait_ms,
        "MinBytes": 1,
        "MaxBytes": size,
        "IsolationLevel": committed,
        "SessionEpoch": -1,  # outside of any fetch session (KIP-227)
        "Topics": [{"Topic": topic, "Partitions": partitions} for topic, partitions in requested.items()],
    }
    return encode_fields("FetchRequest", version, fields)


def read_fetch(version: int, body: Buffer) -> FetchResponse:
    """Decode a Fetch response for one partition. Raises WireError and Underflow."""
    error, partitions = read_fetch_many(version, body)
    for partition in partitions.values():
        return partition
    return FetchResponse(error or ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, -1, (), b"")


def read_fetch_many(version: int, body: Buffer) -> tuple[int, dict[TopicPartition, FetchResponse]]:
    """Decode a Fetch response: the error code of all, and the data of each partition.

    Raises WireError and Underflow.
    """
    fields = _fields(ApiKey.FETCH, version, body)
    error = fields.get("ErrorCode", ErrorCode.NONE)
    responses = () if error else fields["Responses"]
    return error, {
        (text(topic["Topic"]), partition["PartitionIndex"]): _fetched(partition)
        for topic in responses
        for partition in topic["Partitions"]
    }


def _fetched(fields: dict[str, Any]) -> FetchResponse:
    aborted = fields["AbortedTransactions"] or ()
    return FetchResponse(
        fields["ErrorCode"],
        fields["HighWatermark"],
        fields["LastStableOffset"],
        fields.get("LogStartOffset", -1),
        tuple((transaction["ProducerId"], transaction["FirstOffset"]) for transaction in aborted),
        fields["Records"] or b"",
    )


# Produce and transactions


def encode_produce(
    transactional_id: str | None, batches: Sequence[tuple[TopicPartition, Sequence[Buffer]]], timeout_ms: int
) -> list[Buffer]:
    """Return the parts of a Produce request with one batch, given in parts, for each partition.

    Partitions of one topic must follow each other. It is optimized because each batch has one, as is `read_produce`.
    """
    prefix = b"\xff\xff" if transactional_id is None else string(transactional_id.encode(), compact=False)
    topics = [list(group) for _, group in groupby(batches, _topic_of)]
    parts: list[Buffer] = []
    header = prefix + struct.pack(">hii", -1, timeout_ms, len(topics))
    for topic in topics:
        header += string(topic[0][0][0].encode(), compact=False) + _INT32.pack(len(topic))
        for (_, partition), buffers in topic:
            parts += (header + struct.pack(">ii", partition, sum(map(len, buffers))), *buffers)
            header = b""
    return parts


def _topic_of(batch: tuple[TopicPartition, object]) -> str:
    return batch[0][0]


def read_produce(version: int, body: Buffer) -> dict[TopicPartition, tuple[int, int]]:
    """Decode a Produce response: error code and base offset by topic and partition. Raises WireError and Underflow."""
    layout, results = _PRODUCED[version], {}
    try:
        topics, at = _INT32.unpack_from(body)[0], _INT32.size
        for _ in range(topics):
            name, at = _read_string(body, at)
            partitions, at = _INT32.unpack_from(body, at)[0], at + _INT32.size
            for _ in range(partitions):
                index, error, offset, *_ = layout.unpack_from(body, at)
                results[name, index] = error, offset
                at += layout.size
                if version >= _RECORD_ERRORS_VERSION:
                    at = _skip_record_errors(body, at)
    except struct.error:
        raise Underflow from None
    return results


def _read_string(body: Buffer, at: int) -> tuple[str, int]:
    """Return the string at an offset, "" for null, and the offset after it."""
    length, at = _INT16.unpack_from(body, at)[0], at + _INT16.size
    end = at + max(length, 0)
    if end > len(body):
        raise Underflow
    return text(bytes(body[at:end])), end


def _skip_record_errors(body: Buffer, at: int) -> int:
    errors, at = _INT32.unpack_from(body, at)[0], at + _INT32.size
    for _ in range(errors):
        _, at = _read_string(body, at + _INT32.size)
    return _read_string(body, at)[1]


def encode_find_coordinator(key: str, kind: int) -> bytes:
    """Encode a FindCoordinator request for a group (kind 0) or a transactional id (kind 1)."""
    return encode_fields("FindCoordinatorRequest", 1, {"Key": key, "KeyType": kind})


def read_find_coordinator(body: Buffer) -> tuple[int, int, tuple[str, int]]:
    """Decode a FindCoordinator response: error code, node id, host and port."""
    fields = _fields(ApiKey.FIND_COORDINATOR, 1, body)
    return fields["ErrorCode"], fields["NodeId"], (text(fields["Host"]), fields["Port"])


def encode_init_producer_id(transactional_id: str | None, timeout_ms: int) -> bytes:
    """Encode an InitProducerId request."""
    fields = {"TransactionalId": transactional_id, "TransactionTimeoutMs": timeout_ms}
    return encode_fields("InitProducerIdRequest", 0, fields)


def read_init_producer_id(body: Buffer) -> tuple[int, int, int]:
    """Decode an InitProducerId response: error code, producer id, epoch."""
    fields = _fields(ApiKey.INIT_PRODUCER_ID, 0, body)
    return fields["ErrorCode"], fields["ProducerId"], fields["ProducerEpoch"]


def encode_add_partitions(
    transactional_id: str, producer_id: int, epoch: int, partitions: Mapping[str, Sequence[int]]
) -> bytes:
    """Encode an AddPartitionsToTxn request."""
    fields = {
        "V3AndBelowTransactionalId": transactional_id,
        "V3AndBelowProducerId": producer_id,
        "V3AndBelowProducerEpoch": epoch,
        "V3AndBelowTopics": [{"Name": topic, "Partitions": indexes} for topic, indexes in partitions.items()],
    }
    return encode_fields("AddPartitionsToTxnRequest", 0, fields)


def read_add_partitions(body: Buffer) -> dict[TopicPartition, int]:
    """Decode an AddPartitionsToTxn response: the error code of each partition that has one.

    If one partition has an error, the others are not added either (OPERATION_NOT_ATTEMPTED): they are in the result
    only if all have this code.
    """
    errors = {
        (text(topic["Name"]), partition["PartitionIndex"]): partition["PartitionErrorCode"]
        for topic in _fields(ApiKey.ADD_PARTITIONS_TO_TXN, 0, body)["ResultsByTopicV3AndBelow"]
        for partition in topic["ResultsByPartition"]
    }
    errors = {place: error for place, error in errors.items() if error}
    return {place: error for place, error in errors.items() if error != ErrorCode.OPERATION_NOT_ATTEMPTED} or errors


def encode_end_txn(transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> bytes:
    """Encode an EndTxn request."""
    fields = {
        "TransactionalId": transactional_id,
        "ProducerId": producer_id,
        "ProducerEpoch": epoch,
        "Committed": commit,
    }
    return encode_fields("EndTxnRequest", 0, fields)


def read_end_txn(body: Buffer) -> int:
    """Decode an EndTxn response: the error code."""
    return int(_fields(ApiKey.END_TXN, 0, body)["ErrorCode"])
