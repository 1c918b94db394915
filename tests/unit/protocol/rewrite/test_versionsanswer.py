"""ApiVersions responses of version 5 in the version that a client has asked for."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.versionsanswer import read_versions_answer
from kproxy.protocol.wire.messages import read_response
from kproxy.protocol.wire.primitives import INT16, INT32, Underflow, uvarint

APIS = [(0, 3, 13), (18, 0, 5), (3, 0, 13)]


def entries(*, flexible: bool) -> bytes:
    packed = b"".join(b"".join(map(INT16.pack, api)) + b"\0" * flexible for api in APIS)
    return (uvarint(len(APIS) + 1) if flexible else INT32.pack(len(APIS))) + packed


def feature(name: bytes, lowest: int, highest: int) -> bytes:
    return uvarint(len(name) + 1) + name + INT16.pack(lowest) + INT16.pack(highest) + b"\0"


def tagged(tag: int, content: bytes) -> bytes:
    return uvarint(tag) + uvarint(len(content)) + content


SUPPORTED = [feature(b"group.version", 0, 1), feature(b"metadata.version", 7, 33)]
OTHERS = [tagged(1, bytes(8)), tagged(2, b"\1"), tagged(9, b"a later one")]
ANSWER = (
    b"\0\0" + entries(flexible=True) + INT32.pack(5) + b"\4" + tagged(0, b"\3" + b"".join(SUPPORTED)) + b"".join(OTHERS)
)


def test_each_version_has_what_a_broker_sends_in_it() -> None:
    answer = read_versions_answer(ANSWER)
    assert answer.in_version(5) == answer.in_version(4) == ANSWER
    assert answer.in_version(3) == (
        b"\0\0" + entries(flexible=True) + INT32.pack(5) + b"\4" + tagged(0, b"\2" + SUPPORTED[1]) + b"".join(OTHERS)
    )
    assert answer.in_version(2) == answer.in_version(1) == b"\0\0" + entries(flexible=False) + INT32.pack(5)
    assert answer.in_version(0) == b"\0\0" + entries(flexible=False)


@pytest.mark.parametrize("version", range(6))
def test_a_client_can_read_it(version: int) -> None:
    fields: dict[str, Any] = read_response(18, version, read_versions_answer(ANSWER).in_version(version), 0)
    assert [tuple(api.values()) for api in fields["ApiKeys"]] == APIS


def test_features_that_all_begin_at_0_are_left_out_as_a_whole() -> None:
    only = b"\0\0" + entries(flexible=True) + INT32.pack(0) + b"\1" + tagged(0, b"\2" + SUPPORTED[0])
    assert read_versions_answer(only).in_version(3) == b"\0\0" + entries(flexible=True) + INT32.pack(0) + b"\0"


def test_an_api_may_have_tagged_fields() -> None:
    """No definition has any yet."""
    one = INT16.pack(18) + INT16.pack(0) + INT16.pack(5)
    body = b"\0\0\2" + one + b"\1" + tagged(3, b"x") + INT32.pack(0) + b"\0"
    answer = read_versions_answer(body)
    assert answer.in_version(5) == body
    assert answer.in_version(0) == b"\0\0" + INT32.pack(1) + one


def test_an_answer_in_version_0_says_that_the_broker_is_older() -> None:
    answer = read_versions_answer(INT16.pack(35) + INT32.pack(1) + INT16.pack(18) + INT16.pack(0) + INT16.pack(4))
    assert answer.error == 35


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0" + entries(flexible=False),  # version 0 without an error
        ANSWER[:-1],
        ANSWER + b"\0",
        b"\0\0" + uvarint(2**31) + bytes(9),
        b"\0\0\0" + bytes(5),  # null
        b"\0\0" + uvarint(4) + bytes(14),
    ],
)
def test_garbage_is_refused(body: bytes) -> None:
    with pytest.raises((Underflow, WireError)):
        read_versions_answer(body)


@given(st.integers(0, len(ANSWER) - 1), st.integers(0, 255), st.integers(0, 5))
def test_damaged_answers_raise_only_errors_of_the_wire(at: int, byte: int, version: int) -> None:
    damaged = ANSWER[:at] + bytes([byte]) + ANSWER[at + 1 :]
    with contextlib.suppress(Underflow, WireError):
        read_versions_answer(damaged).in_version(version)
