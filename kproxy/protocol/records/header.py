"""The headers of record batches: v2 (61 bytes), and messages of magic 0 and 1, which are batches of their own.

This module decodes no record, and computes a checksum only on request: a batch of an aborted transaction is skipped
without. https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop
from struct import Struct
from typing import NamedTuple
from zlib import crc32 as crc32_ieee

from crc32c import crc32c

from kproxy.base.errors import WireError
from kproxy.protocol.wire.primitives import malformed

# base offset, size, leader epoch, magic, CRC, attributes, last offset delta, base and maximum timestamp, producer id
# and epoch, base sequence, number of records
V2 = Struct(">qiibIhiqqqhii")
V2_SIZE = V2.size
# Offset and size; the size counts what follows.
OVERHEAD = 12
_START = Struct(">qi")
_MAGIC_AT = 16
# offset, size, CRC, magic, attributes, and with magic 1 the timestamp; then key and value
V0 = Struct(">qiIbb")
V1 = Struct(">qiIbbq")
# The smallest size of each magic; in magic 0 and 1 both lengths are then -1.
_SMALLEST = (14, 22, V2_SIZE - OVERHEAD)
# In v2 the CRC covers the bytes from the attributes on; in older ones, from the magic on.
_V2_CHECKED = 21
_OLD_CHECKED = 16

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

# The types of control batches.
ABORT, COMMIT = 0, 1

NO_TIMESTAMP = -1
_LAST = (1 << 63) - 1


class Batch(NamedTuple):
    """A batch in the log; `raw` has all its bytes.

    For a message of magic 0 or 1, `base_offset` is its own offset: with a codec, that of its last record; the first
    one's is known only after decoding. `count` is then -1.
    """

    base_offset: int
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides the method of tuples, which no code here needs
    raw: memoryview

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return self.magic == 2 and self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and self.attributes & CONTROL != 0

    @property
    def control(self) -> int | None:
        """ABORT or COMMIT; None for a batch that is no marker of these."""
        if not self.is_control or not self.count:
            return None
        # length, attributes, timestamp delta, offset delta, length of the key, then the key: version and type
        raw, at = self.raw, V2_SIZE
        try:
            for skipped in range(5):
                if skipped == 1:
                    at += 1
                    continue
                while raw[at] > 0x7F:
                    at += 1
                at += 1
            kind = int.from_bytes(raw[at + 2 : at + 4], "big") if at + 4 <= len(raw) else None
        except IndexError:
            kind = None
        if kind is None:
            raise malformed(f"the control batch at offset {self.base_offset} has no type")
        return kind if kind in (ABORT, COMMIT) else None

    def check(self) -> None:
        """Raise WireError if the checksum does not match the bytes."""
        if self.magic == 2:
            is_right = crc32c(self.raw[_V2_CHECKED:]) == self.crc
        else:
            is_right = crc32_ieee(self.raw[_OLD_CHECKED:]) == self.crc
        if not is_right:
            raise WireError("corrupt", f"the batch at offset {self.base_offset} has a wrong checksum: it is damaged")


def read_batches(buffer: memoryview) -> Iterator[Batch]:
    """Yield the batches of one partition in a Fetch response. A broker may cut the last one off anywhere."""
    at, end = 0, len(buffer)
    new, unpack = tuple.__new__, V2.unpack_from
    while end - at >= OVERHEAD:
        offset, size = _START.unpack_from(buffer, at)
        if size < _SMALLEST[0] or offset < 0:
            raise malformed(f"no batch has offset {offset} and {size} bytes")
        if end - at <= _MAGIC_AT:
            return
        magic = buffer[at + _MAGIC_AT]
        if magic > 2 or size < _SMALLEST[magic]:
            raise malformed(f"the batch at offset {offset} has magic {magic} and {size} bytes: no such batch exists")
        after = at + OVERHEAD + size
        if after > end:
            return
        raw = buffer[at:after]
        if magic == 2:
            batch: Batch = new(Batch, (*unpack(raw), raw))
            if batch.count < 0 or batch.last_offset_delta < 0 or offset + batch.last_offset_delta > _LAST:
                raise malformed(
                    f"the batch at offset {offset} says that it has {batch.count} records"
                    f" in {batch.last_offset_delta + 1} offsets"
                )
            yield batch
        else:
            yield _message(raw, magic)
        at = after


def _message(raw: memoryview, magic: int) -> Batch:
    timestamp = NO_TIMESTAMP
    if magic:
        offset, size, crc, _, attributes, timestamp = V1.unpack_from(raw)
    else:
        offset, size, crc, _, attributes = V0.unpack_from(raw)
    attributes &= 0xFF
    count = -1 if attributes & CODEC_MASK else 1
    return Batch(offset, size, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, count, raw)


def filter_committed(batches: Iterable[Batch], aborted: Iterable[tuple[int, int]] | None) -> Iterator[Batch]:
    """Return the batches that a read_committed consumer sees, of one partition in one Fetch response (KIP-98).

    `aborted` has the response's aborted transactions, (producer id, first offset) of each; None is as good as none.
    """
    waiting = [(first_offset, producer_id) for producer_id, first_offset in aborted or ()]
    heapify(waiting)
    aborted_producers: set[int] = set()
    for batch in batches:
        if batch.producer_id >= 0:
            last_offset = batch.last_offset
            while waiting and waiting[0][0] <= last_offset:
                aborted_producers.add(heappop(waiting)[1])
            if batch.is_control:
                if batch.control == ABORT:
                    aborted_producers.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in aborted_producers:
                continue
        if not batch.is_control:
            yield batch
