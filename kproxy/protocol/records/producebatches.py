"""The batches of one partition, prepared for Produce requests of another cluster: each by the cheapest correct method.

- *verbatim*: header patched, records untouched. Batches that a broker would misread or refuse do not pass here: batches
with gaps, with timestamps of the broker (0x08), with a delete horizon (0x40), of magic 0 and 1. - *re-encoded*: the
same records in the same order, with the same codec, as one batch or more. - *merged*: many small batches as one. A
batch costs a copier about 60 µs and a broker 240 µs, however small it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kproxy.base.errors import WireError
from kproxy.protocol.records.codecs import NAMES, NONE, decompress
from kproxy.protocol.records.decoding import MAX_RECORDS_AT_ONCE, add_entries, decode_entries, walk_records
from kproxy.protocol.records.encoding import ProducerState, RecordEntry, encode_within_limit, patch_header
from kproxy.protocol.records.header import CODEC_MASK, DELETE_HORIZON, LOG_APPEND_TIME, V2_SIZE, Batch
from kproxy.protocol.records.jointdecompression import decompress_jointly
from kproxy.protocol.wire.primitives import malformed

VERBATIM, RE_ENCODED, MERGED = "verbatim", "re-encoded", "merged"

# The target size of merged batches: bytes on the wire by codec, and bytes when decompressed.
_MERGED_SIZE = (512 << 10, 64 << 10, 64 << 10, 64 << 10, 64 << 10)
_MERGED_PLAIN_SIZE = 1 << 20
# The time that merging a batch saves, in µs: all of a copier's work on a batch, and a part of a broker's, which runs in
# parallel.
_BATCH_COST = 150.0
# The cost of merging: µs a record, and µs a byte on the wire by codec. `python -m bench --parts records` measures it
# with data that does not compress well; other data costs more a byte.
_RECORD_COST = 1.1
_BYTE_COST = (0.0003, 0.1, 0.01, 0.01, 0.02)

_NEVER_VERBATIM = LOG_APPEND_TIME | DELETE_HORIZON


@dataclass(frozen=True, slots=True)
class ProduceBatch:
    """One batch for a Produce request."""

    buffers: Sequence[bytes | memoryview]  # its bytes, in order
    size: int
    count: int
    sequence: int  # of its first record
    runs: Sequence[tuple[int, int, int]]  # (source offset, index in this batch, count), in order
    checksums: Sequence[int]
    """The CRCs of the source batches that end with this batch; a split batch counts at its last part."""
    method: str  # VERBATIM, RE_ENCODED or MERGED


def produce_batches(
    batches: Iterable[Batch], *, first: int, end: int, limit: int, producer: ProducerState
) -> Iterator[ProduceBatch]:
    """Yield the records with offsets from `first` to before `end`, in batches of at most `limit` bytes each.

    The input must have neither markers nor aborted records (`filter_committed`). Each batch's checksum is checked. The
    next call continues with `producer.after(batch.count)` of each yielded batch.
    """
    last = -1
    for piece in _produce_batches(batches, first, end, limit, producer):
        source, _, count = piece.runs[-1]
        if piece.runs[0][0] <= last:
            raise _disorder(piece.runs[0][0], last)
        last = source + count - 1
        yield piece


def _disorder(offset: int, last: int) -> WireError:
    return malformed(f"offset {offset} comes after offset {last} in one partition")


def _produce_batches(
    batches: Iterable[Batch], first: int, end: int, limit: int, producer: ProducerState
) -> Iterator[ProduceBatch]:
    pending: list[Batch] = []
    pending_size = pending_codec = room = 0
    for batch in batches:
        base, size, _, _, _, attributes, delta, _, _, _, _, _, count, _ = batch  # faster than field by field
        if not count or base + delta < first or (base >= end and count >= 0):
            continue
        batch.check()
        codec = attributes & CODEC_MASK
        if codec >= len(NAMES):
            raise malformed(f"the batch at offset {batch.base_offset} has codec {codec}: Kafka has none of this number")
        # A batch that must be decoded anyway can as well be merged.
        small = count * _RECORD_COST + size * _BYTE_COST[codec] < _BATCH_COST or not _fits_verbatim(batch, first, end)
        if pending and (not small or codec != pending_codec or pending_size + size > room):
            for piece in _convert(pending, first, end, limit, producer):
                yield piece
                producer = producer.after(piece.count)
            pending, pending_size = [], 0
        pending.append(batch)
        pending_size += size
        pending_codec, room = codec, min(_MERGED_SIZE[codec], limit // 4 * 3) if small else 0
    if pending:
        yield from _convert(pending, first, end, limit, producer)


def _fits_verbatim(batch: Batch, first: int, end: int) -> bool:
    return (
        batch.magic == 2
        and not batch.attributes & _NEVER_VERBATIM
        and batch.count == batch.last_offset_delta + 1
        and first <= batch.base_offset
        and batch.last_offset < end
    )


def _convert(pending: list[Batch], first: int, end: int, limit: int, producer: ProducerState) -> Iterator[ProduceBatch]:
    size = sum(len(batch.raw) for batch in pending)
    checksums = [batch.crc for batch in pending]
    if len(pending) == 1:
        batch = pending[0]
        if size <= limit and _fits_verbatim(batch, first, end):
            runs = ((batch.base_offset, 0, batch.count),)
            yield ProduceBatch(
                patch_header(batch, producer), size, batch.count, producer.sequence, runs, checksums, VERBATIM
            )
            return
    method = RE_ENCODED if len(pending) == 1 else MERGED
    batch_before: ProduceBatch | None = None
    for entries in _group_entries(pending, first, end):
        for part, buffers in encode_within_limit(entries, pending[0].codec, producer, limit):
            if batch_before:
                yield batch_before
            batch_before = ProduceBatch(
                buffers, V2_SIZE + len(buffers[1]), len(part), producer.sequence, _runs(part), (), method
            )
            producer = producer.after(len(part))
    if batch_before:
        yield replace(batch_before, checksums=checksums)


def _group_entries(pending: list[Batch], first: int, end: int) -> Iterator[list[RecordEntry]]:
    """Yield the records of each new batch, if they fit."""
    gathered: list[RecordEntry] = []
    size = 0
    begin, contents = _record_bytes(pending)
    for batch, content in zip(pending, contents, strict=True):
        if content is not None and batch.count <= MAX_RECORDS_AT_ONCE:
            if gathered and (
                len(gathered) + batch.count > MAX_RECORDS_AT_ONCE or size + len(content) > _MERGED_PLAIN_SIZE
            ):
                yield gathered
                gathered, size = [], 0
            add_entries(batch, content, begin, first, end, gathered)
            size += len(content)
            continue
        for entries in (
            decode_entries(batch, first, end) if content is None else walk_records(batch, content, begin, first, end)
        ):
            more = sum(len(content) for _, _, content in entries)
            if gathered and (len(gathered) + len(entries) > MAX_RECORDS_AT_ONCE or size + more > _MERGED_PLAIN_SIZE):
                yield gathered
                gathered, size = [], 0
            gathered += entries
            size += more
    if gathered:
        yield gathered


def _record_bytes(pending: list[Batch]) -> tuple[int, Iterable[bytes | None]]:
    """Return the start of the records in the bytes, and the bytes of each batch; None for old batches."""
    codec = pending[0].codec
    if any(batch.magic < 2 for batch in pending):
        return 0, [None] * len(pending)
    if codec == NONE:
        return V2_SIZE, [batch.raw.tobytes() for batch in pending]
    return 0, _decompress_all([batch.raw[V2_SIZE:] for batch in pending], codec)


def _decompress_all(compressed: list[memoryview], codec: int) -> Iterator[bytes]:
    for data, content in zip(compressed, decompress_jointly(compressed, codec), strict=True):
        yield bytes(decompress(data, codec)) if content is None else content


def _runs(entries: Sequence[RecordEntry]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    start = index = 0
    source = expected = entries[0][0]
    for offset, _, _ in entries:
        if offset != expected:
            if offset < expected:
                raise _disorder(offset, expected - 1)
            runs.append((source, start, index - start))
            source, start = offset, index
        expected = offset + 1
        index += 1
    runs.append((source, start, index - start))
    return runs
