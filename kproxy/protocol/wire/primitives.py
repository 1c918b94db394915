"""Reading and writing the protocol's base types, with every bound checked.

Readers take a buffer and an offset and return the value and the offset after it. They raise `Underflow` when the buffer
ends too early (more bytes may follow) and `WireError` when no further bytes can help.
"""

from __future__ import annotations

from struct import Struct

from kproxy.base.errors import WireError

Buffer = bytes | bytearray | memoryview

INT16 = Struct(">h")
INT32 = Struct(">i")

# Kafka writes a string's length as int16, and refuses longer compact strings too (KIP-482).
MAX_STRING = 0x7FFF


class Underflow(Exception):
    """The buffer ends before the value does."""


def malformed(text: str) -> WireError:
    return WireError("malformed", text)


def read_uvarint(buffer: Buffer, at: int, end: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 5 bytes and 32 bits (KIP-482)."""
    if at < end and (byte := buffer[at]) < 0x80:  # nearly always
        return byte, at + 1
    value = shift = 0
    while at < end:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise malformed("a varint is larger than 32 bits")
            return value, at
        shift += 7
        if shift > 28:
            raise malformed("a varint is longer than 5 bytes")
    raise Underflow


def read_string(buffer: Buffer, at: int, end: int, *, compact: bool, nullable: bool) -> tuple[bytes | None, int]:
    """Read a string; None for null."""
    if compact:
        length, at = read_uvarint(buffer, at, end)
        length -= 1
    else:
        if end - at < 2:
            raise Underflow
        (length,) = INT16.unpack_from(buffer, at)
        at += 2
    if length < 0:
        if length == -1 and nullable:
            return None, at
        raise malformed("a string that cannot be null has a negative length")
    if length > MAX_STRING:
        raise malformed(f"a string of {length} bytes is longer than Kafka allows ({MAX_STRING})")
    if end - at < length:
        raise Underflow
    return bytes(buffer[at : at + length]), at + length


def read_size(buffer: Buffer, at: int, end: int, width: int, nullable: bool) -> tuple[int, int]:
    """Read the size of a string or of bytes, or the count of an array: -1 for null.

    `width` is the number of its bytes, 0 for an unsigned varint, which is one more than the size (KIP-482).
    """
    if width == 0:
        size, at = read_uvarint(buffer, at, end)
        size -= 1
    else:
        if end - at < width:
            raise Underflow
        (size,) = (INT16 if width == 2 else INT32).unpack_from(buffer, at)
        at += width
    if size < -1 or (size == -1 and not nullable):
        raise malformed("a field that cannot be null has a negative size")
    return size, at


def skip_tags(buffer: Buffer, at: int, end: int) -> int:
    """Return the offset after a tag buffer (KIP-482): count, then tag, size and bytes of each."""
    if at < end and not buffer[at]:
        return at + 1
    count, at = read_uvarint(buffer, at, end)
    for _ in range(count):
        _, at = read_uvarint(buffer, at, end)
        size, at = read_uvarint(buffer, at, end)
        at += size
        if at > end:
            raise Underflow
    return at


def uvarint(value: int, width: int = 0) -> bytes:
    """Encode an unsigned varint, padded with redundant continuation bytes to `width` bytes if asked."""
    if 0 <= value < 0x80 and width <= 1:
        return bytes((value,))
    out = list[int]()
    while True:
        byte = value & 0x7F
        value >>= 7
        if value or len(out) + 1 < width:
            out.append(byte | 0x80)
        else:
            out.append(byte)
            return bytes(out)


def string(value: bytes, *, compact: bool) -> bytes:
    """Encode a string that is not null. Raises WireError if it is longer than Kafka allows."""
    if len(value) > MAX_STRING:
        raise malformed(f"a string of {len(value)} bytes is longer than Kafka allows ({MAX_STRING})")
    return (uvarint(len(value) + 1) if compact else INT16.pack(len(value))) + value
