"""What kproxy reads of the requests of a client that has lived through a switch, and answers to some itself. Pure.

Requests are whole frames, from their size field on, in the versions up to those of `caps`. Each function raises
Underflow or WireError if a frame is not what it says it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.primitives import INT16, INT32, Buffer, string, uvarint
from kproxy.protocol.wire.reader import ResponseReader
from kproxy.proxy.switching.positions import Position

OFFSET_COMMIT, OFFSET_FOR_LEADER_EPOCH = 8, 23
OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, FETCH_SESSION_ID_NOT_FOUND = 1, 6, 70
UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 25, 27

_head = Struct(">ihhi").unpack_from  # size, API key, version, correlation id
_NO_RECORDS = Struct(">hq")  # an error or none, an unknown high watermark


def _body(request: Buffer) -> tuple[ResponseReader, int, int, bool]:
    """Its fields behind the header; version, correlation id, and whether it is of a flexible version."""
    _, key, version, correlation_id = _head(request)
    flexible = version >= APIS[key].flexible
    client_id = INT16.unpack_from(request, 12)[0]
    reader = ResponseReader(request, 14 + max(0, client_id), compact=flexible)
    reader.tags()
    return reader, version, correlation_id, flexible


class _ResponseWriter:
    """Makes an answer: what stands behind its size."""

    def __init__(self, correlation_id: int, compact: bool) -> None:
        self._out = bytearray(INT32.pack(correlation_id))
        self._compact = compact
        self.tags()

    def tags(self) -> None:
        if self._compact:
            self._out += b"\0"

    def put(self, data: bytes) -> None:
        self._out += data

    def text(self, text: bytes) -> None:
        self._out += string(text, compact=self._compact)

    def count(self, count: int) -> None:
        self._out += uvarint(count + 1) if self._compact else INT32.pack(count)

    def no_records(self) -> None:
        self._out += b"\1" if self._compact else INT32.pack(0)  # empty as a broker has it: kafka-python takes no null

    def frame(self) -> bytes:
        self.tags()
        return INT32.pack(len(self._out)) + bytes(self._out)


# Fetch


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A Fetch request. `positions` are those that it names: all of the client's if it is no part of a fetch session.
    `forgotten`: partitions, as topic and number, that the session goes on without."""

    version: int
    correlation_id: int
    flexible: bool
    max_wait: int
    in_session: bool
    positions: tuple[Position, ...]
    forgotten: tuple[tuple[bytes, int], ...] = ()


def read_fetch(request: Buffer) -> FetchRequest:
    """Of version 12 and before."""
    reader, version, correlation_id, flexible = _body(request)
    reader.int32()  # the replica: a consumer is none
    max_wait = reader.int32()
    reader.int32()  # the fewest bytes
    if version >= 3:
        reader.int32()  # the most
    if version >= 4:
        reader.int8()  # the isolation level
    session, epoch = (reader.int32(), reader.int32()) if version >= 7 else (0, -1)
    positions: list[Position] = []

    def partition(topic: bytes) -> None:
        number = reader.int32()
        if version >= 9:
            reader.int32()  # the leader's epoch
        positions.append((topic, number, reader.int64()))
        if version >= 12:
            reader.int32()  # the epoch of the last record
        if version >= 5:
            reader.int64()  # where the log begins
        reader.int32()  # the most bytes
        reader.tags()

    _each_topic(reader, partition)
    forgotten: list[tuple[bytes, int]] = []
    if version >= 7:
        _each_topic(reader, lambda topic: forgotten.append((topic, reader.int32())))
    in_session = session != 0 and epoch > 0
    return FetchRequest(version, correlation_id, flexible, max_wait, in_session, tuple(positions), tuple(forgotten))


def _fixed_size(version: int) -> int:
    """The size of the fields before the topics."""
    return 12 + 4 * (version >= 3) + (version >= 4) + 8 * (version >= 7)


def _partition_struct(version: int) -> Struct:
    """Of a partition its number and position."""
    parts = ("i", "4x" * (version >= 9), "q", "4x" * (version >= 12), "8x" * (version >= 5), "4x")
    return Struct(">" + "".join(parts) + "x" * (version >= _COMPACT))


_COMPACT, _SESSIONS = 12, 7  # the first versions of each
_SESSION = Struct(">ii").unpack_from
_FIXED = [_fixed_size(version) for version in range(_COMPACT + 1)]
_PARTITIONS = [_partition_struct(version) for version in range(_COMPACT + 1)]


def read_fetch_positions(request: Buffer) -> tuple[Sequence[Position], bool] | None:
    """What `read_fetch` has as positions, and as `in_session`, several times as fast, for each Fetch passes here; None
    if the request is not quite as all clients send it, or forgets partitions, and must be read by that."""
    try:
        return _read_fetch_positions(request)
    except (IndexError, StructError):
        return None


def _read_fetch_positions(request: Buffer) -> tuple[Sequence[Position], bool] | None:
    version = _head(request)[2]
    if version > _COMPACT:
        return None
    compact = version == _COMPACT
    at = 14 + max(0, INT16.unpack_from(request, 12)[0])
    if compact and request[at]:
        return None  # tagged fields
    at += compact + _FIXED[version]
    session, epoch = _SESSION(request, at - 8) if version >= _SESSIONS else (0, -1)
    unpack, size = _PARTITIONS[version].unpack_from, _PARTITIONS[version].size
    found: list[Position] = []
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
            found.append((topic, number, offset))
        if compact:
            if request[at]:
                return None
            at += 1
    if version >= _SESSIONS and (request[at] - 1 if compact else INT32.unpack_from(request, at)[0]):
        return None  # it forgets some
    return found, session != 0 and epoch > 0


_ONE_BYTE = 0x7F
"""Lengths and counts that are less take one byte in a flexible version."""


def empty_fetch_response(fetch: FetchRequest, out_of_range: Position | None = None) -> bytes:
    """The answer that there is nothing new, outside of any fetch session; and that this position, if there is one, is
    out of range."""
    out = _ResponseWriter(fetch.correlation_id, fetch.flexible)
    if fetch.version >= 1:
        out.put(INT32.pack(0))  # not throttled
    if fetch.version >= 7:
        out.put(INT16.pack(FETCH_SESSION_ID_NOT_FOUND if fetch.in_session else 0))
        out.put(INT32.pack(0))
    # In a fetch session a request names only what has changed. The client is told to begin another one, and then it
    # names everything.
    named = () if fetch.in_session else fetch.positions
    topics: dict[bytes, list[tuple[int, int]]] = {}
    for position in named:
        error = OFFSET_OUT_OF_RANGE if position == out_of_range else 0
        topics.setdefault(position[0], []).append((position[1], error))
    out.count(len(topics))
    for topic, numbers in topics.items():
        out.text(topic)
        out.count(len(numbers))
        for number, error in numbers:
            out.put(INT32.pack(number) + _NO_RECORDS.pack(error, -1))
            if fetch.version >= 4:
                out.put(_INT64.pack(-1))  # the last stable offset
            if fetch.version >= 5:
                out.put(_INT64.pack(-1))  # where the log begins
            if fetch.version >= 4:
                out.count(0)  # aborted transactions
            if fetch.version >= 11:
                out.put(INT32.pack(-1))  # no other replica to read from
            out.no_records()
            out.tags()
        out.tags()
    return out.frame()


_INT64 = Struct(">q")


# OffsetCommit


@dataclass(frozen=True, slots=True)
class PositionsRequest:
    """A request about positions: OffsetCommit, or OffsetForLeaderEpoch, whose offsets are all 0 here."""

    version: int
    correlation_id: int
    flexible: bool
    positions: tuple[Position, ...]


def read_commit(request: Buffer) -> PositionsRequest:
    """Of version 9 and before."""
    reader, version, correlation_id, flexible = _body(request)
    reader.raw()  # the group
    if version >= 1:
        reader.int32()  # the generation
        reader.raw()  # the member
    if version >= 7:
        reader.raw()  # the instance's id
    if 2 <= version <= 4:
        reader.int64()  # how long it is kept
    positions: list[Position] = []

    def partition(topic: bytes) -> None:
        positions.append((topic, reader.int32(), reader.int64()))
        if version >= 6:
            reader.int32()  # the leader's epoch
        if version == 1:
            reader.int64()  # a time
        reader.raw()  # metadata
        reader.tags()

    _each_topic(reader, partition)
    return PositionsRequest(version, correlation_id, flexible, tuple(positions))


def commit_refusal(commit: PositionsRequest, *, keeps_positions: bool = False) -> bytes:
    """The answer that the client is no member of the group. `keeps_positions`: at that answer the client would join
    again with the partitions and positions that it has, as franz-go does in a cooperative group; so it is told that the
    group is being balanced, and hears from its next heartbeat that it is no member."""
    error = INT16.pack(REBALANCE_IN_PROGRESS if keeps_positions else UNKNOWN_MEMBER_ID)
    out = _ResponseWriter(commit.correlation_id, commit.flexible)
    if commit.version >= 3:
        out.put(INT32.pack(0))
    _put_errors(out, commit.positions, lambda number: INT32.pack(number) + error)
    return out.frame()


# DeleteRecords


def deletion_refusal(request: Buffer) -> bytes:
    """The answer to a DeleteRecords request of any version that its offsets are not there."""
    reader, _, correlation_id, flexible = _body(request)
    positions: list[Position] = []

    def partition(topic: bytes) -> None:
        positions.append((topic, reader.int32(), reader.int64()))
        reader.tags()

    _each_topic(reader, partition)
    out = _ResponseWriter(correlation_id, flexible)
    out.put(INT32.pack(0))
    tail = _INT64.pack(-1) + INT16.pack(OFFSET_OUT_OF_RANGE)
    _put_errors(out, tuple(positions), lambda number: INT32.pack(number) + tail)
    return out.frame()


# OffsetForLeaderEpoch


def read_epochs(request: Buffer) -> PositionsRequest:
    """Of any version."""
    reader, version, correlation_id, flexible = _body(request)
    if version >= 3:
        reader.int32()  # the replica
    positions: list[Position] = []

    def partition(topic: bytes) -> None:
        positions.append((topic, reader.int32(), 0))
        if version >= 2:
            reader.int32()  # the leader's epoch now
        reader.int32()  # the epoch of the position
        reader.tags()

    _each_topic(reader, partition)
    return PositionsRequest(version, correlation_id, flexible, tuple(positions))


def epochs_refusal(epochs: PositionsRequest, *, for_good: bool = False) -> bytes:
    """The answer that the broker does not lead the partitions: the client asks again later, and fetches nothing before
    it knows. `for_good`: that it has nothing of these epochs, so the client's position is out of range."""
    out = _ResponseWriter(epochs.correlation_id, epochs.flexible)
    if epochs.version >= 2:
        out.put(INT32.pack(0))
    tail = (INT32.pack(-1) if epochs.version >= 1 else b"") + _INT64.pack(-1)
    error = INT16.pack(0 if for_good else NOT_LEADER_OR_FOLLOWER)
    _put_errors(out, epochs.positions, lambda number: error + INT32.pack(number) + tail)
    return out.frame()


def _put_errors(out: _ResponseWriter, positions: tuple[Position, ...], one: Callable[[int], bytes]) -> None:
    topics: dict[bytes, list[int]] = {}
    for topic, number, _ in positions:
        topics.setdefault(topic, []).append(number)
    out.count(len(topics))
    for topic, numbers in topics.items():
        out.text(topic)
        out.count(len(numbers))
        for number in numbers:
            out.put(one(number))
            out.tags()
        out.tags()


def _each_topic(reader: ResponseReader, partition: Callable[[bytes], None]) -> None:
    for _ in range(reader.count()):
        topic = reader.raw()
        for _ in range(reader.count()):
            partition(topic)
        reader.tags()
