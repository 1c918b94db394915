"""What a client says of itself in its first request."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import uvarint
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.relay.introduction import (
    HEAD,
    LONGEST_NAME,
    NO_INTRODUCTION,
    Introduction,
    is_long_enough,
    read_introduction,
)
from tests.unit.kafka_frames import CHUNKINGS, Counted, chunks, request


def compact(text: str) -> bytes:
    return bytes([len(text.encode()) + 1]) + text.encode()


HELLO = request(ApiKey.API_VERSIONS, 3, 1, compact("apache-kafka-java") + compact("4.1.0") + b"\0", client_id="billing")


def test_a_client_with_a_name_and_software() -> None:
    assert read_introduction(HELLO) == Introduction("billing", "apache-kafka-java 4.1.0")
    assert read_introduction(memoryview(HELLO + b"more")) == read_introduction(HELLO)


def test_an_old_client_says_its_name_only() -> None:
    assert read_introduction(request(ApiKey.METADATA, 1, 1, b"\0\0\0\0", client_id="old")) == Introduction("old", "")


def test_no_client_id() -> None:
    frame = struct.pack(">ihhih", 10, ApiKey.METADATA, 1, 1, -1)
    assert read_introduction(frame) == NO_INTRODUCTION


@pytest.mark.parametrize("end", range(len(HELLO)))
def test_a_part_of_it_says_less_and_harms_nobody(end: int) -> None:
    said = read_introduction(HELLO[:end])
    assert said.client_id in ("", "billing")
    assert said.software in ("", "apache-kafka-java 4.1.0")


def test_names_are_cut_and_escaped() -> None:
    said = read_introduction(request(ApiKey.METADATA, 1, 1, b"", client_id="\x1b[31m" + "x" * 400))
    assert len(said.client_id) < LONGEST_NAME + 30
    assert "\x1b" not in said.client_id


def test_a_name_that_is_too_long_to_look_at_is_left_out() -> None:
    assert read_introduction(request(ApiKey.METADATA, 1, 1, b"", client_id="x" * (HEAD + 1))) == NO_INTRODUCTION


@given(st.binary(max_size=64))
def test_nonsense(data: bytes) -> None:
    assert isinstance(read_introduction(data), Introduction)


@pytest.mark.parametrize(
    ("request_bytes", "enough_from"),
    [
        (HELLO, len(HELLO)),
        (request(ApiKey.METADATA, 1, 1, bytes(2 * HEAD), client_id="old"), HEAD),
        (struct.pack(">iB", 300, 0x60) + bytes(300), 5),  # a Kerberos token (RFC 2743 §3.1), in which there is no name
    ],
    ids=["short", "long", "token"],
)
def test_how_much_of_a_request_has_the_introduction(request_bytes: bytes, enough_from: int) -> None:
    lengths = [length for length in range(len(request_bytes) + 1) if is_long_enough(request_bytes[:length])]
    assert lengths == list(range(enough_from, len(request_bytes) + 1))
    assert read_introduction(request_bytes[:enough_from]) == read_introduction(request_bytes)


# In a session

SILENT = request(ApiKey.API_VERSIONS, 0, 1, b"", client_id="billing")
LOGIN = request(ApiKey.SASL_HANDSHAKE, 1, 2, b"\0\5PLAIN", client_id="billing")


@given(sizes=CHUNKINGS)
def test_a_java_client_that_logs_in_says_its_software_later(sizes: list[int]) -> None:
    """Before the login it sends a version of ApiVersions that has no names (`SaslClientAuthenticator`)."""
    conversation = Conversation(Calls(lambda code, name, version: Counted()), lambda found: [], 1024)
    fetch = request(ApiKey.METADATA, 1, 4, b"\0\0\0\0", client_id="billing")
    sent = SILENT + LOGIN + HELLO + fetch
    assert b"".join(bytes(conversation.from_client(piece, 1.0)) for piece in chunks(sent, sizes)) == sent
    assert conversation.introduction == Introduction("billing", "apache-kafka-java 4.1.0")
    assert conversation.in_flight == 4


@given(sizes=CHUNKINGS)
def test_the_first_names_count(sizes: list[int]) -> None:
    conversation = Conversation(Calls(lambda code, name, version: Counted()), lambda found: [], 1 << 20)
    other = request(ApiKey.API_VERSIONS, 3, 2, compact("other") + compact("1") + b"\0", client_id="other")
    long = request(ApiKey.API_VERSIONS, 3, 3, compact("x" * 100) + compact("1") + b"\0" * 5000)
    sent = HELLO + other + long + SILENT
    assert b"".join(bytes(conversation.from_client(piece, 1.0)) for piece in chunks(sent, sizes)) == sent
    assert conversation.introduction == Introduction("billing", "apache-kafka-java 4.1.0")


@given(sizes=CHUNKINGS, version=st.integers(0, 2), token=st.binary(max_size=300))
def test_the_message_of_a_login_that_passes(sizes: list[int], version: int, token: bytes) -> None:
    tokens: list[bytes] = []
    conversation = Conversation(
        Calls(lambda code, name, version: Counted()), lambda found: [], 1 << 20, on_token=tokens.append
    )
    body = struct.pack(">i", len(token)) + token if version < 2 else uvarint(len(token) + 1) + token + b"\0"
    login = request(ApiKey.SASL_AUTHENTICATE, version, 3, body, client_id="billing")
    after = request(ApiKey.METADATA, 1, 4, b"\0\0\0\0", client_id="billing")
    sent = SILENT + LOGIN + login + after
    assert b"".join(bytes(conversation.from_client(piece, 1.0)) for piece in chunks(sent, sizes)) == sent
    assert tokens == [token]
    assert conversation.in_flight == 4


@given(sizes=CHUNKINGS, version=st.integers(0, 2), body=st.binary(max_size=40), extra=st.sampled_from([0, 3000]))
def test_a_login_that_cannot_be_read_passes(sizes: list[int], version: int, body: bytes, extra: int) -> None:
    tokens: list[bytes] = []
    conversation = Conversation(
        Calls(lambda code, name, version: Counted()), lambda found: [], 1 << 20, on_token=tokens.append
    )
    sent = SILENT + LOGIN + request(ApiKey.SASL_AUTHENTICATE, version, 3, body + bytes(extra), client_id=None)
    assert b"".join(bytes(conversation.from_client(piece, 1.0)) for piece in chunks(sent, sizes)) == sent
    assert len(tokens) == 1
