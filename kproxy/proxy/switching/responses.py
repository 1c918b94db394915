"""The responses that kproxy reads for a client that was connected during a switch, and its changes to some. Pure.

Responses are whole frames, from their size field on. Each function raises Underflow or WireError if a frame is
malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kproxy.protocol.wire.api import APIS, LIST_OFFSETS, METADATA, PRODUCE
from kproxy.protocol.wire.primitives import INT16, INT32, Buffer
from kproxy.protocol.wire.reader import ResponseReader
from kproxy.proxy.switching.positions import Position

OFFSET_COMMIT, OFFSET_FETCH, OFFSET_FOR_LEADER_EPOCH = 8, 9, 23
MAX_TOPICS = 100_000
"""Topics whose metadata a client has got without an epoch; no more are remembered."""
HEARTBEAT = 12
GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID = 69, 25
# Errors of a batch after which no client sends it again: it is there already (46), its topic's name, its size or a
# record is wrong, the client may not write, or its transaction has to be aborted.
_FINAL = frozenset({0, 46, 17, 18, 29, 31, 43, 44, 48, 49, 53, 87, 90, 120})


def _body(response: Buffer, key: int, version: int) -> ResponseReader:
    reader = ResponseReader(response, 8, compact=version >= APIS[key].flexible)
    reader.tags()
    return reader


def read_offsets(response: Buffer, key: int, version: int) -> list[Position]:
    """Return the positions in a response to OffsetFetch, ListOffsets or OffsetForLeaderEpoch; offset -1 means none."""
    reader = _body(response, key, version)
    positions: list[Position] = []
    if key == OFFSET_FETCH:
        _read_offset_fetch(reader, version, positions)
    elif key == LIST_OFFSETS:
        _read_list_offsets(reader, version, positions)
    elif key == OFFSET_FOR_LEADER_EPOCH:
        _read_epochs(reader, version, positions)
    return positions


def _read_offset_fetch(reader: ResponseReader, version: int, positions: list[Position]) -> None:
    def partition(topic: bytes) -> None:
        positions.append((topic, reader.int32(), reader.int64()))
        if version >= 5:
            reader.int32()  # the leader's epoch
        reader.raw()  # metadata
        reader.int16()  # the error; then the offset is -1
        reader.tags()

    if version >= 3:
        reader.int32()  # throttled
    for _ in range(reader.count() if version >= 8 else 1):
        if version >= 8:
            reader.raw()  # the group
        _each_topic(reader, partition)
        if version >= 8:
            reader.int16()
            reader.tags()


def _read_list_offsets(reader: ResponseReader, version: int, positions: list[Position]) -> None:
    def partition(topic: bytes) -> None:
        number = reader.int32()
        reader.int16()  # the error; then the offset is -1
        if version == 0:
            positions.extend((topic, number, offset) for offset in reader.array(reader.int64))
            return
        reader.int64()  # the time
        positions.append((topic, number, reader.int64()))
        if version >= 4:
            reader.int32()  # the leader's epoch
        reader.tags()

    if version >= 2:
        reader.int32()
    _each_topic(reader, partition)


def _read_epochs(reader: ResponseReader, version: int, positions: list[Position]) -> None:
    def partition(topic: bytes) -> None:
        reader.int16()
        number = reader.int32()
        if version >= 1:
            reader.int32()
        positions.append((topic, number, reader.int64()))
        reader.tags()

    if version >= 2:
        reader.int32()
    _each_topic(reader, partition)


def has_retriable_error(response: Buffer, version: int) -> bool:
    """Return True if a Produce response has an error at which a client may send a batch again.

    The response has version 12 or older.
    """
    reader = _body(response, PRODUCE, version)
    errors: list[int] = []

    def partition(topic: bytes) -> None:
        reader.int32()
        errors.append(reader.int16())
        reader.int64()  # the first offset
        if version >= 2:
            reader.int64()  # the time
        if version >= 5:
            reader.int64()  # where the log begins
        if version >= 8:
            for _ in range(reader.count()):
                reader.int32()  # the record that is wrong,
                reader.raw()  # and why
                reader.tags()
            reader.raw()  # why, in words
        reader.tags()

    _each_topic(reader, partition)
    return any(error not in _FINAL for error in errors)


def _error_offsets(response: Buffer, key: int, version: int) -> Iterator[int]:
    """Yield the offsets of the error codes in a response to OffsetCommit, or to a heartbeat."""
    reader = _body(response, key, version)
    if key != OFFSET_COMMIT:
        if key != HEARTBEAT or version:
            reader.int32()  # throttled
        offset = reader.at
        reader.int16()
        yield offset
        return
    offsets: list[int] = []

    def partition(topic: bytes) -> None:
        reader.int32()
        offsets.append(reader.at)
        reader.int16()
        reader.tags()

    if version >= 3:
        reader.int32()
    _each_topic(reader, partition)
    yield from offsets


def replace_unknown_group(response: Buffer, key: int, version: int) -> Buffer:
    """Replace GROUP_ID_NOT_FOUND by UNKNOWN_MEMBER_ID in a response to OffsetCommit or a heartbeat (KIP-848).

    The member's group exists in the former cluster only. At GROUP_ID_NOT_FOUND such a client gives up; at
    UNKNOWN_MEMBER_ID it joins the group again.
    """
    changed: bytearray | None = None
    for offset in _error_offsets(response, key, version):
        if INT16.unpack_from(response, offset)[0] == GROUP_ID_NOT_FOUND:
            changed = bytearray(response) if changed is None else changed
            INT16.pack_into(changed, offset, UNKNOWN_MEMBER_ID)
    return response if changed is None else changed


def replace_success_by_unknown_member(response: Buffer, key: int, version: int) -> Buffer:
    """Replace success by UNKNOWN_MEMBER_ID in a response to a heartbeat.

    The client joins the group again, and asks for its positions. Other errors stay.
    """
    changed = bytearray(response)
    for offset in _error_offsets(response, key, version):
        if not INT16.unpack_from(response, offset)[0]:
            INT16.pack_into(changed, offset, UNKNOWN_MEMBER_ID)
    return replace_unknown_group(changed, key, version)


def remove_leader_epochs(response: Buffer, version: int, shown: set[bytes]) -> Buffer:
    """Set the leader epochs to -1 in a Metadata response, for topics that are not in `shown`; add them to it.

    librdkafka takes no leader whose epoch is lower than one that it knows, not even of a topic with another id
    (librdkafka #4898). Since 2.8 it takes one without an epoch, and any after that.
    """
    if version < 7:
        return response
    reader, changed = _body(response, METADATA, version), bytearray(response)
    reader.int32()  # throttled
    for _ in range(reader.count()):
        reader.int32()
        reader.raw()  # the broker's host
        reader.int32()
        reader.raw()  # and its rack
        reader.tags()
    reader.raw()  # the cluster's id
    reader.int32()  # the controller
    for _ in range(reader.count()):
        reader.int16()
        topic = reader.raw()
        if version >= 10:
            reader.uuid()
        reader.boolean()
        partitions = reader.count()
        first = topic not in shown
        if first and partitions and len(shown) < MAX_TOPICS:
            shown.add(topic)
        for _ in range(partitions):
            reader.int16()
            reader.int32()
            reader.int32()  # the leader
            offset = reader.at
            reader.int32()
            if first:
                INT32.pack_into(changed, offset, -1)
            for _ in range(3):
                reader.int32s()  # replicas: all, those in sync, those that are away
            reader.tags()
        if version >= 8:
            reader.int32()  # what the client may do
        reader.tags()
    return changed


def _each_topic(reader: ResponseReader, partition: Callable[[bytes], None]) -> None:
    for _ in range(reader.count()):
        topic = reader.raw()
        for _ in range(reader.count()):
            partition(topic)
        reader.tags()
