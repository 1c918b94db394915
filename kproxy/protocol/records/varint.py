"""The zigzag varints of records (v2): at most 32 bits in 5 bytes, or 64 bits in 10.

Reading raises IndexError if the buffer ends within a number: the callers, which walk over records, catch it once.
"""

from __future__ import annotations

from kproxy.protocol.wire.primitives import Buffer, malformed

_LONGEST = {32: 28, 64: 63}


def read_varint(buffer: Buffer, at: int, bits: int = 32) -> tuple[int, int]:
    """Return a number, and the offset behind it. As in Kafka, it may be longer than necessary."""
    raw = shift = 0
    longest = _LONGEST[bits]
    while True:
        byte = buffer[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > longest:
            raise malformed(f"a number of a record is longer than {bits} bits allow")
    raw &= (1 << bits) - 1  # Kafka drops the bits beyond, too
    return (raw >> 1) ^ -(raw & 1), at


def encode_varint(value: int) -> bytes:
    """Encode a number of up to 64 bits; higher bits are dropped, as in Java."""
    if -64 <= value < 64:
        return _ONE_BYTE[value << 1 if value >= 0 else (-value << 1) - 1]
    value = wrap_int64(value)
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def wrap_int64(value: int) -> int:
    """Wrap a number to 64 bits, as Java's `long` does: timestamps of a batch are relative to one of them."""
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)


_ONE_BYTE = tuple(bytes((raw,)) for raw in range(0x80))
# The encoded numbers from 0 to 8191, which most lengths and deltas are, for use without a call.
SMALL = tuple(encode_varint(number) for number in range(1 << 13))
