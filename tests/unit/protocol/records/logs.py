"""Logs for the tests of records, written plainly and slowly: by another hand than kproxy's own encoding."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

from crc32c import crc32c
from hypothesis import strategies as st

from kproxy.protocol.records.codecs import compress
from kproxy.protocol.records.decoding import Record, decode_records
from kproxy.protocol.records.header import Batch, read_batches
from kproxy.protocol.records.producebatches import ProduceBatch

NOW = 1_700_000_000_000
CODECS = range(5)


def zigzag(value: int) -> bytes:
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    raw = (value << 1 ^ value >> 63) & (1 << 64) - 1
    out = bytearray()
    while raw > 127:
        out.append(raw % 128 + 128)
        raw //= 128
    return bytes([*out, raw])


def sized(content: bytes | None) -> bytes:
    return zigzag(-1) if content is None else zigzag(len(content)) + content


def written(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """A record of v2."""
    body = b"\0" + zigzag(record.timestamp - base_timestamp) + zigzag(record.offset - base_offset)
    body += sized(record.key) + sized(record.value) + zigzag(len(record.headers))
    for name, value in record.headers:
        body += sized(name) + sized(value)
    return zigzag(len(body)) + body


def v2(
    inside: Sequence[Record],
    *,
    base: int | None = None,
    codec: int = 0,
    flags: int = 0,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    after: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    count: int | None = None,
    content: bytes | None = None,
) -> bytes:
    """A batch. `after`: how many offsets it has behind its last record, which a compaction took. `content`: what its
    records are before compression, if not these."""
    base = inside[0].offset if base is None else base
    last = (inside[-1].offset if inside else base) + after
    times = [record.timestamp for record in inside] or [-1]
    start = times[0] if base_timestamp is None else base_timestamp
    highest = max(times) if max_timestamp is None else max_timestamp
    if content is None:
        content = b"".join(written(record, base, start) for record in inside)
    body = struct.pack(
        ">hiqqqhii", codec | flags, last - base, start, highest, *producer, len(inside) if count is None else count
    )
    body += compress(content, codec)
    return struct.pack(">qiibI", base, len(body) + 9, 7, 2, crc32c(body)) + body


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    """A control batch: 0 is ABORT, 1 is COMMIT."""
    said = Record(offset, NOW, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 3), ())
    return v2([said], flags=0x30, producer=(producer_id, 0, -1))


def message(record: Record, magic: int, attributes: int = 0) -> bytes:
    """A message of magic 0 or 1."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", record.timestamp) if magic else b"")
    for content in (record.key, record.value):
        body += struct.pack(">i", -1 if content is None else len(content)) + (content or b"")
    return struct.pack(">qiI", record.offset, len(body) + 4, crc32(body)) + body


def wrapper(inside: Sequence[Record], magic: int, codec: int, append_time: int | None = None) -> bytes:
    """A compressed message with others in it: with magic 1 their offsets count from 0."""
    base = inside[0].offset if magic else 0
    plain = b"".join(message(record._replace(offset=record.offset - base), magic) for record in inside)
    when = max(record.timestamp for record in inside) if append_time is None else append_time
    outer = Record(inside[-1].offset, when, None, compress(plain, codec), ())
    return message(outer, magic, codec | (0 if append_time is None else 8))


def read(log: bytes) -> list[Batch]:
    return list(read_batches(memoryview(log)))


def decoded(log: bytes) -> list[Record]:
    return [record for batch in read(log) for record in decode_records(batch)]


def arrived(pieces: Sequence[ProduceBatch]) -> list[Record]:
    """The records of pieces, each with the offset that it had in the source."""
    found = []
    for piece in pieces:
        (batch,) = read(b"".join(piece.buffers))
        batch.check()
        assert (batch.base_offset, batch.magic, batch.size + 12, batch.count) == (0, 2, piece.size, piece.count)
        assert (batch.last_offset_delta, batch.base_sequence) == (batch.count - 1, piece.sequence)
        assert not batch.attributes & ~0x17
        offsets = [source + number for source, _, count in piece.runs for number in range(count)]
        assert [index for _, index, count in piece.runs for index in range(index, index + count)] == list(
            range(piece.count)
        )
        inside = decode_records(batch)
        assert batch.max_timestamp == max(record.timestamp for record in inside)
        found += [record._replace(offset=offset) for offset, record in zip(offsets, inside, strict=True)]
    return found


_content = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=70) | st.just(b"0123456789" * 120)
_timestamps = st.integers(NOW - 100, NOW + 100) | st.integers(-1, 1 << 45)


@st.composite
def some_records(draw: st.DrawFn, *, headers: bool = True, start: int | None = None) -> list[Record]:
    """Records in order of their offsets, with gaps or without."""
    offset = draw(st.integers(0, 1 << 40)) if start is None else start
    with_gaps = draw(st.booleans())
    found = []
    for _ in range(draw(st.integers(1, 12))):
        said = draw(st.lists(st.tuples(st.binary(max_size=4), _content), max_size=3)) if headers else []
        found.append(Record(offset, draw(_timestamps), draw(_content), draw(_content), tuple(said)))
        offset += draw(st.integers(1, 300)) if with_gaps else 1
    return found


@st.composite
def some_batch(draw: st.DrawFn, start: int) -> tuple[bytes, list[Record], int]:
    """A batch of any kind that is in a log, its records, and the offset behind it."""
    magic = draw(st.sampled_from([2, 2, 2, 1, 0]))
    codec = draw(st.sampled_from(CODECS if magic == 2 else range(4)))
    inside = draw(some_records(headers=magic == 2, start=start))
    append_time = draw(st.none() | st.just(NOW + 5)) if magic else None
    if magic < 2:
        inside = [record._replace(timestamp=-1 if magic == 0 else record.timestamp) for record in inside]
        if not codec:
            kept = [record._replace(timestamp=append_time or record.timestamp) for record in inside]
            log = b"".join(message(record, magic, 8 if append_time else 0) for record in kept)
            return log, kept, inside[-1].offset + 1
        log = wrapper(inside, magic, codec, append_time)
    elif append_time is not None:
        log = v2(inside, codec=codec, flags=0x08, max_timestamp=append_time)
    elif draw(st.booleans()):
        log = v2(inside, codec=codec, flags=draw(st.sampled_from([0, 0x10])), producer=(5, 1, 7))
    else:  # as a compaction leaves it
        base = start - draw(st.integers(0, min(start, 3)))
        after = draw(st.integers(0, 3))
        log = v2(inside, base=base, codec=codec, flags=0x40, base_timestamp=NOW + 999, after=after)
        return log, inside, inside[-1].offset + after + 1
    if append_time is not None:
        inside = [record._replace(timestamp=append_time) for record in inside]
    return log, inside, inside[-1].offset + 1


@st.composite
def some_log(draw: st.DrawFn) -> tuple[bytes, list[Record]]:
    """What a partition has from some offset on."""
    at = draw(st.integers(5, 1 << 40))
    log, inside = b"", []
    for _ in range(draw(st.integers(1, 8))):
        at += draw(st.sampled_from([3, 3, 50]))
        more, found, at = draw(some_batch(at))
        log, inside = log + more, inside + found
    return log, inside
