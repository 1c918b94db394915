"""Who says what to whom: requests in flight, answers in order, SASL tokens, kproxy's own words."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS, newest_version, unsupported_version
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.greeting import Greeting, wrong_client, wrong_upstream
from kproxy.protocol.wire.primitives import uvarint
from kproxy.proxy.relay.inflight import MAX_IN_FLIGHT
from kproxy.proxy.relay.requests import MAX_TOKEN
from tests.unit.kafka_frames import (
    CHUNKINGS,
    Talk,
    asked,
    chunks,
    frame,
    request,
    response,
    string,
    tag_section,
    waiting,
)

EVERY_CALL = [
    (one.value, version)
    for one in APIS.values()
    for version in range(one.oldest, newest_version(one, TABLE_VERSIONS) + 1)
]
IDS = st.sampled_from([0, 1, 7, -1, 2147483647, -2147483648])
HEARTBEAT = 12


def raises(reason: str) -> pytest.RaisesExc[WireError]:
    return pytest.RaisesExc(WireError, check=lambda error: error.reason == reason)


def produce(version: int, acks: int, *, client_id: str | None = "me", transaction: str | None = None) -> bytes:
    """A Produce request's frame, with two tagged fields in its header if that is possible."""
    if version >= 9:
        raw = None if transaction is None else transaction.encode()
        body = uvarint(0 if raw is None else len(raw) + 1) + (raw or b"")
    else:
        body = string(transaction) if version >= 3 else b""
    body += struct.pack(">hi", acks, 30_000) + b"records" * 5
    return request(
        ApiKey.PRODUCE, version, body=body, client_id=client_id, tags=tag_section({0: b"", 5000: b"some tag"})
    )


# Requests


@given(sizes=CHUNKINGS, ids=st.lists(IDS, min_size=4, max_size=4), tail=st.binary(max_size=40))
def test_requests_of_every_api_and_version_pass_unchanged(sizes: list[int], ids: list[int], tail: bytes) -> None:
    said, expected = [], []
    for at, (key, version) in enumerate(EVERY_CALL):
        correlation_id = ids[at % len(ids)]
        if (key, version) == (ApiKey.SASL_HANDSHAKE, 0):
            continue  # has a test of its own
        if key == ApiKey.PRODUCE:
            said.append(produce(version, 1))
            correlation_id = 7
        else:
            said.append(request(key, version, correlation_id, tail))
        expected.append((correlation_id, key, version))
    talk = Talk()
    everything = b"".join(said)
    assert talk.client(*chunks(everything, [size * 9 for size in sizes])) == everything
    assert [(one, call.key, call.version) for one, call in waiting(talk.conversation) if call] == expected
    assert talk.held == 0


@given(sizes=CHUNKINGS)
@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("client_id", [None, "", "é" * 400])
@pytest.mark.parametrize("transaction", [None, "", "t" * 300])
def test_produce_without_acks_has_no_response(
    version: int, client_id: str | None, transaction: str | None, sizes: list[int]
) -> None:
    for acks in (0, 1, -1):
        talk = Talk()
        said = produce(version, acks, client_id=client_id, transaction=transaction)
        assert talk.client(*chunks(said, sizes)) == said
        assert talk.conversation.in_flight == abs(acks)


def test_requests_are_counted_by_api_and_version() -> None:
    talk = Talk()
    talk.client(request(ApiKey.METADATA, 12), request(ApiKey.METADATA, 12), request(ApiKey.METADATA, 1), produce(9, 0))
    counts = {(call.api, call.version): call.counters.count for call in talk.calls.values() if call}
    assert counts == {("Metadata", 12): 2, ("Metadata", 1): 1, ("Produce", 9): 1}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (request(99, 0), "unknown-api"),
        (request(4, 1), "unknown-api"),
        (request(-1, 0), "unknown-api"),
        (request(ApiKey.METADATA, 14), "unknown-version"),
        (request(ApiKey.METADATA, -1), "unknown-version"),
        (request(ApiKey.SHARE_FETCH, 0), "unknown-version"),
        (struct.pack(">ihhi", 1001, ApiKey.METADATA, 1, 7), "request-too-large"),
        (struct.pack(">ihhi", 1001, 99, 1, 7), "malformed"),
        (struct.pack(">ihhi", -1, ApiKey.METADATA, 1, 7), "malformed"),
        (struct.pack(">ihhi", 0, ApiKey.METADATA, 1, 7), "malformed"),
        (struct.pack(">ihhi", 9, ApiKey.METADATA, 1, 7), "malformed"),
        (struct.pack(">ihhi", -2147483648, ApiKey.METADATA, 1, 7), "malformed"),
        (struct.pack(">ihhih", 100, ApiKey.PRODUCE, 7, 7, -2) + bytes(90), "malformed"),
    ],
)
@pytest.mark.parametrize("step", [1, 5, 99])
def test_a_request_that_cannot_pass_is_refused_by_name(said: bytes, reason: str, step: int) -> None:
    with raises(reason):
        Talk(max_request=1000).client(*chunks(said, [step]))


def test_an_unknown_apiversions_request_is_not_long() -> None:
    """kproxy answers it itself, and keeps it until it is whole."""
    longest = 128 * 1024
    Talk().client(struct.pack(">ihhi", longest, ApiKey.API_VERSIONS, 99, 7))
    with raises("malformed"):
        Talk().client(struct.pack(">ihhi", longest + 1, ApiKey.API_VERSIONS, 99, 7))


def test_a_refused_request_does_not_pass() -> None:
    talk = Talk()
    with raises("unknown-version"):
        talk.client(request(ApiKey.METADATA, 1) + request(ApiKey.METADATA, 14))


def test_a_request_of_the_largest_size_streams() -> None:
    head = struct.pack(">ihhi", 1000, HEARTBEAT, 1, 7)
    talk = Talk(max_request=1000)
    assert talk.client(head, bytes(992), request(HEARTBEAT, 1)) == head + bytes(992) + request(HEARTBEAT, 1)
    assert talk.conversation.in_flight == 2


@pytest.mark.parametrize("version", [8, 9])
def test_a_produce_request_that_ends_before_its_acks_is_refused(version: int) -> None:
    with raises("malformed"):
        Talk().client(request(ApiKey.PRODUCE, version, body=b"\xff" if version == 8 else b"\x00\x00"))


def test_a_request_header_cannot_make_kproxy_hold_or_walk_much() -> None:
    for fields in (32, 33):
        many = request(ApiKey.PRODUCE, 9, body=bytes(20), tags=tag_section(dict.fromkeys(range(fields), b"")))
        if fields == 32:
            assert Talk().client(*chunks(many, [1])) == many
            continue
        with raises("malformed"):
            Talk().client(*chunks(many, [1]))
    talk = Talk()
    endless = struct.pack(">ihhihB", 50_000_000, ApiKey.PRODUCE, 9, 7, -1, 1) + b"\x00" + uvarint(40_000_000)
    with raises("malformed"):
        talk.client(endless, *[bytes(1000)] * 200)
    assert talk.held <= 132 * 1024


def test_requests_in_flight_are_limited() -> None:
    talk = Talk()
    many = request(HEARTBEAT, 1) * 1000
    with raises("too-many-in-flight"):
        for _ in range(MAX_IN_FLIGHT // 1000 + 1):
            talk.client(many)


# Responses


@given(sizes=CHUNKINGS, size=st.integers(0, 60), ids=st.lists(IDS, min_size=1, max_size=5))
def test_what_carries_no_endpoints_passes_unchanged(sizes: list[int], size: int, ids: list[int]) -> None:
    talk = Talk()
    talk.client(*(request(HEARTBEAT, 4, one) for one in ids))
    said = b"".join(response(HEARTBEAT, 4, bytes(size), one) for one in ids)
    assert talk.broker(*chunks(said, sizes)) == said
    assert talk.conversation.is_idle
    assert talk.rewritten == []


def test_a_long_response_is_not_held() -> None:
    talk = asked(ApiKey.FETCH, 11)
    head = struct.pack(">ii", 0x7FFFFFFF, 7)
    assert talk.broker(head, bytes(100_000)) == head + bytes(100_000)
    assert talk.held == 0
    assert not talk.conversation.is_idle


@pytest.mark.parametrize("step", [1, 99])
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (response(HEARTBEAT, 1, b"", 8), "correlation-mismatch"),
        (response(HEARTBEAT, 1, b"", 7) + response(HEARTBEAT, 1, b"", 7), "unsolicited-response"),
        (frame(b"abc") + bytes(9), "malformed"),
        (struct.pack(">iii", -1, 7, 0), "malformed"),
    ],
)
def test_a_response_that_fits_no_request_ends_the_session(said: bytes, reason: str, step: int) -> None:
    talk = asked(HEARTBEAT, 1)
    with raises(reason):
        talk.broker(*chunks(said, [step]))


def test_a_broker_cannot_speak_first() -> None:
    with raises("unsolicited-response"):
        Talk().broker(response(HEARTBEAT, 1, b""))


def test_correlation_ids_may_be_reused_and_order_decides() -> None:
    talk = Talk()
    talk.client(request(ApiKey.METADATA, 1, -5), request(HEARTBEAT, 1, -5), request(ApiKey.METADATA, 1, -5))
    node = struct.pack(">ii", 1, 2) + string("up.example") + struct.pack(">i", 9092) + string(None)
    here = struct.pack(">ii", 1, 2) + string("127.0.0.1") + struct.pack(">i", 20002) + string(None)
    assert talk.broker(response(ApiKey.METADATA, 1, node, -5)) == response(ApiKey.METADATA, 1, here, -5)
    assert talk.broker(response(HEARTBEAT, 1, node, -5)) == response(HEARTBEAT, 1, node, -5)
    assert talk.broker(response(ApiKey.METADATA, 1, node, -5)) == response(ApiKey.METADATA, 1, here, -5)
    assert talk.rewritten == [("Metadata", 1), ("Metadata", 1)]


def test_pipelined_responses_in_one_chunk_are_told_apart() -> None:
    talk = Talk()
    node = struct.pack(">ii", 1, 2) + string("up.example") + struct.pack(">i", 9092)
    here = struct.pack(">ii", 1, 2) + string("127.0.0.1") + struct.pack(">i", 20002)
    calls = [HEARTBEAT, ApiKey.METADATA, ApiKey.METADATA, HEARTBEAT, ApiKey.METADATA]
    talk.client(*(request(key, 0, at) for at, key in enumerate(calls)))
    said = b"".join(response(key, 0, node + b"tail", at) for at, key in enumerate(calls))
    heard = b"".join(
        response(key, 0, (here if key == ApiKey.METADATA else node) + b"tail", at) for at, key in enumerate(calls)
    )
    assert talk.broker(said) == heard


# ApiVersions that are newer than kproxy

NEWER = request(ApiKey.API_VERSIONS, 6, 9, b"\x05java\x05test\x00")


@pytest.mark.parametrize("step", [1, 999])
def test_newer_apiversions_is_answered_here_and_not_passed_on(step: int) -> None:
    talk = Talk()
    assert talk.client(*chunks(NEWER + request(ApiKey.API_VERSIONS, 3, 10), [step])) == request(
        ApiKey.API_VERSIONS, 3, 10
    )
    answer = talk.kproxy()
    # Error 35 in version 0, with the versions of ApiVersions itself (KIP-511)
    assert answer == frame(struct.pack(">ihihhh", 9, 35, 1, ApiKey.API_VERSIONS, 0, 5))
    assert talk.kproxy() == b""
    assert talk.conversation.in_flight == 1


@pytest.mark.parametrize("step", [1, 7, 999])
def test_its_answer_waits_for_its_turn(step: int) -> None:
    first, last = response(HEARTBEAT, 1, b"one", 1), response(HEARTBEAT, 1, b"two", 2)
    talk = Talk()
    asked_for = request(HEARTBEAT, 1, 1), request(HEARTBEAT, 1, 2)
    assert talk.client(asked_for[0] + NEWER + NEWER + asked_for[1]) == b"".join(asked_for)
    assert talk.kproxy() == b""
    own = unsupported_version(9)
    assert talk.broker(*chunks(first + last, [step])) == first + own + own + last
    assert talk.conversation.is_idle


def test_its_answer_comes_as_soon_as_it_is_its_turn() -> None:
    talk = asked(HEARTBEAT, 1)
    talk.client(NEWER)
    said = response(HEARTBEAT, 1, b"one")
    assert talk.broker(said) == said + unsupported_version(9)
    talk = asked(HEARTBEAT, 1)
    talk.client(NEWER)
    assert talk.broker(said[:9], said[9:]) == said + unsupported_version(9)


@given(sizes=CHUNKINGS, ids=st.lists(st.integers(0, 5) | st.just(0x7FFFFFFF), min_size=1, max_size=12))
def test_its_answers_wait_in_their_order(sizes: list[int], ids: list[int]) -> None:
    """Ids in a row are remembered as one; others, and the highest, too."""
    talk = asked(HEARTBEAT, 1)
    newer = b"".join(request(ApiKey.API_VERSIONS, 6, one) for one in ids)
    assert talk.client(*chunks(newer, sizes)) == b""
    assert talk.conversation.in_flight == 1 + len(ids)
    said = response(HEARTBEAT, 1, b"one")
    assert talk.broker(*chunks(said, sizes)) == said + b"".join(map(unsupported_version, ids))
    assert talk.conversation.is_idle
    assert talk.conversation.in_flight == 0


@pytest.mark.parametrize("stride", [1, 2])
def test_those_that_wait_are_limited_like_any_other(stride: int) -> None:
    talk = asked(HEARTBEAT, 1)
    many = b"".join(request(ApiKey.API_VERSIONS, 6, one) for one in range(0, 1000 * stride, stride))
    with raises("too-many-in-flight"):
        for _ in range(MAX_IN_FLIGHT // 1000 + 1):
            talk.client(many)
    assert talk.conversation.in_flight == MAX_IN_FLIGHT + 1


@pytest.mark.parametrize("key", [HEARTBEAT, ApiKey.METADATA, ApiKey.API_VERSIONS])
@pytest.mark.parametrize("cut", [3, 8, 12])
def test_its_answer_never_falls_into_another_response(key: int, cut: int) -> None:
    talk = asked(key, 0)
    said = response(key, 0, bytes(6))  # of no broker, of no API
    early = talk.broker(said[:cut])
    talk.client(NEWER)
    own = talk.kproxy()
    assert early + own + talk.broker(said[cut:]) == said + unsupported_version(9)


# SASL


def handshaken() -> Talk:
    """A conversation after SaslHandshake v0."""
    talk = Talk()
    handshake = request(ApiKey.SASL_HANDSHAKE, 0, body=string("PLAIN"))
    assert talk.client(handshake) == handshake
    agreed = response(ApiKey.SASL_HANDSHAKE, 0, struct.pack(">hi", 0, 1) + string("PLAIN"))
    assert talk.broker(agreed) == agreed
    return talk


TOKENS = [
    b"\x00alice\x00secret",
    b"",
    b"abc",
    b"n,,n=alice,r=fyko",
    b"c=biws,r=fyko,p=AAAA",
    b"\x05\x04\x04\xffwrapped",
]


@pytest.mark.parametrize("step", [1, 3, 999])
@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("reply", [b"", b"ok", b"r=fyko3rfc,s=QSX,i=4096"])
def test_after_handshake_v0_tokens_pass_until_the_next_request(token: bytes, reply: bytes, step: int) -> None:
    talk = handshaken()
    assert talk.client(*chunks(frame(token), [step])) == frame(token)
    assert talk.broker(*chunks(frame(reply), [step])) == frame(reply), "an answer to a token was held back"
    assert talk.client(*chunks(frame(token), [step])) == frame(token)
    assert talk.broker(*chunks(frame(reply), [step])) == frame(reply)
    assert talk.conversation.is_idle
    said, answer = request(HEARTBEAT, 1), response(HEARTBEAT, 1, b"")
    assert talk.client(*chunks(said, [step])) == said
    assert talk.broker(*chunks(answer, [step])) == answer
    with raises("unsolicited-response"):
        talk.broker(frame(b"token"))  # no longer


def test_a_token_reply_and_the_next_response_come_together() -> None:
    talk = handshaken()
    talk.client(frame(b"\x00alice\x00secret"))
    assert talk.broker(frame(b"")) == frame(b"")
    talk.client(request(ApiKey.METADATA, 1))
    empty = response(ApiKey.METADATA, 1, bytes(8))
    assert talk.broker(empty) == empty


@pytest.mark.parametrize("step", [1, 3, 999])
def test_a_gssapi_client_of_the_0_9_age_begins_with_a_token(step: int) -> None:
    talk = Talk()
    first = frame(b"\x60\x82\x02" + bytes(500))
    assert talk.client(*chunks(first, [step])) == first
    assert talk.broker(*chunks(frame(b"\x60reply"), [step])) == frame(b"\x60reply")
    assert talk.client(frame(b"")) == frame(b"")
    said = request(ApiKey.METADATA, 0)
    assert talk.client(said) == said
    assert talk.conversation.in_flight == 1


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (request(ApiKey.METADATA, 14), "unknown-version"),
        (request(4, 0), "unknown-api"),
        (request(100, 0), "unknown-api"),
        (frame(bytes(3), b"\x7f" * MAX_TOKEN), "malformed"),
        (struct.pack(">i", -1) + bytes(12), "malformed"),
    ],
)
def test_an_invalid_request_does_not_pass_as_a_token(said: bytes, reason: str) -> None:
    """Its response would pass as a token too, with whatever addresses it carries."""
    with raises(reason):
        handshaken().client(said)


def test_a_broker_may_send_no_token_larger_than_brokers_take() -> None:
    with raises("unsolicited-response"):
        handshaken().broker(struct.pack(">i", MAX_TOKEN + 1) + b"token")


def test_handshake_v1_is_followed_by_requests_only() -> None:
    talk = asked(ApiKey.SASL_HANDSHAKE, 1)
    agreed = response(ApiKey.SASL_HANDSHAKE, 1, struct.pack(">hi", 0, 0))
    assert talk.broker(agreed) == agreed
    authenticate = request(36, 2, body=b"\x0d\x00alice\x00secret\x00")
    assert talk.client(authenticate) == authenticate
    answer = response(36, 2, b"\x00\x00\x00\x01" + bytes(9))
    assert talk.broker(answer) == answer
    with raises("unknown-api"):
        talk.client(frame(b"\x00alice\x00secret"))


# Who is no Kafka client, and what is no broker


@pytest.mark.parametrize("step", [1, 2, 999])
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "client-speaks-http"),
        (bytes.fromhex("16030102000100"), "client-speaks-tls"),
        (b"\x05\x01\x00", "client-speaks-socks"),
        (b"SSH-2.0-OpenSSH", "client-speaks-ssh"),
        (b"PROXY TCP4 1.2.3.4", "client-speaks-proxy-protocol"),
    ],
)
def test_a_wrong_client_is_named_however_slowly_it_speaks(said: bytes, reason: str, step: int) -> None:
    talk = Talk()
    with raises(reason):
        talk.client(*chunks(said, [step]))
    assert not talk.conversation.requested


@pytest.mark.parametrize("step", [1, 2, 999])
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (bytes.fromhex("15030300020228"), "upstream-speaks-tls-alert"),
        (b"HTTP/1.1 400 Bad", "upstream-speaks-http"),
        (b"SSH-2.0-OpenSSH", "upstream-speaks-ssh"),
        (b"\x05\xff", "upstream-speaks-socks"),
    ],
)
def test_a_wrong_upstream_is_named_however_slowly_it_speaks(said: bytes, reason: str, step: int) -> None:
    talk = asked(ApiKey.METADATA, 1)
    with raises(reason):
        talk.broker(*chunks(said, [step]))
    assert not talk.conversation.answered


@pytest.mark.parametrize("greeting", Greeting)
def test_whoever_speaks_something_else_is_told_what_to_change(greeting: Greeting) -> None:
    for error, side in ((wrong_client(greeting), "client"), (wrong_upstream(greeting), "upstream")):
        assert error.reason == f"{side}-speaks-{greeting.value}"
        assert len(str(error)) > 60
        assert "\n" not in str(error)


def test_requested_and_answered_tell_of_whole_headers() -> None:
    talk = Talk()
    said, answer = request(HEARTBEAT, 1), response(HEARTBEAT, 1, b"")
    talk.client(said[:11])
    assert not talk.conversation.requested
    talk.client(said[11:])
    assert talk.conversation.requested
    talk.broker(answer[:7])
    assert not talk.conversation.answered
    talk.broker(answer[7:])
    assert talk.conversation.answered


# Settled


@pytest.mark.parametrize("step", [1, 7, 999])
def test_held_it_settles_with_the_last_byte_of_the_last_response(step: int) -> None:
    talk = Talk()
    conversation = talk.conversation
    said = request(HEARTBEAT, 1, 1), request(HEARTBEAT, 1, 2)
    talk.client(said[0][:-1])
    conversation.hold()
    assert not conversation.settled
    assert talk.client(said[0][-1:] + said[1]) == said[0][-1:]
    assert conversation.held
    for piece in chunks(response(HEARTBEAT, 1, b"one", 1), [step]):
        assert not conversation.settled
        talk.broker(piece)
    assert conversation.settled
    assert not conversation.is_idle, "a request waits"
    assert bytes(conversation.release(3.0)) == said[1]
    assert not conversation.settled


def test_nothing_is_asked_in_the_middle_of_a_request() -> None:
    talk = Talk()
    own = request(ApiKey.API_VERSIONS, 0, 9)
    with pytest.raises(AssertionError, match="half sent"):
        talk.conversation.ask(own, lambda _: None)
    talk.client(request(HEARTBEAT, 1, 1)[:-1])
    talk.conversation.hold()
    with pytest.raises(AssertionError, match="half sent"):
        talk.conversation.ask(own, lambda _: None)
