"""Every response that carries endpoints, in every version, in any chunks, read back by kafka-python."""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.address import Address
from kproxy.protocol.rewrite import response as rewriting
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, NodeKind
from kproxy.protocol.rewrite.walkplan import plan_for
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.primitives import INT32
from tests.unit.kafka_frames import (
    CARRIERS,
    CHUNKINGS,
    STREAMED,
    UNKNOWN,
    UPSTREAM_MARKS,
    as_read,
    asked,
    chunks,
    encode,
    frame,
    identity,
    local,
    localised,
    messages,
    name_of,
    read,
    response,
)

HEADER_TAGS = st.sampled_from([b"\x00", b"\x01\x05\x03abc", b"\x02\x7f\x00\x80\x01\x01x"])


def message_name(key: int) -> str:
    return f"{APIS[key].name}Response"


def written(call: tuple[int, int], values: dict[str, Any], header_tags: bytes = b"\x00") -> bytes:
    key, version = call
    return response(
        key, version, encode(definitions.load_message(message_name(key)), version, values), tags=header_tags
    )


def for_all(calls: list[tuple[int, int]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("call", calls, ids=name_of)


def contained(part: Any, whole: Any) -> bool:
    """Whether all of `part` is in `whole`, which may have more fields."""
    if isinstance(part, dict):
        # Sets of operations have other names there.
        return all(contained(part[name], whole[name]) for name in part if not name.endswith("operations"))
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(contained, part, whole))
    if isinstance(whole, UUID):
        return bool(part == whole.bytes)
    return bool(part == whole) or (whole is None and part == bytes(16))


@for_all(CARRIERS)
@given(data=st.data(), tags=HEADER_TAGS)
def test_kafka_python_reads_what_the_tests_write(call: tuple[int, int], data: st.DataObject, tags: bytes) -> None:
    values = data.draw(messages(message_name(call[0]), call[1], deep=False))
    assert contained(as_read(values), read(*call, written(call, values, tags)))


@for_all(CARRIERS)
@given(data=st.data(), sizes=CHUNKINGS, tags=HEADER_TAGS, host=st.sampled_from(["l", "127.0.0.1", "x" * 200]))
def test_exactly_the_endpoints_are_replaced(
    call: tuple[int, int], data: st.DataObject, sizes: list[int], tags: bytes, host: str
) -> None:
    def here(endpoint: Endpoint) -> Address:
        return local(endpoint, host)

    values = data.draw(messages(message_name(call[0]), call[1]))
    talk = asked(*call, lambda found: [here(endpoint) for endpoint in found.nodes])
    out = talk.broker(*chunks(written(call, values, tags), sizes))
    assert out == written(call, localised(values, here), tags)
    assert talk.conversation.is_idle


@for_all(CARRIERS)
@given(data=st.data(), sizes=CHUNKINGS, tags=HEADER_TAGS)
def test_an_identity_mapping_changes_no_byte(
    call: tuple[int, int], data: st.DataObject, sizes: list[int], tags: bytes
) -> None:
    said = written(call, data.draw(messages(message_name(call[0]), call[1])), tags)
    assert asked(*call, identity).broker(*chunks(said, sizes)) == said
    with patch.object(rewriting, "HOLD_WHOLE", 0):
        assert asked(*call, identity).broker(*chunks(said, sizes)) == said


@for_all(STREAMED)
@given(data=st.data(), sizes=CHUNKINGS, tags=HEADER_TAGS, host=st.sampled_from(["l", "127.0.0.1", "x" * 200]))
def test_a_streamed_response_keeps_its_length_and_hides_hosts(
    call: tuple[int, int], data: st.DataObject, sizes: list[int], tags: bytes, host: str
) -> None:
    def here(endpoint: Endpoint) -> Address:
        return local(endpoint, host)

    values = data.draw(messages(message_name(call[0]), call[1], deep=False))
    said = written(call, values, tags)
    talk = asked(*call, lambda found: [here(endpoint) for endpoint in found.nodes])
    with patch.object(rewriting, "HOLD_WHOLE", 0):
        out = talk.broker(*chunks(said, sizes))
    come = next(come for come in accumulate(map(len, chunks(said, sizes))) if come >= 8)
    if come == len(said):  # when its header could be read it was there whole, so it was held
        assert out == written(call, localised(values, here), tags)
        return
    assert len(out) == len(said)
    assert not any(mark in out for mark in UPSTREAM_MARKS)
    before, after = read(*call, said), read(*call, out)
    endpoints = after.pop("node_endpoints")
    before.pop("node_endpoints")
    assert after == before
    assert endpoints in ([], None) or endpoints == read(*call, written(call, localised(values, here)))["node_endpoints"]
    if host == "l":  # shorter than every host above, so it fits
        assert len(endpoints or ()) == len(values.get("NodeEndpoints", ()))


@for_all(CARRIERS)
@given(data=st.data())
def test_what_is_told_of_the_endpoints(call: tuple[int, int], data: st.DataObject) -> None:
    """Each with its kind, its id and its address as advertised, once; and whether the list is complete."""
    values = data.draw(messages(message_name(call[0]), call[1]))
    talk = asked(*call)
    talk.broker(written(call, values))
    kind = NodeKind.CONTROLLER if values.get("EndpointType") == 2 else NodeKind.BROKER
    field = next((name for name in ("Brokers", "Coordinators", "NodeEndpoints") if name in values), "")
    nodes = [values] if call in [(ApiKey.FIND_COORDINATOR, version) for version in range(4)] else values.get(field, [])
    expected = [
        Endpoint(
            kind,
            node["BrokerId" if call[0] == ApiKey.DESCRIBE_CLUSTER else "NodeId"],
            Address(node["Host"], node["Port"]),
        )
        for node in nodes
        if node["Host"]
    ]
    complete = call[0] in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER)
    assert talk.seen == ([Endpoints(tuple(dict.fromkeys(expected)), complete)] if expected else [])
    assert talk.rewritten == ([(APIS[call[0]].name, len(expected))] if expected else [])


NODE = {"NodeId": 3, "Host": "up.example", "Port": 9092, "Rack": None}


def one_of(call: tuple[int, int], **fields: Any) -> dict[str, Any]:
    """A response without partitions."""
    base = {"ThrottleTimeMs": 0, "ErrorCode": 0, "ErrorMessage": None, "SessionId": 0, "AcquisitionLockTimeoutMs": 1}
    return {**base, "Responses": [], "NodeEndpoints": [NODE], **fields}


@for_all(STREAMED)
@pytest.mark.parametrize("host", ["", "h", "up.exampl!", "up.example!", "up.example!!", "x" * 127, "x" * 128])
def test_a_real_long_response_streams(call: tuple[int, int], host: str) -> None:
    """Bulk of 200 KB passes as it comes, and the addresses behind it are local or gone."""
    values = one_of(call)
    values["Responses"] = [
        {"TopicId": bytes(16), "Name": "t", "PartitionResponses": [], "Partitions": [], UNKNOWN: {99: bytes(200_000)}}
    ]
    said = written(call, values)
    talk = asked(*call, lambda found: [Address(host or "?", 1234)])
    first = talk.broker(said[:100_000])
    assert first == said[:100_000]
    assert talk.held < 32
    rest = talk.broker(*chunks(said[100_000:], [60_000, 39_000, 3]))
    out = first + rest
    assert len(out) == len(said)
    endpoints = read(*call, out)["node_endpoints"]
    if len(host) <= len("up.example"):
        assert [(e["node_id"], e["host"], e["port"]) for e in endpoints] == [(3, host or "?", 1234)]
    else:
        assert not endpoints
    assert b"up.example\x00" not in out


@for_all(STREAMED)
@given(data=st.data(), host=st.integers(1, 300), local_host=st.integers(1, 300), others=st.integers(0, 140))
def test_every_difference_in_length_can_be_filled(
    call: tuple[int, int], data: st.DataObject, host: int, local_host: int, others: int
) -> None:
    """Hosts and sections of all lengths, so that every size of a size occurs."""
    values = one_of(call, NodeEndpoints=[{**NODE, "Host": "up." + "h" * host}])
    values[UNKNOWN] = {number: b"" for number in range(1, others + 1)} if others < 120 else {7: bytes(others)}
    said = written(call, values)
    talk = asked(*call, lambda found: [Address("x" * local_host, 1234)])
    with patch.object(rewriting, "HOLD_WHOLE", 0):
        out = talk.broker(said[:20], said[20:])
    assert len(out) == len(said)
    assert b"up." not in out
    endpoints = read(*call, out)["node_endpoints"] or []
    assert [e["host"] for e in endpoints] == (["x" * local_host] if local_host <= host + 3 else [])


@for_all(STREAMED)
def test_the_filler_has_its_own_number_and_the_place_of_fields(call: tuple[int, int]) -> None:
    """Bytes behind the last field belong to none; they stay behind it."""
    body = written(call, one_of(call, **{UNKNOWN: {127: b"a", 126: b"b", 124: b"c"}}))[4:]
    with patch.object(rewriting, "HOLD_WHOLE", 0):
        talk = asked(*call, lambda found: [Address("x", 1)])
        out = talk.broker(*chunks(frame(body + b"trailing"), [20]))
        assert len(out) == 4 + len(body) + 8
        shorter = len("up.example") - len("x")
        # A field of number 125, its size, its bytes
        assert out.endswith(b"\x7f\x01a" + bytes((125, shorter - 2)) + bytes(shorter - 2) + b"trailing")
        assert b"up.example" not in out


@for_all(STREAMED)
def test_a_longer_encoding_of_a_number_passes_unchanged(call: tuple[int, int]) -> None:
    """A varint may have more bytes than it needs; whoever wrote it so gets it back so."""
    plain = written(call, one_of(call))[4:]
    host, long_host = b"\x0bup.example", b"\x8b\x00up.example"
    assert plain.count(host) == 1
    if call[0] in (ApiKey.PRODUCE, ApiKey.FETCH):
        # The count of tagged fields, the number 0, the size of the field
        before, array, after = plain.partition(b"\x02\x00\x00\x00\x03")
        assert before.endswith(bytes((1, 0, len(array + after))))
        hosts = before[:-1] + bytes((len(array + after) + 1,)) + array + after.replace(host, long_host)
        counts = before[:-3] + b"\x81\x80\x80\x80\x00\x00" + before[-1:] + array + after
    else:
        hosts = plain.replace(host, long_host)
        counts = plain[:-1] + b"\x80\x80\x80\x80\x00"
    for said in (frame(hosts), frame(counts)):
        assert asked(*call, identity).broker(said) == said
        assert asked(*call, identity).broker(*chunks(said, [1])) == said
        with patch.object(rewriting, "HOLD_WHOLE", 0):
            assert asked(*call, identity).broker(*chunks(said, [1])) == said
            assert len(read(*call, asked(*call).broker(*chunks(said, [1])))["node_endpoints"] or []) == 1


@pytest.mark.parametrize("step", [1, 5, 60, 1 << 20])
@pytest.mark.parametrize("moves", [True, False])
def test_a_response_says_how_much_it_has_taken(step: int, moves: bool) -> None:
    """What it takes goes one way, and what follows the last address is never taken if that is not needed."""
    plan = plan_for(ApiKey.METADATA, 1)
    assert plan is not None
    brokers = struct.pack(">iih", 1, 7, 1) + b"b" + struct.pack(">ih", 9092, -1)
    topics = struct.pack(">ii", 7, 1) + struct.pack(">hhxb", 0, 1, 0) + bytes(1000)
    whole = struct.pack(">ii", 4 + len(brokers + topics), 5) + brokers + topics
    at, out = 0, b""
    found = Address("a", 1) if moves else Address("b", 9092)
    one = rewriting.response_for(plan, len(whole) - 4, len(whole), lambda endpoints: [found])
    while not one.passing:
        piece = whole[at : at + min(step, one.left)]
        left = one.left
        taken, leaves = one.feed(piece)
        assert one.left == left - taken
        assert taken == len(piece) or one.passing
        at, out = at + taken, out + bytes(leaves)
    assert one.left == len(whole) - at
    new = b"a" + INT32.pack(1) if moves else b"b" + INT32.pack(9092)
    assert out + whole[at:] == whole.replace(b"b" + INT32.pack(9092), new, 1)
    if moves:
        assert at <= 8 + len(brokers) + step, "topics are not taken"
