"""A batch of records (v2), which is all that a Produce request has for a partition.

The *tail* of a record is the part that does not depend on its batch: its key, value and headers. It moves from one
batch to another unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from kproxy.base.errors import ConfigError
from kproxy.protocol.records.codecs import NONE, compress
from kproxy.protocol.records.header import CODEC_MASK, OVERHEAD, TRANSACTIONAL, V2, V2_SIZE, Batch
from kproxy.protocol.records.varint import SMALL, encode_varint, wrap_int64

_CRC = Struct(">I")
_CRC_AT, _CHECKED_AT = 17, 21
_MANY = len(SMALL)
_PLAIN = SMALL[0]  # a record's attributes: no bit is used yet


class RecordEntry(NamedTuple):
    """A record on its way from one batch to another."""

    offset: int
    timestamp: int
    tail: bytes


class ProducerState(NamedTuple):
    """The producer of a batch, and the sequence number of the batch's first record. -1 everywhere: not idempotent."""

    id: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False

    def after(self, count: int) -> ProducerState:
        """Return the state `count` records later."""
        if self.sequence < 0:
            return self
        return self._replace(sequence=(self.sequence + count) & 0x7FFFFFFF)


def patch_header(batch: Batch, producer: ProducerState) -> list[bytes | memoryview]:
    """Return the same batch by another producer: a new header, and the records untouched."""
    records = batch.raw[V2_SIZE:]
    header = _header(
        batch.codec, batch.count, batch.base_timestamp, batch.max_timestamp, records, producer, batch.last_offset_delta
    )
    return [header, records]


def encode_batch(entries: Sequence[RecordEntry], codec: int, producer: ProducerState) -> list[bytes | memoryview]:
    """Return a batch of these records: header and records.

    The offsets count from 0, the timestamps from the first record's.
    """
    base = highest = entries[0][1]
    parts: list[bytes] = []
    small, many, plain = SMALL, _MANY, _PLAIN
    index = 0
    for _, timestamp, record_tail in entries:
        if timestamp > highest:
            highest = timestamp
        delta = timestamp - base
        when = small[delta] if 0 <= delta < many else encode_varint(delta)
        where = small[index] if index < many else encode_varint(index)
        size = 1 + len(when) + len(where) + len(record_tail)
        parts += (small[size] if size < many else encode_varint(size), plain, when, where, record_tail)
        index += 1
    records = b"".join(parts)
    if codec != NONE:
        records = compress(records, codec)
    return [_header(codec, index, base, highest, records, producer, index - 1), records]


def encode_within_limit(
    entries: Sequence[RecordEntry], codec: int, producer: ProducerState, limit: int
) -> list[tuple[Sequence[RecordEntry], list[bytes | memoryview]]]:
    """Encode the records into as many batches as necessary, none larger than `limit` bytes."""
    made = encode_batch(entries, codec, producer)
    size = V2_SIZE + len(made[1])
    if size <= limit:
        return [(entries, made)]
    if len(entries) == 1:
        raise ConfigError(
            f"the record at offset {entries[0].offset} makes a batch of {size} bytes, and the target takes {limit}:"
            " raise max.message.bytes of the topic there"
        )
    middle = len(entries) // 2
    done = encode_within_limit(entries[:middle], codec, producer, limit)
    return done + encode_within_limit(entries[middle:], codec, producer.after(middle), limit)


def encode_tail(key: bytes | None, value: bytes | None) -> bytes:
    """Return the tail of a record without headers."""
    return b"".join((*_sized(key), *_sized(value), encode_varint(0)))


def _sized(content: bytes | None) -> tuple[bytes, bytes]:
    return (encode_varint(-1), b"") if content is None else (encode_varint(len(content)), content)


def _header(
    codec: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    records: bytes | memoryview,
    producer: ProducerState,
    last_offset_delta: int,
) -> bytes:
    attributes = codec & CODEC_MASK | (TRANSACTIONAL if producer.transactional else 0)
    size, times = V2_SIZE - OVERHEAD + len(records), (wrap_int64(base_timestamp), wrap_int64(max_timestamp))
    header = bytearray(V2.pack(0, size, -1, 2, 0, attributes, last_offset_delta, *times, *producer[:3], count))
    _CRC.pack_into(header, _CRC_AT, crc32c(records, crc32c(header[_CHECKED_AT:])))
    return bytes(header)
