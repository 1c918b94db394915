from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.records.varint import SMALL, encode_varint, read_varint, wrap_int64
from tests.unit.protocol.records.logs import zigzag


@given(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300))
def test_there_and_back(number: int) -> None:
    packed = encode_varint(number)
    assert packed == zigzag(number)
    assert read_varint(b"x" + packed + b"x", 1, 64) == (number, 1 + len(packed))
    if -(1 << 31) <= number < 1 << 31:
        assert read_varint(packed, 0) == (number, len(packed))


def test_the_table() -> None:
    assert all(packed == zigzag(number) for number, packed in enumerate(SMALL))


# As Kafka's ByteUtils reads them.
READ = {
    b"\x00": 0,
    b"\x01": -1,
    b"\x80\x00": 0,  # longer than needed
    b"\xff\xff\xff\xff\x0f": -(1 << 31),
    b"\xfe\xff\xff\xff\x0f": (1 << 31) - 1,
    b"\xfe\xff\xff\xff\x7f": (1 << 31) - 1,  # bits beyond 32 are dropped
}


@pytest.mark.parametrize(("packed", "number"), READ.items(), ids=[packed.hex() for packed in READ])
def test_what_kafka_reads(packed: bytes, number: int) -> None:
    assert read_varint(packed, 0) == (number, len(packed))


@pytest.mark.parametrize(("packed", "bits"), [(b"\x80" * 5 + b"\0", 32), (b"\x80" * 10 + b"\0", 64)])
def test_one_that_is_too_long(packed: bytes, bits: int) -> None:
    with pytest.raises(WireError, match=f"longer than {bits} bits"):
        read_varint(packed, 0, bits)


@pytest.mark.parametrize("packed", [b"", b"\x80", b"\x80\x80"])
def test_one_that_is_cut_off(packed: bytes) -> None:
    with pytest.raises(IndexError):
        read_varint(packed, 0)


@given(st.integers(-(1 << 65), 1 << 65))
def test_overflow_is_java_s(number: int) -> None:
    assert -(1 << 63) <= wrap_int64(number) < 1 << 63
    assert (wrap_int64(number) - number) % (1 << 64) == 0
    assert encode_varint(number) == encode_varint(wrap_int64(number))
