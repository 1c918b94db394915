"""Garbage, from either side: it passes, waits, or raises WireError; never more, never much memory."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite import response as rewriting
from kproxy.protocol.rewrite import walk
from kproxy.protocol.wire import definitions, primitives
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.primitives import uvarint
from tests.harness.compiled import replaces_a_method
from tests.unit.kafka_frames import (
    CARRIERS,
    CHUNKINGS,
    Talk,
    asked,
    chunks,
    encode,
    frame,
    messages,
    name_of,
    request,
    response,
    string,
)

HEARTBEAT = 12


def outcome(say: Callable[..., bytes], pieces: Iterable[bytes]) -> tuple[bytes, str]:
    """What passed before the end, and the reason of the end if it was refused."""
    passed = b""
    try:
        for piece in pieces:
            passed += say(piece)
    except WireError as error:
        return passed, error.reason
    return passed, ""


@pytest.mark.parametrize("size", [-1, 0, 3])
@pytest.mark.parametrize("before", [b"", response(HEARTBEAT, 0, bytes(2), 7)])
@pytest.mark.parametrize("step", [1, 2, 100])
def test_a_response_too_small_for_a_correlation_id_is_refused(size: int, before: bytes, step: int) -> None:
    """Nothing more of it comes: who waits for four bytes more waits for ever."""
    talk = asked(HEARTBEAT, 0)
    talk.client(request(HEARTBEAT, 0, 8))
    said = before + struct.pack(">i", size)
    assert outcome(talk.broker, chunks(said, [step])) == (before if step < 100 else b"", "malformed")


@pytest.mark.parametrize("size", [0, 3])
def test_so_is_one_that_nobody_has_asked_for(size: int) -> None:
    assert outcome(Talk().broker, [struct.pack(">i", size)]) == (b"", "malformed")


@pytest.mark.parametrize("size", [-1, 0, 3, 9])
@pytest.mark.parametrize("before", [b"", request(HEARTBEAT, 0)])
@pytest.mark.parametrize("step", [1, 100])
def test_so_is_a_request_too_small_for_its_header(size: int, before: bytes, step: int) -> None:
    said = before + struct.pack(">i", size)
    passed, reason = outcome(Talk().client, chunks(said, [step]))
    assert reason == "malformed"
    assert before.startswith(passed)


def test_tokens_may_be_of_any_size() -> None:
    """Those without a header (SaslHandshake v0), and the answer to PLAIN's, which is of size 0."""
    talk = asked(ApiKey.SASL_HANDSHAKE, 0)
    assert outcome(talk.client, [struct.pack(">i", 3), b"abc"]) == (struct.pack(">i", 3) + b"abc", "")
    handshake = response(ApiKey.SASL_HANDSHAKE, 0, bytes(6), 7)
    assert outcome(talk.broker, [handshake, bytes(4)]) == (handshake + bytes(4), "")


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.sampled_from(
            [b"", b"\x00", b"\xff", b"\x80\x80\x80\x80\x80\x80", b"\x7f\xff\xff\xff", b"\xff" * 8, b"\x01"]
        ),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=4,
)


def mutated(data: bytes, mutations: list[tuple[int, bytes, int]], *, mend_size: bool) -> bytes:
    """The frame with pieces replaced, and with a size that fits again if asked."""
    for at, new, replaced in mutations:
        at = 4 + at % max(1, len(data) - 4) if mend_size else at % len(data)
        data = data[:at] + new + data[at + replaced :]
    return struct.pack(">i", len(data) - 4) + data[4:] if mend_size else data


@pytest.mark.parametrize("call", CARRIERS, ids=name_of)
@given(data=st.data(), mutations=MUTATIONS, mend=st.booleans(), sizes=CHUNKINGS)
def test_mutated_responses_have_the_same_end_in_any_chunks(
    call: tuple[int, int], data: st.DataObject, mutations: list[tuple[int, bytes, int]], mend: bool, sizes: list[int]
) -> None:
    key, version = call
    name = f"{APIS[key].name}Response"
    values = data.draw(messages(name, version))
    said = response(key, version, encode(definitions.load_message(name), version, values))
    said = mutated(said, mutations, mend_size=mend)
    # Of a long frame, whatever part has come, the way depends on the first chunk; it has tests of its own.
    with patch.object(rewriting, "HOLD_WHOLE", 0x7FFFFFFF):
        whole, refused = outcome(asked(*call).broker, [said])
        for step in ([1], sizes):
            passed, reason = outcome(asked(*call).broker, chunks(said, step))
            assert reason == refused
            # Of one that is refused, more or less has left before, depending on the chunks.
            assert refused or passed == whole
    with patch.object(rewriting, "HOLD_WHOLE", 0):
        talk = asked(*call)
        outcome(talk.broker, chunks(said, sizes))
        assert talk.held <= len(said)


@given(said=st.binary(max_size=80), sizes=CHUNKINGS, before=st.sampled_from(["", "handshake"]))
def test_random_bytes_of_a_client(said: bytes, sizes: list[int], before: str) -> None:
    for size in (None, len(said)):
        talk = Talk()
        if before:
            talk.client(request(ApiKey.SASL_HANDSHAKE, 0, body=string("PLAIN")))
        data = said if size is None else frame(said)
        whole = Talk()
        if before:
            whole.client(request(ApiKey.SASL_HANDSHAKE, 0, body=string("PLAIN")))
        assert outcome(talk.client, chunks(data, sizes))[1] == outcome(whole.client, [data])[1]


@given(
    key=st.sampled_from([0, 1, 3, 17, 18, 36, 78]),
    version=st.integers(-1, 20),
    body=st.binary(max_size=60),
    mutations=MUTATIONS,
    sizes=CHUNKINGS,
)
def test_mutated_requests(
    key: int, version: int, body: bytes, mutations: list[tuple[int, bytes, int]], sizes: list[int]
) -> None:
    good = request(ApiKey.METADATA, 9)
    said = good + mutated(request(key, version, body=body), mutations, mend_size=False) + good
    one, other = Talk(), Talk()
    passed, refused = outcome(one.client, [said])
    slowly, reason = outcome(other.client, chunks(said, sizes))
    assert reason == refused
    if not refused:
        assert slowly == passed
        assert other.kproxy() == one.kproxy()


@given(said=st.binary(max_size=120), call=st.sampled_from(CARRIERS), sizes=CHUNKINGS)
def test_random_bytes_of_a_broker(said: bytes, call: tuple[int, int], sizes: list[int]) -> None:
    head = struct.pack(">i", 7)
    for data in (said, head + said, frame(head, said)):
        assert outcome(asked(*call).broker, chunks(data, sizes))[1] == outcome(asked(*call).broker, [data])[1]


# One by one

CUT = b"\x00" * 3
# The body up to the first count; then what may stand in its place.
BEFORE = {
    (ApiKey.METADATA, 1): b"",
    (ApiKey.METADATA, 12): b"\x00" + bytes(4),
    (ApiKey.FIND_COORDINATOR, 4): b"\x00" + bytes(4),
    (ApiKey.PRODUCE, 10): b"\x00",
    (ApiKey.FETCH, 16): b"\x00" + bytes(10),
    (ApiKey.SHARE_FETCH, 1): b"\x00" + bytes(6) + b"\x00" + bytes(4),
}
COUNTS = {
    False: [struct.pack(">i", count) for count in (-2, -1, -2147483648, 2147483647, 5)],
    True: [uvarint(0), uvarint(5), uvarint(0xFFFFFFFF), b"\xff\xff\xff\xff\x7f", b"\x80" * 64, b"\xff" * 64],
}


@pytest.mark.parametrize("step", [1, 999])
@pytest.mark.parametrize(
    ("call", "count"),
    [(call, count) for call in BEFORE for count in COUNTS[call[1] >= APIS[call[0]].flexible]],
    ids=lambda value: name_of(value) if isinstance(value, tuple) else value.hex()[:12],
)
def test_absurd_counts(call: tuple[int, int], count: bytes, step: int) -> None:
    said = frame(struct.pack(">i", 7), BEFORE[call], count, CUT)
    assert outcome(asked(*call).broker, chunks(said, [step])) == (b"", "malformed")
    with patch.object(rewriting, "HOLD_WHOLE", 0):
        assert outcome(asked(*call).broker, chunks(said, [step]))[1] == "malformed"


@pytest.mark.parametrize("step", [1, 999])
@pytest.mark.parametrize("host", [b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80", b"up.\xc3"])
@pytest.mark.parametrize("version", [1, 12])
def test_a_host_that_is_not_utf8(version: int, host: bytes, step: int) -> None:
    size = uvarint(len(host) + 1) if version == 12 else struct.pack(">h", len(host))
    count = b"\x02" if version == 12 else struct.pack(">i", 1)
    body = struct.pack(">i", 2) + size + host + struct.pack(">i", 9092) + b"\xff\xff" + bytes(9)
    said = frame(struct.pack(">i", 7), BEFORE[ApiKey.METADATA, version], count, body)
    assert outcome(asked(ApiKey.METADATA, version).broker, chunks(said, [step])) == (b"", "malformed")


@pytest.mark.parametrize("call", [call for call in CARRIERS if call[0] in (ApiKey.PRODUCE, ApiKey.FETCH)], ids=name_of)
def test_a_second_field_with_endpoints_is_refused(call: tuple[int, int]) -> None:
    node = b"\x02" + struct.pack(">i", 2) + b"\x03up" + struct.pack(">i", 9092) + b"\x00\x00"
    before = b"\x00" + (bytes(10) + b"\x01" if call[0] == ApiKey.FETCH else b"\x01" + bytes(4))
    field = b"\x00" + uvarint(len(node)) + node
    for tags in (b"\x02" + field + field, b"\x02" + field + b"\x80\x00" + field[1:]):
        said = frame(struct.pack(">i", 7), before, tags)
        assert outcome(asked(*call).broker, [said]) == (b"", "malformed")
        with patch.object(rewriting, "HOLD_WHOLE", 0):
            passed, reason = outcome(asked(*call).broker, chunks(said, [1]))
        assert reason == "malformed"
        assert b"up" not in passed
    for size in (len(node) - 1, len(node) + 1, 0):
        said = frame(struct.pack(">i", 7), before, b"\x01\x00", uvarint(size), node)
        assert outcome(asked(*call).broker, [said]) == (b"", "malformed")


def test_a_response_that_would_outgrow_its_size_field_is_refused() -> None:
    """Declared as the largest frame that there can be, and a local address that is longer."""
    talk = asked(ApiKey.METADATA, 0)
    node = struct.pack(">ii", 1, 2) + string("u") + struct.pack(">i", 9092)
    assert outcome(talk.broker, [struct.pack(">ii", 0x7FFFFFFF, 7) + node]) == (b"", "response-too-large")


# What comes before the first node, with the largest count that there is; a node without a host, which is no endpoint.
ENDLESS = {
    (ApiKey.METADATA, 1): (b"\x7f\xff\xff\xff", bytes(4) + b"\x00\x00" + bytes(4) + b"\xff\xff"),
    (ApiKey.FIND_COORDINATOR, 4): (bytes(5) + b"\xff\xff\xff\xff\x0f", b"\x01" + bytes(4) + b"\x01" + bytes(8)),
    (ApiKey.FETCH, 16): (
        bytes(11) + b"\x01\x01\x00\xff\xff\xff\xff\x0f\xff\xff\xff\xff\x0f",
        b"\x00\x00\x00\x01\x01" + bytes(6),
    ),
}


@pytest.mark.parametrize("call", ENDLESS, ids=name_of)
def test_what_is_held_is_limited_whatever_a_response_claims(call: tuple[int, int]) -> None:
    talk = asked(*call)
    before, node = ENDLESS[call]
    with patch.object(rewriting, "HOLD_LIMIT", 200_000):
        talk.broker(struct.pack(">ii", 0x7FFFFFFF, 7) + before)
        for _ in range(200_000 // len(node * 100)):
            talk.broker(node * 100)
            assert talk.held <= 200_000
        with pytest.raises(WireError, match="takes more than 195 KiB"):
            talk.broker(node * 200)


def test_endpoints_are_limited_in_number() -> None:
    node = bytes(4) + b"\x00\x01h" + bytes(4)
    count = 100_001
    said = frame(struct.pack(">ii", 7, count), node * count)
    assert outcome(asked(ApiKey.METADATA, 0).broker, [said]) == (b"", "too-many-endpoints")


class Reads:
    """Counts how often a walk reads a number; it does so once or twice in a step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        read = primitives.read_uvarint

        def counted(*arguments: Any) -> tuple[int, int]:
            self.count += 1
            return read(*arguments)

        monkeypatch.setattr(walk, "read_uvarint", counted)


@replaces_a_method
@pytest.mark.parametrize("step", [1, 17, 1 << 20])
@pytest.mark.parametrize(
    "body",
    [
        uvarint(3001) + (bytes(16) + b"\x01\x01\x63\x00") * 3000,  # topics, each with one empty tagged field
        uvarint(2) + bytes(16) + b"\x01" + uvarint(15000) + b"\x63\x00" * 15000,  # a topic with many of them
        uvarint(2) + bytes(16) + b"\x01\x01\x63" + uvarint(40000) + b"\x01\x63\x02" * 13333 + b"\x00",  # tags in a tag
    ],
    ids=["many-structs", "many-tags", "tags-in-tags"],
)
def test_a_walk_takes_steps_in_proportion_to_bytes(monkeypatch: pytest.MonkeyPatch, body: bytes, step: int) -> None:
    reads = Reads(monkeypatch)
    said = frame(struct.pack(">i", 7), b"\x00", bytes(10), body, b"\x00")
    talk = asked(ApiKey.FETCH, 16)
    assert talk.broker(*chunks(said, [step])) == said
    assert reads.count <= 3 * len(said)
