"""What is taken for a response of the usual shape names no endpoints, whatever it is made of."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import WireError
from kproxy.rewrite.plain import ends_without_endpoint
from kproxy.rewrite.plan import PLAIN as PLAIN_STEP
from kproxy.rewrite.plan import SKIP, Plan, plan_for
from kproxy.rewrite.walk import Walk
from kproxy.wire import definitions
from kproxy.wire.api import API_VERSIONS, APIS, FETCH, PRODUCE
from tests.unit.kafka_frames import CARRIERS, UNKNOWN, Talk, encode, messages, name_of, request, response

PLAIN = [call for call in CARRIERS if call[0] in (FETCH, PRODUCE)]
for_plain = pytest.mark.parametrize("call", PLAIN, ids=name_of)

# Around the limits of varints of one, two and three bytes.
SIZES = st.sampled_from([0, 1, 20, 125, 126, 127, 128, 16_381, 16_382, 16_383, 100_000, 2_097_150]) | st.integers(
    0, 300
)


def written(call: tuple[int, int], values: dict[str, Any]) -> bytes:
    key, version = call
    return response(key, version, encode(definitions.message(f"{APIS[key].name}Response"), version, values))


def walked(call: tuple[int, int], frame: bytes) -> Walk:
    plan = plan_for(*call)
    assert plan is not None
    walk = Walk(plan)
    walk.advance(frame, 8, len(frame))
    return walk


def usual(call: tuple[int, int], topics: list[list[int | None]]) -> dict[str, Any]:
    """A response with partitions of these sizes: of records or an error message."""
    partitions = [
        [
            {
                "PartitionIndex": index, "Index": index, "ErrorCode": 0, "HighWatermark": 100, "LastStableOffset": 100,
                "LogStartOffset": 0, "BaseOffset": 5, "LogAppendTimeMs": -1, "AbortedTransactions": None,
                "PreferredReadReplica": -1, "RecordErrors": [], "Records": None if size is None else bytes(size),
                "ErrorMessage": None if size is None else "x" * size,
            }
            for index, size in enumerate(sizes)
        ]
        for sizes in topics
    ]  # fmt: skip
    return {
        "ThrottleTimeMs": 0, "ErrorCode": 0, "SessionId": 1_000_000,
        "Responses": [
            {"TopicId": bytes(range(16)), "Topic": "orders", "Name": "orders", "Partitions": one,
             "PartitionResponses": one}
            for one in partitions
        ],
    }  # fmt: skip


def endpoints(racks: st.SearchStrategy[str | None]) -> st.SearchStrategy[list[dict[str, Any]]]:
    one = st.fixed_dictionaries(
        {
            "NodeId": st.integers(-1, 0x7FFFFFFF),
            "Host": st.text("ab-.é", min_size=1, max_size=200),
            "Port": st.integers(1, 65535) | st.sampled_from([-1, 1, 256, 9092, 9216, 65280, 65535]),
            "Rack": racks,
        }
    )
    return st.lists(one, min_size=1, max_size=3)


RACKS = st.none() | st.sampled_from(["", "a", "use1-az1", "r" * 126, "r" * 127, "r" * 20_000]) | st.text("ab-1é")


def known(values: Any) -> Any:
    """The same without the tagged fields that no definition has."""
    if isinstance(values, list):
        return [known(one) for one in values]
    if isinstance(values, dict):
        return {name: known(value) for name, value in values.items() if name != UNKNOWN}
    return values


def without_plain(plan: Plan) -> Plan:
    """The same plan with nothing hopped over."""
    return replace(plan, steps=tuple((SKIP, 0, None) if step[0] == PLAIN_STEP else step for step in plan.steps))


def walked_by(plan: Plan, frame: bytes) -> tuple[bool, int, Any] | str:
    walk = Walk(plan)
    try:
        walk.advance(memoryview(frame), 8, len(frame))
    except WireError as error:
        return error.reason
    return walk.done, walk.offset, walk.found


@for_plain
@given(
    topics=st.lists(st.lists(st.none() | SIZES, max_size=5), max_size=3),
    around=st.tuples(st.binary(min_size=6, max_size=9), st.binary(max_size=3)),
)
def test_the_end_tells_that_no_partition_has_moved(
    call: tuple[int, int], topics: list[list[int | None]], around: tuple[bytes, bytes]
) -> None:
    frame = written(call, usual(call, topics))
    before, behind = around
    assert ends_without_endpoint(memoryview(before + frame + behind), len(before) + len(frame))
    assert walked(call, frame).found == []


@for_plain
@given(data=st.data(), nodes=endpoints(RACKS))
def test_no_endpoint_is_overlooked_at_the_end(
    call: tuple[int, int], data: st.DataObject, nodes: list[dict[str, Any]]
) -> None:
    values = known(data.draw(messages(f"{APIS[call[0]].name}Response", call[1]) | st.just(usual(call, [[3, None]]))))
    frame = written(call, {**values, "NodeEndpoints": nodes})
    assert len(walked(call, frame).found) == len(nodes)
    assert not ends_without_endpoint(frame, len(frame))


@for_plain
@given(data=st.data())
def test_what_ends_without_an_endpoint_has_none(call: tuple[int, int], data: st.DataObject) -> None:
    values = known(data.draw(messages(f"{APIS[call[0]].name}Response", call[1])))
    frame = written(call, values)
    if ends_without_endpoint(frame, len(frame)):
        assert walked(call, frame).found == []


@pytest.mark.parametrize("call", CARRIERS, ids=name_of)
def test_only_of_fetch_and_produce_the_end_tells(call: tuple[int, int]) -> None:
    plan = plan_for(*call)
    assert plan is not None
    assert plan.tail == (call in PLAIN)


NODE = {"NodeId": 1, "Host": "b1.internal", "Port": 9092, "Rack": None}


@for_plain
@pytest.mark.parametrize("newer", [False, True])
def test_endpoints_are_rewritten_after_apiversions(call: tuple[int, int], newer: bool) -> None:
    """A newer broker may write what nobody here has heard of behind the endpoints."""
    talk = Talk()
    talk.client(request(API_VERSIONS, 0))
    ranges = [(key, api.oldest, api.newest + newer) for key, api in APIS.items()]
    talk.broker(
        response(
            API_VERSIONS, 0, struct.pack(">hi", 0, len(ranges)) + b"".join(struct.pack(">hhh", *r) for r in ranges)
        )
    )
    for nodes in ([], [NODE], [NODE, {**NODE, "NodeId": 2}]):
        values = {**usual(call, [[300] * 500, [20]]), "NodeEndpoints": nodes}
        values |= {UNKNOWN: {7: b"unheard of"}} if newer else {}
        frame = written(call, {name: value for name, value in values.items() if value != []})
        talk.client(request(*call, body=b"\0\xff\xff" if call[0] == PRODUCE else b""))
        passed = talk.broker(frame)
        assert (passed == frame) == (not nodes)
        assert b"b1.internal" not in passed
    assert [len(found.nodes) for found in talk.seen] == [1, 2]


# Hopping over what is usual leads to where the walk leads.


@for_plain
@given(data=st.data())
def test_hopping_is_walking(call: tuple[int, int], data: st.DataObject) -> None:
    """Over any response, with a few bytes changed, and cut anywhere."""
    plan = plan_for(*call)
    assert plan is not None
    values = data.draw(
        messages(f"{APIS[call[0]].name}Response", call[1])
        | st.builds(usual, st.just(call), st.lists(st.lists(st.none() | SIZES, max_size=5), max_size=3))
    )
    frame = bytearray(written(call, values))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(8, len(frame) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    said = bytes(frame[: data.draw(st.just(len(frame)) | st.integers(8, len(frame)))])
    assert walked_by(plan, said) == walked_by(without_plain(plan), said)


@for_plain
@pytest.mark.parametrize("overlong", [b"\x80\x00", b"\x81\x00", b"\x80\x80\x00", b"\x85\x80\x00"])
def test_a_size_in_more_bytes_than_it_needs_is_read_as_the_walk_reads_it(
    call: tuple[int, int], overlong: bytes
) -> None:
    """What follows it is endpoints, if its size is misread."""
    plan = plan_for(*call)
    assert plan is not None
    frame = written(call, usual(call, [[None]]))
    index = frame.rindex(b"\x00", 0, len(frame) - (7 if call[0] == PRODUCE else 3))
    longer = frame[:index] + overlong + frame[index + 1 :]
    for filling in range(4):
        whole = longer[: index + len(overlong)] + bytes(filling) + longer[index + len(overlong) :]
        assert walked_by(plan, whole) == walked_by(without_plain(plan), whole)
