"""Looking on at a session: what is seen does not depend on chunks, nor on when somebody began to look."""

from __future__ import annotations

import struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kproxy.base.address import Address
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.relay.introduction import HEAD
from kproxy.proxy.relay.observer import Exchange, Observer
from tests.unit.kafka_frames import CHUNKINGS, Talk, chunks, frame, request, response

HEARTBEAT = 12
Seen = tuple[str, int, int, int, int | None]


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


HELLO = request(ApiKey.API_VERSIONS, 3, 1, compact("librdkafka") + compact("2.3.0") + b"\0", client_id="billing")
SAID = [
    HELLO,
    request(ApiKey.LIST_OFFSETS, 2, 2, b"x" * 700, client_id="billing"),
    request(HEARTBEAT, 0, 3, b"y", client_id="billing"),
    request(ApiKey.FETCH, 11, 4, b"z" * 90, client_id="billing"),
    request(HEARTBEAT, 0, 5, b"y", client_id="billing"),
]
ANSWERED = [
    response(ApiKey.API_VERSIONS, 3, struct.pack(">h", 0) + b"\1" + bytes(5), 1),
    response(ApiKey.LIST_OFFSETS, 2, b"o" * 2000, 2),
    response(HEARTBEAT, 0, struct.pack(">h", 27), 3),
    response(ApiKey.FETCH, 11, struct.pack(">ih", 0, 0) + bytes(500), 4),
    response(HEARTBEAT, 0, struct.pack(">h", 0), 5),
]
ALL: list[Seen] = [
    ("ApiVersions", 3, len(HELLO) - 4, len(ANSWERED[0]) - 4, 0),
    ("ListOffsets", 2, len(SAID[1]) - 4, len(ANSWERED[1]) - 4, None),
    ("Heartbeat", 0, len(SAID[2]) - 4, len(ANSWERED[2]) - 4, 27),
    ("Fetch", 11, len(SAID[3]) - 4, len(ANSWERED[3]) - 4, 0),
    ("Heartbeat", 0, len(SAID[4]) - 4, len(ANSWERED[4]) - 4, 0),
]


def short(exchange: Exchange) -> Seen:
    return exchange.api, exchange.version, exchange.request_size, exchange.response_size, exchange.error


def observed() -> tuple[Observer, list[Exchange]]:
    seen: list[Exchange] = []
    return Observer(seen.append), seen


@given(sizes=CHUNKINGS, others=CHUNKINGS)
def test_any_chunks(sizes: list[int], others: list[int]) -> None:
    observer, seen = observed()
    for piece in chunks(b"".join(SAID), [size * 5 for size in sizes]):
        observer.from_client(memoryview(piece), 10.0)
    for piece in chunks(b"".join(ANSWERED), [size * 5 for size in others]):
        observer.to_client(memoryview(piece), 10.5)
    assert [short(one) for one in seen] == ALL
    assert {(one.at, one.seconds) for one in seen} == {(10.0, 0.5)}
    assert {one.client_id for one in seen} == {"billing"}
    assert {one.software for one in seen} == {"librdkafka 2.3.0"}


@given(data=st.data())
def test_beginning_in_the_middle(data: st.DataObject) -> None:
    """Of what begins afterwards all is seen, and nothing that is not there."""
    said, answered = b"".join(SAID), b"".join(ANSWERED)
    first = data.draw(st.integers(0, len(said)))
    whole = 0  # responses that the broker may have sent by then
    at = 0
    while whole < len(SAID) and at + len(SAID[whole]) <= first:
        at += len(SAID[whole])
        whole += 1
    second = data.draw(st.integers(0, sum(map(len, ANSWERED[:whole]))))
    talk, sizes = Talk(), data.draw(CHUNKINGS)
    talk.client(*chunks(said[:first], [size * 7 for size in sizes]))
    talk.broker(*chunks(answered[:second], [size * 7 for size in sizes]))
    seen: list[Exchange] = []
    start = talk.conversation.observer_start
    assume(start is not None)  # no response is half rewritten
    assert start is not None
    observer = Observer(seen.append, start)
    for piece in chunks(said[first:], [size * 7 for size in sizes]):
        observer.from_client(piece, 1.0)
        talk.client(piece)
    for piece in chunks(answered[second:], [size * 7 for size in sizes]):
        observer.to_client(talk.broker(piece), 2.0)
    begun_after = ALL[whole + (at < first) :] if first < len(said) else []
    found = [short(one) for one in seen]
    assert found[-len(begun_after) :] == begun_after if begun_after else len(found) <= 1
    assert all(one in ALL for one in found)


def test_a_request_without_a_response() -> None:
    """acks=0: nobody waits for it, and it is told when a later one is answered."""
    observer, seen = observed()
    observer.from_client(request(ApiKey.PRODUCE, 7, 1, b"r" * 50) + request(HEARTBEAT, 0, 2), 1.0)
    assert seen == []
    observer.to_client(response(HEARTBEAT, 0, struct.pack(">h", 0), 2), 1.25)
    assert [(one.api, one.seconds) for one in seen] == [("Produce", None), ("Heartbeat", 0.25)]


def test_what_waits_is_bounded() -> None:
    observer, seen = observed()
    for number in range(10_100):
        observer.from_client(request(ApiKey.PRODUCE, 7, number), 1.0)
    assert len(seen) == 100


def test_answers_to_earlier_requests_are_not_shown() -> None:
    observer, seen = observed()
    observer.from_client(request(HEARTBEAT, 0, 1), 1.0)
    observer.to_client(response(ApiKey.METADATA, 2, b"m" * 30, 3), 1.5)
    observer.to_client(response(HEARTBEAT, 0, struct.pack(">h", 0), 1), 2.0)
    assert [short(one)[0] for one in seen] == ["Heartbeat"]


def test_addresses_that_were_rewritten() -> None:
    """They belong to the response that comes next, if it is of an API that has addresses."""
    observer, seen = observed()
    localise = observer.wrap_localise(lambda found: [Address("127.0.0.1", 19094) for _ in found.nodes])
    rewritten = Endpoints((Endpoint(NodeKind.BROKER, 1, Address("kafka-1\x1b[2J", 9092)),))
    answers = [response(ApiKey.METADATA, 4, bytes(40), 1), response(HEARTBEAT, 0, struct.pack(">h", 0), 2)]
    observer.from_client(request(ApiKey.METADATA, 4, 1) + request(HEARTBEAT, 0, 2), 1.0)
    localise(rewritten)
    observer.to_client(b"".join(answers), 1.5)
    observer.from_client(request(ApiKey.METADATA, 4, 3), 1.0)
    observer.to_client(response(ApiKey.METADATA, 4, bytes(40), 3)[:20], 1.5)
    localise(rewritten)  # of a response that has begun already
    observer.to_client(bytes(28), 1.5)
    observer.from_client(request(ApiKey.METADATA, 4, 4), 1.0)
    observer.to_client(response(ApiKey.METADATA, 4, bytes(40), 4), 2.0)
    shown = (("kafka-1\\x1b[2J:9092", "127.0.0.1:19094"),)
    assert [(one.api, one.rewritten) for one in seen] == [
        ("Metadata", shown), ("Heartbeat", ()), ("Metadata", ()), ("Metadata", ()),
    ]  # fmt: skip


@pytest.mark.parametrize("client_id", ["", "\x1b[31m\u202e", "x" * 32_000, "é" * 300])
def test_names_are_escaped_and_cut(client_id: str) -> None:
    observer, seen = observed()
    observer.from_client(request(HEARTBEAT, 0, 1, client_id=client_id), 1.0)
    observer.to_client(response(HEARTBEAT, 0, struct.pack(">h", 0), 1), 1.5)
    assert seen[0].client_id.isprintable()
    assert len(seen[0].client_id) < 200


def test_tokens_without_headers_are_not_looked_at() -> None:
    observer, seen = observed()
    observer.from_client(request(ApiKey.SASL_HANDSHAKE, 0, 1, b"\0\5PLAIN"), 1.0)
    observer.from_client(frame(b"\0alice\0secret-secret-secret"), 1.0)
    observer.to_client(response(ApiKey.SASL_HANDSHAKE, 0, bytes(6), 1) + frame(b""), 1.5)
    assert seen == []
    assert "secret" not in repr([getattr(observer, name) for name in vars(observer)])


@given(said=st.lists(st.binary(max_size=400), max_size=8), answered=st.lists(st.binary(max_size=400), max_size=8))
def test_garbage(said: list[bytes], answered: list[bytes]) -> None:
    observer, _ = observed()
    for piece in said:
        observer.from_client(piece, 1.0)
    for piece in answered:
        observer.to_client(piece, 1.5)
    assert len(observer._requests._head) <= HEAD
    assert len(observer._responses._head) <= HEAD
