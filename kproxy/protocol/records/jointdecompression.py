"""Small batches decompressed together: for a batch of one record, a library of LZ4 or Zstandard takes longer to begin
than to decompress it.

What was compressed stands one behind the other, and behind each stand some bytes that nobody can foresee. So each ends
where its own bytes end, and none lends its neighbour any. Only what clients usually write comes here; all else, and all
that is wrong, is for `codecs.decompress`, batch by batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any

import cramjam

from kproxy.protocol.records.codecs import LZ4, ZSTD, lz4_checksum, zstd_frame

# No more than this comes out at once.
MAX_JOINT_SIZE = 8 << 20

_MARK = os.urandom(16)

# Magic and descriptor, and the size of the first block.
_LZ4_START = Struct("<7sI")
# A block of no bytes: the end of a frame.
_LZ4_END = bytes(4)
_LZ4_STORED = 1 << 31
# Headers of frames with blocks that stand for themselves, without checksums; and how much a block becomes at most.
_LZ4_USUAL = {
    b"\x04\x22\x4d\x18" + descriptor + bytes((lz4_checksum(descriptor),)): 1 << (8 + 2 * code)
    for code, descriptor in ((code, bytes((0x60, code << 4))) for code in range(4, 8))
}

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_DICTIONARY = 0x03

# What everything begins with, what of a batch follows, and the most that comes out of it.
_JointInput = tuple[bytes, memoryview, int]


@dataclass(frozen=True, slots=True)
class _JointCodec:
    """How batches are put one behind another. `look`: None for one that cannot be. `mark` stands behind each, `end`
    behind all."""

    library: Any
    look: Callable[[memoryview], _JointInput | None]
    mark: bytes
    end: bytes


def _lz4(data: memoryview) -> _JointInput | None:
    """As a block of one frame for all: old libraries read no second frame behind the first."""
    if len(data) < _LZ4_START.size or data[-4:] != _LZ4_END:
        return None
    header, size = _LZ4_START.unpack_from(data)
    most = _LZ4_USUAL.get(header)
    if most is None or not size or (size & ~_LZ4_STORED) + _LZ4_START.size + 4 != len(data):
        return None
    return header, data[7:-4], most


def _zstd(data: memoryview) -> _JointInput | None:
    """As a frame behind others."""
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
    """A frame that says its size, of one block that is not compressed: the last one (RFC 8878)."""
    return _ZSTD_MAGIC + bytes((0x20, len(data))) + (len(data) << 3 | 1).to_bytes(3, "little") + data


_CODECS = {
    LZ4: _JointCodec(cramjam.lz4, _lz4, _stored_by_lz4(_MARK), _LZ4_END),
    ZSTD: _JointCodec(cramjam.zstd, _zstd, _stored_by_zstd(_MARK), b""),
}


def decompress_jointly(compressed: Iterable[memoryview], codec: int) -> Iterator[bytes | None]:
    """What `decompress` makes of each; None for one that has to be decompressed by itself, right or wrong."""
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
