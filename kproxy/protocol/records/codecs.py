"""The codecs of record batches, as Kafka's clients write them.

The size of the output is bounded: a claimed size takes no memory before the bytes exist.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from struct import Struct
from typing import Any

import cramjam

from kproxy.base.errors import WireError
from kproxy.protocol.wire.primitives import Buffer, malformed

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
# The largest decompressed batch, in bytes.
LIMIT = 256 << 20

_GZIP = 16 + zlib.MAX_WBITS
_GZIP_MEMBERS = 100
# The framing of xerial's snappy-java, which Kafka's Java clients write: magic, version, oldest compatible version, and
# blocks of up to 32 KB, each with its size before it.
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_SIZE = int.from_bytes(_XERIAL[:4], "big")  # where a block has its size
_XERIAL_BLOCK = 32 << 10
# An LZ4 frame as Java's client writes it: independent blocks of up to 64 KB, no checksums. Java reads no other kind.
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK = 64 << 10
_LZ4_STORED = 1 << 31
# The largest decompressed size of one byte.
_LZ4_RATIO = 255
_SNAPPY_RATIO = 22

_ZSTD_MAGIC, _ZSTD_SKIPPED = 0xFD2FB528, 0x184D2A50
_ZSTD_BLOCK = 128 << 10
_ZSTD_REPEATED, _ZSTD_PACKED = 1, 2
_ZSTD_SIZES = (0, 2, 4, 8)
_ZSTD_DICTIONARY = (0, 1, 2, 4)

_BIG, _LITTLE, _LONG = Struct(">I"), Struct("<I"), Struct("<Q")


def compress(data: bytes, codec: int) -> bytes:
    """Compress bytes. Raises WireError for an unknown codec."""
    if codec == NONE:
        return data
    if codec == GZIP:
        squeezer = zlib.compressobj(wbits=_GZIP)
        return squeezer.compress(data) + squeezer.flush()
    if codec == SNAPPY:
        return _snappy(data)
    if codec == LZ4:
        return _lz4(data)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, 3))
    raise malformed(f"Kafka has no codec {codec}")


def _snappy(data: bytes) -> bytes:
    out = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
        out += (len(block).to_bytes(4, "big"), block)
    return b"".join(out)


def _lz4(data: bytes) -> bytes:
    out = [_LZ4_HEADER]
    for at in range(0, len(data), _LZ4_BLOCK):
        plain = data[at : at + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += (len(block).to_bytes(4, "little"), block)
        else:
            out += ((len(plain) | _LZ4_STORED).to_bytes(4, "little"), plain)
    out.append(bytes(4))
    return b"".join(out)


def decompress(data: Buffer, codec: int, limit: int = LIMIT) -> Buffer:
    """Decompress bytes.

    Raises WireError for input of another format, and for output of more than `limit` bytes.
    """
    if codec == NONE:
        return data
    if codec not in _DECOMPRESSORS:
        raise malformed(f"Kafka has no codec {codec}")
    try:
        return _DECOMPRESSORS[codec](memoryview(data), limit)
    except (IndexError, struct.error):
        raise _cut_off(codec) from None
    except (cramjam.DecompressionError, zlib.error) as error:
        raise malformed(f"records that should be {NAMES[codec]} are not: {error}") from None


def _too_large(limit: int) -> WireError:
    return WireError("too-large", f"the records of a batch would take more than {limit} bytes of memory")


def _cut_off(codec: int) -> WireError:
    return malformed(f"records that should be {NAMES[codec]} end too early")


def _from_gzip(data: memoryview, limit: int) -> bytes:
    """Decompress one member after the other, as Java does."""
    out: list[bytes] = []
    remaining: Buffer = data
    room = limit
    while True:
        inflater = zlib.decompressobj(wbits=_GZIP)
        plain = inflater.decompress(remaining, room + 1)
        room -= len(plain)
        if room < 0:
            raise _too_large(limit)
        out.append(plain)
        if not inflater.eof:
            raise _cut_off(GZIP)
        remaining = inflater.unused_data
        if not remaining:
            return out[0] if len(out) == 1 else b"".join(out)
        if len(out) == _GZIP_MEMBERS:
            raise malformed("records that should be gzip have more members than any client writes")


def _from_snappy(data: memoryview, limit: int) -> bytes:
    """Decompress xerial's framing, or one raw block as other clients write it."""
    if data[: len(_XERIAL)] != _XERIAL:
        return _snappy_block(data, limit, limit)
    if len(data) < len(_XERIAL_HEADER):
        raise _cut_off(SNAPPY)
    out = []
    at, room = len(_XERIAL_HEADER), limit
    while at < len(data):
        (size,) = _BIG.unpack_from(data, at)
        if size == _XERIAL_SIZE and data[at : at + len(_XERIAL)] == _XERIAL:  # one stream behind another
            at += len(_XERIAL_HEADER)
            continue
        at += 4
        if at + size > len(data):
            raise _cut_off(SNAPPY)
        plain = _snappy_block(data[at : at + size], room, limit)
        room -= len(plain)
        out.append(plain)
        at += size
    return out[0] if len(out) == 1 else b"".join(out)


def _snappy_block(data: memoryview, room: int, limit: int) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > room:
        raise _too_large(limit)
    if size > _SNAPPY_RATIO * len(data):
        raise malformed(f"records that should be snappy are not: {len(data)} bytes cannot become {size}")
    return bytes(cramjam.snappy.decompress_raw(data))


def _from_lz4(data: memoryview, limit: int) -> bytes:
    """Decompress the first frame, as Java does."""
    if data[:4] != _LZ4_MAGIC:
        raise malformed("records that should be lz4 do not begin as an LZ4 frame")
    flags, size_code = data[4], data[5] >> 4
    largest = 1 << (8 + 2 * size_code)  # 4 to 7: 64 KB to 4 MB
    if flags >> 6 != 1 or flags & 0x01 or not 4 <= size_code <= 7:
        raise malformed("records that should be lz4 are of a kind that Kafka does not have")
    header = 6 + (8 if flags & 0x08 else 0)
    claimed = _LONG.unpack_from(data, 6)[0] if flags & 0x08 else 0
    checksum = lz4_checksum(bytes(data[4:header]))
    at, most = header + 1, 0
    while True:
        (size,) = _LITTLE.unpack_from(data, at)
        at += 4
        if not size:
            break
        stored, size = size & _LZ4_STORED, size & ~_LZ4_STORED
        most += size if stored else min(largest, size * _LZ4_RATIO)
        at += size + (4 if flags & 0x10 else 0)
    at += 4 if flags & 0x04 else 0
    if at > len(data):
        raise _cut_off(LZ4)
    frame: Buffer = data[:at]
    if data[header] != checksum:
        # Kafka wrote a wrong checksum into messages of magic 0 (KAFKA-3160).
        frame = bytes(data[:header]) + bytes((checksum,)) + bytes(data[header + 1 : at])
    return _within(cramjam.lz4, frame, claimed, most, limit)


def _from_zstd(data: memoryview, limit: int) -> bytes:
    at = most = claimed = 0
    while at < len(data):
        (magic,) = _LITTLE.unpack_from(data, at)
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPED:
            at += 8 + _LITTLE.unpack_from(data, at + 4)[0]
            continue
        if magic != _ZSTD_MAGIC:
            raise malformed("records that should be zstd do not begin as a Zstandard frame")
        at, claims, makes = zstd_frame(data, at + 4)
        claimed, most = claimed + claims, most + makes
    if at != len(data):
        raise _cut_off(ZSTD)
    return _within(cramjam.zstd, data, claimed, most, limit)


def zstd_frame(data: memoryview, at: int) -> tuple[int, int, int]:
    """Return the end of a frame, the size that it claims, and the largest size of its blocks (RFC 8878)."""
    described = data[at]
    single = described & 0x20
    field = _ZSTD_SIZES[described >> 6] or (1 if single else 0)
    at += 1 + (0 if single else 1) + _ZSTD_DICTIONARY[described & 0x03]
    claimed = int.from_bytes(data[at : at + field], "little")
    at += field
    most = 0
    while True:
        block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        kind, size = block >> 1 & 0x03, block >> 3
        most += _ZSTD_BLOCK if kind == _ZSTD_PACKED else min(size, _ZSTD_BLOCK)
        at += 3 + (1 if kind == _ZSTD_REPEATED else size)
        if block & 1:
            return at + (4 if described & 0x04 else 0), claimed, most


def _within(library: Any, frame: Buffer, claimed: int, most: int, limit: int) -> bytes:
    """Decompress a frame within the limit.

    `claimed` is the size that the frame claims; `most` is the largest size that its blocks can have.
    """
    if claimed > most:
        raise malformed(f"compressed records cannot become the {claimed} bytes that they claim to be")
    if claimed > limit:
        raise _too_large(limit)
    if most <= limit:
        return bytes(library.decompress(frame))
    room = bytearray(limit)
    try:
        return bytes(memoryview(room)[: library.decompress_into(frame, room)])
    except cramjam.DecompressionError as error:
        raise _too_large(limit) if "whole buffer" in str(error) else error from None


@lru_cache(maxsize=64)
def lz4_checksum(descriptor: bytes) -> int:
    """Return the second byte of the XXH32 of fewer than 16 bytes: the checksum of an LZ4 frame's descriptor."""
    mixed = 374761393 + len(descriptor)
    at = 0
    while at + 4 <= len(descriptor):
        mixed = mixed + _LITTLE.unpack_from(descriptor, at)[0] * 3266489917 & 0xFFFFFFFF
        mixed = (mixed << 17 | mixed >> 15) * 668265263 & 0xFFFFFFFF
        at += 4
    for byte in descriptor[at:]:
        mixed = mixed + byte * 374761393 & 0xFFFFFFFF
        mixed = (mixed << 11 | mixed >> 21) * 2654435761 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 15) * 2246822519 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 3266489917 & 0xFFFFFFFF
    return (mixed ^ mixed >> 16) >> 8 & 0xFF


_DECOMPRESSORS = {GZIP: _from_gzip, SNAPPY: _from_snappy, LZ4: _from_lz4, ZSTD: _from_zstd}
