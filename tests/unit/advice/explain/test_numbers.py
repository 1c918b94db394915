"""Sizes and API keys that are another protocol's bytes."""

from __future__ import annotations

import struct

import pytest

from kproxy.advice.explain.codes import codes_by_number
from kproxy.advice.explain.numbers import decode, decode_key, decode_size
from kproxy.base.faults import Fault


@pytest.mark.parametrize("minor", range(5))
@pytest.mark.parametrize("length", [0, 1, 2, 255])
def test_every_version_of_tls(minor: int, length: int) -> None:
    (hello,) = struct.unpack(">i", bytes((0x16, 3, minor, length)))
    (alert,) = struct.unpack(">i", bytes((0x15, 3, minor, 0)))

    for number, fault in ((hello, Fault.TLS_TO_PLAINTEXT), (alert, Fault.PLAINTEXT_TO_TLS)):
        decoded = decode_size(number)
        assert decoded
        assert decoded.fault is fault
        assert ("SSL 3.0", "TLS 1.0", "TLS 1.1", "TLS 1.2", "TLS 1.3")[minor] in decoded.meaning


@pytest.mark.parametrize(
    ("number", "word"),
    [(1213486160, "HTTP"), (1195725856, "GET"), (1347375956, "POST"), (1397966893, "SSH-"), (1347571544, "PROX")],
)
def test_words(number: int, word: str) -> None:
    decoded = decode_size(number)

    assert decoded
    assert decoded.fault is Fault.NOT_KAFKA
    assert f'"{word}"' in decoded.meaning


@pytest.mark.parametrize("number", [0, 100, 104857600, -1, 2**31 - 1, 2**31, -(2**31) - 1, 200_000_000])
def test_real_sizes_are_left_alone(number: int) -> None:
    assert decode_size(number) is None


def test_an_api_key_that_is_a_hello() -> None:
    decoded = decode_key(-19711)

    assert decoded
    assert decoded.fault is Fault.TLS_TO_PLAINTEXT
    assert decode_key(3) is None
    assert decode("Unexpected api key -19711 in request").fault is Fault.TLS_TO_PLAINTEXT  # type: ignore[union-attr]


def test_codes_are_those_of_kafka() -> None:
    assert codes_by_number()[41].name == "NOT_CONTROLLER"
    assert codes_by_number()[3].retriable
    assert not codes_by_number()[29].retriable
    assert 0 not in codes_by_number()
