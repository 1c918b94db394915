"""Decoding the records of a batch of any magic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from kproxy.base.errors import WireError
from kproxy.protocol.records.codecs import LIMIT, NONE, ZSTD, decompress
from kproxy.protocol.records.encoding import RecordEntry, encode_tail
from kproxy.protocol.records.header import LOG_APPEND_TIME, V0, V1, V2_SIZE, Batch, read_batches
from kproxy.protocol.records.varint import read_varint, wrap_int64
from kproxy.protocol.wire.primitives import malformed

# The most records that are decoded at a time: a compressed batch may have millions.
MAX_RECORDS_AT_ONCE = 1 << 16


class Record(NamedTuple):
    """A record as a consumer sees it. `timestamp`: milliseconds since 1970, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def decode_records(batch: Batch) -> list[Record]:
    """Return all records of a batch. Raises WireError if Kafka's consumer could not read it."""
    if batch.magic < 2:
        return list(_messages(batch))
    return [
        Record(offset, wrap_int64(timestamp), *decode_tail(content))
        for entries in decode_entries(batch, 0, 1 << 63)
        for offset, timestamp, content in entries
    ]


def decode_entries(batch: Batch, first: int, end: int, limit: int = LIMIT) -> Iterator[list[RecordEntry]]:
    """Yield the records with offsets from `first` to before `end`, at most `MAX_RECORDS_AT_ONCE` at a time.

    Their tails are not decoded. `limit`: the largest decompressed size of the batch, in bytes.
    """
    if batch.magic == 2:
        return walk_records(batch, bytes(decompress(batch.raw[V2_SIZE:], batch.codec, limit)), 0, first, end)
    return _convert_messages(batch, first, end, limit)


def _convert_messages(batch: Batch, first: int, end: int, limit: int) -> Iterator[list[RecordEntry]]:
    within = (record for record in _messages(batch, limit) if first <= record.offset < end)
    while entries := [
        RecordEntry(record.offset, record.timestamp, encode_tail(record.key, record.value))
        for record in islice(within, MAX_RECORDS_AT_ONCE)
    ]:
        yield entries


def add_entries(batch: Batch, content: bytes, begin: int, first: int, end: int, entries: list[RecordEntry]) -> None:
    """Append the records of a batch of at most `MAX_RECORDS_AT_ONCE` to `entries`; they begin at `begin` of `content`.

    It is the fast form of `walk_records` for small batches, which arrive by the million.
    """
    try:
        at = _decode_step(batch, content, begin, -1, batch.count, first, end, entries)[0]
    except IndexError:
        raise _cut_short(batch) from None
    if at != len(content):
        raise _left_over(batch)


def walk_records(batch: Batch, content: bytes, begin: int, first: int, end: int) -> Iterator[list[RecordEntry]]:
    """Yield the records of a batch of any size, at most `MAX_RECORDS_AT_ONCE` at a time.

    They begin at `begin` of `content`.
    """
    at, last, left = begin, -1, batch.count
    while left:
        entries: list[RecordEntry] = []
        count = min(left, MAX_RECORDS_AT_ONCE)
        try:
            at, last = _decode_step(batch, content, at, last, count, first, end, entries)
        except IndexError:
            raise _cut_short(batch) from None
        left -= count
        yield entries
    if at != len(content):
        raise _left_over(batch)


def _cut_short(batch: Batch) -> WireError:
    return malformed(f"the batch at offset {batch.base_offset} ends in the middle of a record")


def _left_over(batch: Batch) -> WireError:
    return malformed(f"the batch at offset {batch.base_offset} has bytes behind its last record")


def _decode_step(
    batch: Batch, content: bytes, at: int, last: int, count: int, first: int, end: int, entries: list[RecordEntry]
) -> tuple[int, int]:
    """Decode `count` records from `at` on; return the index after them, and the last offset delta.

    `last` is the offset delta of the record before.
    """
    size = len(content)
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
    new, add = tuple.__new__, entries.append
    for _ in range(count):
        # Most of these numbers have one byte or two: read_varint is for longer ones.
        raw = content[at]
        at += 1
        if raw > 0x7F:
            more = content[at]
            if more > 0x7F:
                length, at = read_varint(content, at - 1)
            else:
                raw = raw & 0x7F | more << 7
                length, at = (raw >> 1) ^ -(raw & 1), at + 1
        else:
            length = (raw >> 1) ^ -(raw & 1)
        after = at + length
        at += 1  # the attributes: no bit of them is used
        raw = content[at]
        if raw > 0x7F:
            timestamp, at = read_varint(content, at, 64)
        else:
            timestamp, at = (raw >> 1) ^ -(raw & 1), at + 1
        raw = content[at]
        if raw > 0x7F:
            delta, at = read_varint(content, at)
        else:
            delta, at = (raw >> 1) ^ -(raw & 1), at + 1
        if at > after or after > size or delta <= last:
            raise malformed(f"the batch at offset {base_offset} has invalid records")
        last = delta
        offset = base_offset + delta
        if first <= offset < end:
            when = base_timestamp + timestamp if append_time is None else append_time
            add(new(RecordEntry, (offset, when, content[at:after])))
        at = after
    return at, last


def decode_tail(content: bytes) -> tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]:
    """Return the key, the value and the headers of a record."""
    try:
        key, at = _sized(content, 0)
        value, at = _sized(content, at)
        count, at = read_varint(content, at)
        if not 0 <= count <= len(content):
            raise malformed(f"no record has {count} headers")
        headers = []
        for _ in range(count):
            name, at = _sized(content, at)
            if name is None:
                raise malformed("a header of a record has no name")
            header_value, at = _sized(content, at)
            headers.append((name, header_value))
    except IndexError:
        raise malformed("a record ends too early") from None
    if at != len(content):
        raise malformed("a record has bytes behind its headers")
    return key, value, tuple(headers)


def _sized(content: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(content, at)
    if length < 0:
        return None, at
    after = at + length
    if after > len(content):
        raise malformed("a record ends in the middle of its key, value or headers")
    return content[at:after], after


def _messages(batch: Batch, limit: int = LIMIT) -> Iterator[Record]:
    """Yield the records of a message of magic 0 or 1: itself, or those that it contains compressed (KIP-31, KIP-32)."""
    key, value = _key_and_value(batch)
    codec = batch.codec
    if codec == NONE:
        yield Record(batch.base_offset, batch.max_timestamp, key, value, ())
        return
    if value is None or codec >= ZSTD:
        raise malformed(f"the message at offset {batch.base_offset} claims to contain messages, but contains none")
    plain = decompress(value, codec, limit)
    # Two passes: there may be very many, and the first one needs a value of the last one.
    last, size = -1, 0
    for inner in read_batches(memoryview(plain)):
        last, size = inner.base_offset, size + len(inner.raw)
    if not size or size != len(plain):
        raise malformed(f"the message at offset {batch.base_offset} contains messages that are incomplete")
    base = 0
    if batch.magic == 1 and batch.base_offset:
        # The offsets within count from 0, and the message's own is the last one's; certain old versions of librdkafka
        # left it at 0.
        base = batch.base_offset - last
        if base < 0:
            raise malformed(f"the message at offset {batch.base_offset} contains messages with higher offsets")
    append_time = batch.max_timestamp if batch.magic == 1 and batch.attributes & LOG_APPEND_TIME else None
    for inner in read_batches(memoryview(plain)):
        if inner.magic != batch.magic or inner.codec != NONE:
            raise malformed(f"the message at offset {batch.base_offset} contains messages of another kind")
        inner.check()
        key, value = _key_and_value(inner)
        yield Record(
            base + inner.base_offset, inner.max_timestamp if append_time is None else append_time, key, value, ()
        )


def _key_and_value(batch: Batch) -> tuple[bytes | None, bytes | None]:
    raw = batch.raw
    at = V1.size if batch.magic else V0.size
    fields: list[bytes | None] = []
    for _ in range(2):
        length = int.from_bytes(raw[at : at + 4], "big", signed=True)
        at += 4
        if length > len(raw) - at:
            raise malformed(f"the message at offset {batch.base_offset} ends in the middle of its key or value")
        fields.append(bytes(raw[at : at + length]) if length >= 0 else None)
        at += max(0, length)
    if at != len(raw):
        raise malformed(f"the message at offset {batch.base_offset} has bytes behind its value")
    return fields[0], fields[1]
