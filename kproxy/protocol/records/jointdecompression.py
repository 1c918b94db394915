"""Joint decompression of small batches.

For a batch of one record, a library of LZ4 or Zstandard takes longer to begin than to decompress it. So the compressed
data of many batches is joined, each followed by a random mark. The mark ends each batch's data exactly, so no batch can
take bytes of its neighbour. Only the usual formats of clients are joined; all else, and all errors, are left to
`codecs.decompress`, batch by batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any

import cramjam

from kproxy.protocol.records.codecs import LZ4, ZSTD, lz4_checksum, zstd_frame

# The largest joint output, in bytes.
MAX_JOINT_SIZE = 8 << 20

_MARK = os.urandom(16)

# Magic and descriptor, and the size of the first block.
_LZ4_START = Struct("<7sI")
# A block of no bytes: the end of a frame.
_LZ4_END = bytes(4)
_LZ4_STORED = 1 << 31
# The headers of frames with independent blocks and without checksums, and the largest decompressed block of each.
_LZ4_USUAL = {
    b"\x04\x22\x4d\x18" + descriptor + bytes((lz4_checksum(descriptor),)): 1 << (8 + 2 * code)
    for code, descriptor in ((code, bytes((0x60, code << 4))) for code in range(4, 8))
}

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_DICTIONARY = 0x03

# The beginning of the joint data, the part of one batch, and the largest size of its output.
_JointInput = tuple[bytes, memoryview, int]


@dataclass(frozen=True, slots=True)
class _JointCodec:
    """The joining of one codec's data."""

    library: Any
    look: Callable[[memoryview], _JointInput | None]  # None for data that cannot be joined
    mark: bytes  # behind the data of each batch
    end: bytes  # behind all


def _lz4(data: memoryview) -> _JointInput | None:
    """Return the data as a block of one joint frame: old libraries read no second frame behind the first."""
    if len(data) < _LZ4_START.size or data[-4:] != _LZ4_END:
        return None
    header, size = _LZ4_START.unpack_from(data)
    most = _LZ4_USUAL.get(header)
    if most is None or not size or (size & ~_LZ4_STORED) + _LZ4_START.size + 4 != len(data):
        return None
    return header, data[7:-4], most


def _zstd(data: memoryview) -> _JointInput | None:
    """Return the data as one of several frames."""
    try:
        if data[:4] != _ZSTD_MAGIC or data[4] & _ZSTD_DICTIONARY:
            return None
        after, claimed, most = zstd_frame(data, 4)
    except IndexError:
        return None
    return (b"", data, most) if after == len(data) and claimed <= most else None


def _stored_by_lz4(data: bytes) -> bytes:
    return (len(data) | _LZ4_STORED).to_bytes(4, "little") + data


def _stored_by_zstd(data: bytes) -> bytes:
    """Return a frame that states its size, with one uncompressed block, which is the last one (RFC 8878)."""
    return _ZSTD_MAGIC + bytes((0x20, len(data))) + (len(data) << 3 | 1).to_bytes(3, "little") + data


_CODECS = {
    LZ4: _JointCodec(cramjam.lz4, _lz4, _stored_by_lz4(_MARK), _LZ4_END),
    ZSTD: _JointCodec(cramjam.zstd, _zstd, _stored_by_zstd(_MARK), b""),
}


def decompress_jointly(compressed: Iterable[memoryview], codec: int) -> Iterator[bytes | None]:
    """Yield the decompressed bytes of each; None for one that must be decompressed separately, valid or not."""
    if codec not in _CODECS:
        yield from (None for _ in compressed)
        return
    joint_codec = _CODECS[codec]
    begin, parts, room = b"", list[memoryview](), MAX_JOINT_SIZE
    for data in compressed:
        share = joint_codec.look(data)
        if share is None:
            yield from _decompress_joined(joint_codec, begin, parts)
            parts, room = [], MAX_JOINT_SIZE
            yield None
            continue
        header, part, most = share
        if parts and (header != begin or most > room):
            yield from _decompress_joined(joint_codec, begin, parts)
            parts, room = [], MAX_JOINT_SIZE
        parts.append(part)
        begin, room = header, room - most
    yield from _decompress_joined(joint_codec, begin, parts)


def _decompress_joined(joint_codec: _JointCodec, begin: bytes, parts: list[memoryview]) -> list[bytes] | list[None]:
    separately: list[None] = [None] * len(parts)
    if len(parts) < 2:
        return separately
    joined = b"".join((begin, joint_codec.mark.join(parts), joint_codec.mark, joint_codec.end))
    try:
        contents = bytes(joint_codec.library.decompress(joined)).split(_MARK)
    except cramjam.DecompressionError:
        return separately
    return contents if len(contents) == len(parts) + 1 and not contents.pop() else separately
