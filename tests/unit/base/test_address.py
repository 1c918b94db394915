"""Addresses as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.address import Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("broker:9092", "broker", 9092),
        (" broker.example.com:1 ", "broker.example.com", 1),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("münchen.example:65535", "münchen.example", 65535),
        ("[::1]:9092", "::1", 9092),
        ("[2001:db8::1]:9092", "2001:db8::1", 9092),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ("under_score:9092", "under_score", 9092),
    ],
)
def test_host_and_port(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address(host, port)


@pytest.mark.parametrize(("text", "host"), [("broker", "broker"), ("broker:", "broker"), ("[::1]", "::1")])
def test_a_default_port(text: str, host: str) -> None:
    assert Address.parse(text, default_port=9092) == Address(host, 9092)
    with pytest.raises(ValueError, match="has no port"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "HOST:PORT"),
        (":9092", "HOST:PORT"),
        ("a b:9092", "HOST:PORT"),
        ("kafka://b:9092", "IPV6"),
        ("b/x:9092", "HOST:PORT"),
        ("user@b:9092", "HOST:PORT"),
        ("a,b:9092", "HOST:PORT"),
        ("b:65536", "0 to 65535"),
        ("b:-1", "0 to 65535"),
        ("b:9092x", "0 to 65535"),
        ("b:٣", "0 to 65535"),
        ("b: 9092", "0 to 65535"),
        ("::1:9092", "ambiguous"),
        ("[::1:9092", "IPV6"),
        ("[::1]9092", "IPV6"),
        ("[broker]:9092", "not an IPv6 address"),
        ("[]:9092", "not an IPv6 address"),
    ],
)
def test_what_is_no_address_is_refused_with_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Address.parse(text)


@given(st.sampled_from(["broker", "10.0.0.1", "::1", "2001:db8::ff", "fe80::1%lo"]), st.integers(0, 65535))
def test_an_address_is_read_as_printed(host: str, port: int) -> None:
    assert Address.parse(str(Address(host, port))) == Address(host, port)


@pytest.mark.parametrize(
    ("host", "wildcard"),
    [("0.0.0.0", True), ("::", True), ("0:0::0", True), ("127.0.0.1", False), ("::1", False), ("broker", False)],
)
def test_wildcards(host: str, wildcard: bool) -> None:
    assert Address(host, 1).is_wildcard is wildcard
