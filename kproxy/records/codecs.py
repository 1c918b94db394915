"""The codecs of record batches, as Kafka's clients write them. What comes out is bounded: a size that somebody claims
takes no memory before the bytes are there.
"""

from __future__ import annotations

import zlib

import cramjam

from kproxy.wire.primitives import Buffer, malformed

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
# No batch becomes larger than this.
LIMIT = 256 << 20

_GZIP = 16 + zlib.MAX_WBITS
# The framing of xerial's snappy-java, which Kafka's Java clients write: magic, version, oldest compatible version, and
# blocks of up to 32 KB, each with its size before it.
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 << 10
# An LZ4 frame as Java's client writes it: independent blocks of up to 64 KB, no checksums. Java reads no other kind.
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK = 64 << 10
_LZ4_STORED = 1 << 31


def compress(data: bytes, codec: int) -> bytes:
    """Raises WireError for a codec that is not one."""
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
    raise malformed(f"codec {codec} is none that Kafka has")


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
    """Raises WireError for what the codec did not make, and for what becomes larger than `limit` bytes."""
    try:
        if codec == NONE:
            return data
        if codec == GZIP:
            return _from_gzip(data, limit)
        if codec == SNAPPY:
            return _from_snappy(data, limit)
        if codec == LZ4:
            return _from_lz4(data, limit)
        if codec == ZSTD:
            return _from_zstd(data, limit)
    except (cramjam.DecompressionError, zlib.error, IndexError) as error:
        raise malformed(f"records that should be {NAMES[codec]} are not: {error}") from None
    raise malformed(f"codec {codec} is none that Kafka has")


def _too_large(limit: int) -> Exception:
    return malformed(f"the records of a batch would take more than {limit} bytes of memory")


def _from_gzip(data: Buffer, limit: int) -> bytes:
    """One member after the other, as Java reads them."""
    out = []
    room = limit
    while True:
        inflater = zlib.decompressobj(wbits=_GZIP)
        plain = inflater.decompress(data, room + 1)
        room -= len(plain)
        if room < 0:
            raise _too_large(limit)
        out.append(plain)
        if not inflater.eof:
            raise malformed("records that should be gzip end too early")
        data = inflater.unused_data
        if not data:
            return out[0] if len(out) == 1 else b"".join(out)


def _from_snappy(data: Buffer, limit: int) -> bytes:
    """In xerial's framing, or one raw block as other clients wrote it."""
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return _snappy_block(data, limit)
    out = []
    at, room = len(_XERIAL_HEADER), limit
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if at + size > len(data):
            raise malformed("records that should be snappy end too early")
        plain = _snappy_block(data[at : at + size], room)
        room -= len(plain)
        out.append(plain)
        at += size
    return b"".join(out)


def _snappy_block(data: Buffer, limit: int) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    # No snappy makes more than 64 bytes out of 3.
    if size > limit or size > 22 * len(data):
        raise _too_large(limit)
    return bytes(cramjam.snappy.decompress_raw(data))


def _from_lz4(data: Buffer, limit: int) -> bytes:
    return bytes(cramjam.lz4.decompress(data))


def _from_zstd(data: Buffer, limit: int) -> bytes:
    return bytes(cramjam.zstd.decompress(data))
