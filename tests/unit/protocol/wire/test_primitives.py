"""The protocol's base types, at their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.wire.primitives import MAX_STRING, Underflow, read_string, read_uvarint, string, uvarint


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 5), st.binary(max_size=3))
def test_a_varint_is_read_as_written(value: int, width: int, after: bytes) -> None:
    written = uvarint(value, width)
    assert len(written) == max(width, len(uvarint(value)))
    assert read_uvarint(written + after, 0, len(written + after)) == (value, len(written))
    for end in range(len(written)):
        with pytest.raises(Underflow):
            read_uvarint(written, 0, end)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (0xFFFFFFFF, "ffffffff0f")],
)
def test_varints_as_kip_482_has_them(value: int, written: str) -> None:
    assert uvarint(value).hex() == written


@pytest.mark.parametrize("written", ["ffffffff10", "ffffffff7f", "8080808080", "80808080808080", "ffffffffff01"])
def test_a_varint_is_at_most_32_bits_and_5_bytes(written: str) -> None:
    with pytest.raises(WireError):
        read_uvarint(bytes.fromhex(written), 0, len(written) // 2)


@given(st.binary(max_size=200), st.booleans(), st.binary(max_size=3))
def test_a_string_is_read_as_written(value: bytes, compact: bool, after: bytes) -> None:
    written = string(value, compact=compact)
    data = b"xy" + written + after
    assert read_string(data, 2, len(data), compact=compact, nullable=False) == (value, 2 + len(written))
    for end in range(2, 2 + len(written)):
        with pytest.raises(Underflow):
            read_string(data, 2, end, compact=compact, nullable=False)


@pytest.mark.parametrize(("compact", "null"), [(True, b"\x00"), (False, b"\xff\xff")])
def test_null(compact: bool, null: bytes) -> None:
    assert read_string(null, 0, len(null), compact=compact, nullable=True) == (None, len(null))
    with pytest.raises(WireError):
        read_string(null, 0, len(null), compact=compact, nullable=False)


def test_lengths_that_cannot_be() -> None:
    with pytest.raises(WireError):
        read_string(b"\xff\xfe", 0, 2, compact=False, nullable=True)
    with pytest.raises(WireError):  # at once, without waiting for the bytes
        read_string(uvarint(MAX_STRING + 2), 0, 3, compact=True, nullable=True)
    with pytest.raises(WireError):
        string(bytes(MAX_STRING + 1), compact=True)
    longest = string(bytes(MAX_STRING), compact=True)
    assert read_string(longest, 0, len(longest), compact=True, nullable=False)[1] == len(longest)
