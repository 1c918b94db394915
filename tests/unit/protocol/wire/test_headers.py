"""How frames begin. tests/unit/proxy/relay tests the compiled forms where they are used (`make test-compiled`)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.wire import headers

INT32 = st.integers(-(2**31), 2**31 - 1)


@given(INT32, st.integers(0, 2**32 - 1), INT32, st.binary(max_size=5), st.sampled_from([bytes, bytearray, memoryview]))
def test_both_headers(size: int, code: int, correlation_id: int, before: bytes, kind: type) -> None:
    request = kind(before + struct.pack(">iIi", size, code, correlation_id))
    assert headers.read_request(request, len(before)) == (size, code, correlation_id)
    response = kind(before + struct.pack(">ii", size, correlation_id))
    assert headers.read_response(response, len(before)) == (size, correlation_id)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_stands_where(kind: type) -> None:
    buffer = kind(b"abcabc")
    assert headers.matches_at(b"abc", buffer, 3)
    assert headers.matches_at(b"", buffer, 6)
    assert not headers.matches_at(b"abd", buffer, 3)
    assert not headers.matches_at(b"abc", buffer, 4)
