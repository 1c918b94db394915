"""What the copier asks brokers: request bodies, and reading the answers. Pure.

Every broker from 0.11 to 4.x has the versions that are used: Fetch 4 to 11, Produce 3 to 8, Metadata 4 or 12,
ListOffsets 2, FindCoordinator 1, InitProducerId 0, AddPartitionsToTxn 0, EndTxn 0, ApiVersions 0.
Facts: Kafka's message definitions, `clients/src/main/resources/common/message`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct, pack
from struct import error as StructError
from typing import TypeVar

from kproxy.protocol.wire.primitives import INT32, Buffer, Underflow, malformed, string, uvarint
from kproxy.protocol.wire.reader import ResponseReader

T = TypeVar("T")

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 22, 24, 26
# The version of Metadata that is asked for if a broker has it: with topic ids, flexible (KIP-482).
_WITH_IDS = 12
# For each API the versions that are written and read here.
VERSIONS: Mapping[int, range] = {
    PRODUCE: range(3, 9),
    FETCH: range(4, 12),
    LIST_OFFSETS: range(2, 3),
    METADATA: range(4, _WITH_IDS + 1, _WITH_IDS - 4),
    FIND_COORDINATOR: range(1, 2),
    API_VERSIONS: range(1),
    INIT_PRODUCER_ID: range(1),
    ADD_PARTITIONS: range(1),
    END_TXN: range(1),
}
# ListOffsets: which offset is asked for.
LATEST, EARLIEST = -1, -2


_TOPIC = Struct(">ih")  # of a Produce answer: how many topics, and the length of the first one's name, which follows
_PRODUCED = Struct(">iihq")  # how many partitions, and of the first one: index, error, base offset


def parse_response(read: Callable[..., T], *arguments: object) -> T:
    """Read an answer that may be cut. Raises WireError."""
    try:
        return read(*arguments)
    except Underflow:
        raise malformed("the broker's answer is cut") from None


def _text(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string(text.encode(), compact=False)


def _array(items: Sequence[bytes]) -> bytes:
    return INT32.pack(len(items)) + b"".join(items)


def read_versions(body: Buffer) -> dict[int, range]:
    """The versions that a broker has, for each API key; nothing if it refuses."""
    reader = ResponseReader(body)
    if reader.int16():
        return {}
    return {key: range(low, high + 1) for key, low, high in reader.array(lambda: _three(reader))}


def _three(reader: ResponseReader) -> tuple[int, int, int]:
    return reader.int16(), reader.int16(), reader.int16()


# Metadata


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition and the id of the broker that leads it, -1 if none does; `error` is Kafka's code."""

    error: int
    index: int
    leader: int


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """Brokers, (host, port) by id, and for each topic its error code and its partitions. `ids`: the topics' ids, which
    change when a topic is deleted and made anew; brokers before Kafka 2.8 do not tell them (KIP-516)."""

    cluster_id: str
    brokers: Mapping[int, tuple[str, int]]
    topics: Mapping[str, tuple[int, tuple[PartitionMetadata, ...]]]
    ids: Mapping[str, str]


def encode_metadata(version: int, topics: Sequence[str] | None) -> bytes:
    """Of these topics, or of all. None is created by being asked for."""
    if version < _WITH_IDS:
        names = b"\xff\xff\xff\xff" if topics is None else _array([_text(topic) for topic in topics])
        return names + b"\0"
    found = b"\0"
    if topics is not None:
        entries = [bytes(16) + string(topic.encode(), compact=True) + b"\0" for topic in topics]
        found = uvarint(len(entries) + 1) + b"".join(entries)
    return found + b"\0\0\0"  # do not create topics, do not tell what is allowed, no tagged fields


def read_metadata(version: int, body: Buffer) -> ClusterMetadata:
    new = version >= _WITH_IDS
    reader = ResponseReader(body, compact=new)
    reader.tags()  # of the header
    reader.int32()  # how long the broker throttled

    def broker() -> tuple[int, tuple[str, int]]:
        found = reader.int32(), (reader.text(), reader.int32())
        reader.text()  # the rack
        reader.tags()
        return found

    def partition() -> PartitionMetadata:
        led = PartitionMetadata(reader.int16(), reader.int32(), reader.int32())
        if new:
            reader.int32()  # the leader's epoch
        for _ in range(3 if new else 2):  # replicas, in sync, offline
            reader.int32s()
        reader.tags()
        return led

    brokers = reader.array(broker)
    cluster_id = reader.text()
    reader.int32()  # the controller
    topics: dict[str, tuple[int, tuple[PartitionMetadata, ...]]] = {}
    ids: dict[str, str] = {}
    for _ in range(reader.count()):
        error, name = reader.int16(), reader.text()
        ids[name] = reader.uuid() if new else ""
        reader.boolean()
        topics[name] = error, reader.array(partition)
        if new:
            reader.int32()  # what is allowed
        reader.tags()
    return ClusterMetadata(cluster_id, dict(brokers), topics, ids)


# Offsets


def encode_list_offsets(partitions: Mapping[str, Sequence[int]], which: int, *, committed: bool = True) -> bytes:
    """LATEST is the last stable offset, where readers of committed records end; without `committed` the high
    watermark, which is beyond it while a transaction is open."""
    topics = [
        _text(topic) + _array([pack(">iq", index, which) for index in indexes]) for topic, indexes in partitions.items()
    ]
    return pack(">ib", -1, committed) + _array(topics)


def read_list_offsets(body: Buffer) -> dict[tuple[str, int], tuple[int, int]]:
    """Error code and offset, by topic and partition."""
    reader = ResponseReader(body)
    reader.int32()
    found = {}
    for _ in range(reader.count()):
        topic = reader.text()
        for _ in range(reader.count()):
            index, error = reader.int32(), reader.int16()
            reader.int64()  # the timestamp
            found[topic, index] = error, reader.int64()
    return found


# Fetch


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """What a broker has of one partition. `stable`: the last stable offset. `start`: the log's first offset, -1 before
    Kafka 1.0. `aborted`: producer id and first offset of each aborted transaction in `records`."""

    error: int
    high: int
    stable: int
    start: int
    aborted: tuple[tuple[int, int], ...]
    records: Buffer


def encode_fetch(
    version: int, topic: str, partition: int, offset: int, *, size: int, wait_ms: int, committed: bool = True
) -> bytes:
    """One partition, from an offset on, about `size` bytes. With `committed` the broker ends at the last stable offset
    and tells which transactions were aborted."""
    body = pack(">iiiib", -1, wait_ms, 1, size, int(committed))
    if version >= 7:
        body += pack(">ii", 0, -1)  # outside of any fetch session (KIP-227)
    entry = INT32.pack(partition)
    if version >= 9:
        entry += INT32.pack(-1)  # no check of the leader's epoch
    entry += pack(">q", offset)
    if version >= 5:
        entry += pack(">q", -1)
    body += _array([_text(topic) + _array([entry + INT32.pack(size)])])
    if version >= 7:
        body += INT32.pack(0)
    return body + (_text("") if version >= 11 else b"")


def read_fetch(version: int, body: Buffer) -> FetchResponse:
    """Of the one partition that was asked for. Raises WireError and Underflow."""
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
                reader.int32()  # a replica that is nearer
            return FetchResponse(error, high, stable, start, aborted, reader.blob())
    return FetchResponse(_UNKNOWN_SERVER_ERROR, -1, -1, -1, (), b"")


_UNKNOWN_SERVER_ERROR = -1


# Produce and transactions


def encode_produce(transactional_id: str | None, topic: str, partition: int, size: int, timeout_ms: int) -> bytes:
    """The body up to the batch, which follows and has `size` bytes: a partition gets one batch in a request."""
    head = _text(transactional_id) + pack(">hi", -1, timeout_ms)
    return head + INT32.pack(1) + _text(topic) + pack(">iii", 1, partition, size)


def read_produce(body: Buffer) -> tuple[int, int]:
    """Error code and base offset of the one batch. Raises Underflow. Every batch has such an answer, so it is quick."""
    try:
        _, name = _TOPIC.unpack_from(body)
        _, _, error, offset = _PRODUCED.unpack_from(body, _TOPIC.size + max(name, 0))
    except StructError:
        raise Underflow from None
    return error, offset


def encode_find_coordinator(key: str, kind: int) -> bytes:
    """Of a group (kind 0) or a transactional id (1)."""
    return _text(key) + pack(">b", kind)


def read_find_coordinator(body: Buffer) -> tuple[int, int, tuple[str, int]]:
    """Error code, node id, host and port."""
    reader = ResponseReader(body)
    reader.int32()
    error = reader.int16()
    reader.text()
    return error, reader.int32(), (reader.text(), reader.int32())


def encode_init_producer_id(transactional_id: str | None, timeout_ms: int) -> bytes:
    return _text(transactional_id) + INT32.pack(timeout_ms)


def read_init_producer_id(body: Buffer) -> tuple[int, int, int]:
    """Error code, producer id, epoch."""
    reader = ResponseReader(body)
    reader.int32()
    return reader.int16(), reader.int64(), reader.int16()


def encode_add_partitions(
    transactional_id: str, producer_id: int, epoch: int, partitions: Mapping[str, Sequence[int]]
) -> bytes:
    topics = [_text(topic) + _array([INT32.pack(index) for index in indexes]) for topic, indexes in partitions.items()]
    return _text(transactional_id) + pack(">qh", producer_id, epoch) + _array(topics)


def read_add_partitions(body: Buffer) -> int:
    """The first error code that is one."""
    reader = ResponseReader(body)
    reader.int32()
    worst = 0
    for _ in range(reader.count()):
        reader.text()
        for _ in range(reader.count()):
            reader.int32()
            error = reader.int16()
            # 55 OPERATION_NOT_ATTEMPTED: of a partition that would be right, were it not for another
            worst = error if worst in (0, 55) and error else worst
    return worst


def encode_end_txn(transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> bytes:
    return _text(transactional_id) + pack(">qh?", producer_id, epoch, commit)


def read_end_txn(body: Buffer) -> int:
    """The error code."""
    reader = ResponseReader(body)
    reader.int32()
    return reader.int16()
