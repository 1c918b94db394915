"""The requests that kproxy reads of a client that was connected during a switch, and its own responses. Pure.

Requests are whole frames, from their size field on, in the versions up to those of `caps`. Each function raises
Underflow or WireError if a frame is malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error

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
    """Return a reader after the header, the version, the correlation id, and whether the version is flexible."""
    _, key, version, correlation_id = _head(request)
    flexible = version >= APIS[key].flexible
    client_id = INT16.unpack_from(request, 12)[0]
    reader = ResponseReader(request, 14 + max(0, client_id), compact=flexible)
    reader.tags()
    return reader, version, correlation_id, flexible


class _ResponseWriter:
    """Writes a response: all bytes after its size."""

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
    """A Fetch request."""

    version: int
    correlation_id: int
    flexible: bool
    max_wait: int
    in_session: bool
    """The request continues a fetch session (KIP-227)."""
    positions: tuple[Position, ...]
    """The positions in the request; outside of a fetch session, all positions of the client."""
    forgotten: tuple[tuple[bytes, int], ...] = ()
    """The partitions, as topic and number, that leave the fetch session."""


def read_fetch(request: Buffer) -> FetchRequest:
    """Read a Fetch request of version 12 or older."""
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
    out = _ResponseWriter(fetch.correlation_id, fetch.flexible)
    if fetch.version >= 1:
        out.put(INT32.pack(0))  # not throttled
    if fetch.version >= 7:
        out.put(INT16.pack(FETCH_SESSION_ID_NOT_FOUND if fetch.in_session else 0))
        out.put(INT32.pack(0))
    # In a fetch session a request names only what has changed. The client must begin another one, and then it
    # names everything.
    positions = () if fetch.in_session else fetch.positions
    topics: dict[bytes, list[tuple[int, int]]] = {}
    for position in positions:
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
    """A request with positions: OffsetCommit, or OffsetForLeaderEpoch, whose offsets are all 0 here."""

    version: int
    correlation_id: int
    flexible: bool
    positions: tuple[Position, ...]


def read_commit(request: Buffer) -> PositionsRequest:
    """Read an OffsetCommit request of version 9 or older."""
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
    """Return a response that refuses a commit, because the client is no member of the group.

    `keeps_positions`: at that error the client would join again and keep its partitions and positions, as franz-go does
    in a cooperative group. So it gets REBALANCE_IN_PROGRESS, and learns from its next heartbeat that it is no member.
    """
    error = INT16.pack(REBALANCE_IN_PROGRESS if keeps_positions else UNKNOWN_MEMBER_ID)
    out = _ResponseWriter(commit.correlation_id, commit.flexible)
    if commit.version >= 3:
        out.put(INT32.pack(0))
    _put_errors(out, commit.positions, lambda number: INT32.pack(number) + error)
    return out.frame()


# DeleteRecords


def deletion_refusal(request: Buffer) -> bytes:
    """Return a response to a DeleteRecords request of any version: its offsets are out of range."""
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
    """Read an OffsetForLeaderEpoch request of any version."""
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
    """Return a response that the broker does not lead the partitions.

    The client asks again later, and fetches nothing before. `for_good`: the broker has nothing of these epochs, so the
    client's position is out of range.
    """
    out = _ResponseWriter(epochs.correlation_id, epochs.flexible)
    if epochs.version >= 2:
        out.put(INT32.pack(0))
    tail = (INT32.pack(-1) if epochs.version >= 1 else b"") + _INT64.pack(-1)
    error = INT16.pack(0 if for_good else NOT_LEADER_OR_FOLLOWER)
    _put_errors(out, epochs.positions, lambda number: error + INT32.pack(number) + tail)
    return out.frame()


def _put_errors(out: _ResponseWriter, positions: tuple[Position, ...], entry: Callable[[int], bytes]) -> None:
    topics: dict[bytes, list[int]] = {}
    for topic, number, _ in positions:
        topics.setdefault(topic, []).append(number)
    out.count(len(topics))
    for topic, numbers in topics.items():
        out.text(topic)
        out.count(len(numbers))
        for number in numbers:
            out.put(entry(number))
            out.tags()
        out.tags()


def _each_topic(reader: ResponseReader, partition: Callable[[bytes], None]) -> None:
    for _ in range(reader.count()):
        topic = reader.raw()
        for _ in range(reader.count()):
            partition(topic)
        reader.tags()
