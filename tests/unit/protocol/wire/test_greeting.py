"""Protocols that are not Kafka's are recognised; Kafka's is never mistaken for one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.greeting import ENOUGH, Greeting, recognise

HUNDRED_MIB = 100 * 1024 * 1024

SPOKEN = [
    (Greeting.TLS, bytes.fromhex("160301020001")),
    (Greeting.TLS, bytes.fromhex("160303007a02")),
    (Greeting.TLS_ALERT, bytes.fromhex("15030300020228")),
    (Greeting.TLS_ALERT, bytes.fromhex("15030100020246")),
    *((Greeting.HTTP, word + b" / HTTP/1.1") for word in (b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS")),
    (Greeting.HTTP, b"CONNECT broker:9092 HTTP/1.1"),
    (Greeting.HTTP, b"PATCH / HTTP/1.1"),
    (Greeting.HTTP, b"TRACE / HTTP/1.1"),
    (Greeting.HTTP, b"PRI * HTTP/2.0\r\n"),
    (Greeting.HTTP, b"HTTP/1.0 400 Bad Request"),
    (Greeting.SSH, b"SSH-2.0-OpenSSH_9.6"),
    (Greeting.SOCKS, b"\x05\x01\x00"),
    (Greeting.SOCKS, b"\x05\x02\x00\x02"),
    (Greeting.SOCKS, b"\x05\x03\x00\x01\x02"),
    (Greeting.SOCKS, b"\x04\x01\x23\x84\x0a\x00\x00\x01\x00"),
    (Greeting.SOCKS, b"\x04\x01\x23\x84\x7f\x00\x00\x01me\x00"),
    (Greeting.PROXY, b"PROXY TCP4 10.0.0.1 10.0.0.2 5000 9092\r\n"),
    (Greeting.PROXY, b"\r\n\r\n\x00\r\nQUIT\n\x21\x11"),
]


@pytest.mark.parametrize(("greeting", "first"), SPOKEN, ids=[f"{g.value}-{first[:8].hex()}" for g, first in SPOKEN])
def test_what_is_not_kafka_is_recognised_by_its_first_bytes(greeting: Greeting, first: bytes) -> None:
    assert recognise(first[:ENOUGH]) is greeting
    if greeting is not Greeting.SOCKS:
        assert recognise(first[:ENOUGH], from_upstream=True) is greeting


def test_every_greeting_is_spoken_above() -> None:
    assert {greeting for greeting, _ in SPOKEN} == set(Greeting)


def test_a_socks_server_says_no_with_two_bytes() -> None:
    assert recognise(b"\x05\xff", from_upstream=True) is Greeting.SOCKS
    assert recognise(b"\x05\xff") is None


SIZES = st.integers(10, HUNDRED_MIB) | st.sampled_from(
    # Those whose first bytes are SOCKS's
    [0x04010000, 0x04020000, 0x0401FFFF, *(0x05000000 | n << 16 | 0x1234 for n in range(1, 12)), HUNDRED_MIB]
)
IDS = st.sampled_from([0, 1, 256, -1, 2147483640])


@given(size=SIZES, correlation_id=IDS, client_id=st.sampled_from([-1, 0, 4, 32767]))
def test_no_first_request_of_a_kafka_client_is_mistaken(size: int, correlation_id: int, client_id: int) -> None:
    for one in APIS.values():
        for version in range(one.newest + 1):
            first = struct.pack(">ihhih", size, one.value, version, correlation_id, client_id) + b"me"
            assert recognise(first[:ENOUGH]) is None


@given(size=st.integers(0, HUNDRED_MIB) | SIZES, rest=st.binary(min_size=1, max_size=9), count=st.integers(3, ENOUGH))
def test_no_first_response_of_a_broker_is_mistaken(size: int, rest: bytes, count: int) -> None:
    assert recognise((struct.pack(">i", size) + rest)[:count], from_upstream=True) is None


@given(size=st.integers(0, 524288), token=st.binary(max_size=8))
def test_no_first_token_is_mistaken(size: int, token: bytes) -> None:
    """A GSSAPI client of the 0.9 age begins with one."""
    assert recognise(struct.pack(">i", size) + b"\x60" + token) is None


@given(st.binary(max_size=3))
def test_too_few_bytes_say_nothing(first: bytes) -> None:
    greeting = recognise(first)
    assert greeting in (None, Greeting.TLS, Greeting.TLS_ALERT, Greeting.SOCKS)
    assert len(first) == 3 or greeting is None
