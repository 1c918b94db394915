"""What is taken for a response of the usual shape names no endpoints, whatever it is made of."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite.walk import Walk
from kproxy.protocol.rewrite.walkplan import PLAIN as PLAIN_STEP
from kproxy.protocol.rewrite.walkplan import SKIP, WalkPlan, plan_for
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from tests.unit.kafka_frames import CARRIERS, UNKNOWN, Talk, encode, messages, name_of, request, response

PLAIN = [call for call in CARRIERS if call[0] in (ApiKey.FETCH, ApiKey.PRODUCE)]
for_plain = pytest.mark.parametrize("call", PLAIN, ids=name_of)

# Around the limits of varints of one, two and three bytes.
SIZES = st.sampled_from([0, 1, 20, 125, 126, 127, 128, 16_381, 16_382, 16_383, 100_000, 2_097_150]) | st.integers(
    0, 300
)


def written(call: tuple[int, int], values: dict[str, Any]) -> bytes:
    key, version = call
    return response(key, version, encode(definitions.load_message(f"{APIS[key].name}Response"), version, values))


def walked(call: tuple[int, int], frame: bytes) -> Walk:
    plan = plan_for(*call)
    assert plan is not None
    walk = Walk(plan)
    walk.advance_all(frame, 8, len(frame))
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


# Any int32; among them those that no port can be, and those that read as the end of a partition.
PORTS = st.integers(-(1 << 31), (1 << 31) - 1) | st.sampled_from(
    [0, 1, -1, -5, 256, 9092, 65535, 65536, 70000, 1 << 24]
)


def endpoints(racks: st.SearchStrategy[str | None]) -> st.SearchStrategy[list[dict[str, Any]]]:
    one = st.fixed_dictionaries(
        {
            "NodeId": st.integers(-1, 0x7FFFFFFF),
            "Host": st.text("ab-.é", min_size=1, max_size=200),
            "Port": PORTS,
            "Rack": racks,
        }
    )
    return st.lists(one, min_size=1, max_size=3)


RACKS = (
    st.none()
    | st.sampled_from(["", "a", "use1-az1", "r" * 126, "r" * 127, "r" * 20_000])
    | st.text("ab-1é\x00\x01")
    | st.binary(max_size=20)
)


def known(values: Any) -> Any:
    """The same without the tagged fields that no definition has."""
    if isinstance(values, list):
        return [known(one) for one in values]
    if isinstance(values, dict):
        return {name: known(value) for name, value in values.items() if name != UNKNOWN}
    return values


def without_plain(plan: WalkPlan) -> WalkPlan:
    """The same plan with nothing hopped over."""
    return replace(plan, steps=tuple((SKIP, 0, None) if step[0] == PLAIN_STEP else step for step in plan.steps))


def walked_by(plan: WalkPlan, frame: bytes) -> tuple[bool, int, Any] | str:
    walk = Walk(plan)
    try:
        walk.advance_all(memoryview(frame), 8, len(frame))
    except WireError as error:
        return error.reason
    return walk.done, walk.offset, walk.locations


def passes(call: tuple[int, int], data: bytes, at: int = 0, end: int | None = None) -> bool:
    """Whether data[at:end] is taken for a response of the usual shape."""
    plan = plan_for(*call)
    assert plan is not None
    assert plan.plain is not None
    end = len(data) if end is None else end
    taken = plan.plain.names_no_endpoint(memoryview(data), at, end)
    assert plan.plain.names_no_endpoint(data, at, end) == taken
    return taken


@for_plain
@given(
    topics=st.lists(st.lists(st.none() | SIZES, max_size=5), max_size=3),
    around=st.tuples(st.binary(max_size=9), st.binary(max_size=3)),
)
def test_a_response_of_the_usual_shape_passes_without_a_walk(
    call: tuple[int, int], topics: list[list[int | None]], around: tuple[bytes, bytes]
) -> None:
    frame = written(call, usual(call, topics))
    before, behind = around
    assert passes(call, before + frame + behind, len(before), len(before) + len(frame))
    assert walked(call, frame).locations == []


@for_plain
@pytest.mark.parametrize("sizes", [[None], [0, None, 7], [100], [126, 127], [None] * 40 + [5], [5] + [0] * 40])
@pytest.mark.parametrize(("topics", "each"), [(1, 500), (300, 1), (130, 130), (17, 16)])
def test_so_does_a_large_one(call: tuple[int, int], sizes: list[int | None], topics: int, each: int) -> None:
    frame = written(call, usual(call, [(sizes * each)[:each]] * topics))
    assert passes(call, frame)
    assert walked(call, frame).done
    assert not passes(call, frame, 0, len(frame) - 1)
    assert not passes(call, frame + b"\0", 0, len(frame) + 1)
    for at in range(8, len(frame), max(1, len(frame) // 13)):  # one byte is another
        other = frame[:at] + bytes((frame[at] ^ 1,)) + frame[at + 1 :]
        assert not passes(call, other) or not walked(call, other).locations


@for_plain
@pytest.mark.parametrize("number", [0, 15, 16, 255, 256, 299])
@pytest.mark.parametrize("each", [1, 300])
def test_each_partition_is_looked_at(call: tuple[int, int], number: int, each: int) -> None:
    """Of many that are alike, one has a tagged field, which looks like another partition."""
    topics = usual(call, [[5] * each] * (300 // each))
    frame = written(call, topics)
    step = len(written(call, usual(call, [[5, 5]]))) - len(written(call, usual(call, [[5]])))
    behind = 7 if call[0] == ApiKey.PRODUCE else 3
    partition = frame[-behind - step + 1 : -behind]
    topic = topics["Responses"][number // each]
    topic["Partitions" if call[0] == ApiKey.FETCH else "PartitionResponses"][number % each][UNKNOWN] = {
        9: partition[2:] + b"\0"
    }
    odd = written(call, topics)
    assert len(odd) == len(frame) + step
    assert passes(call, frame)
    assert not passes(call, odd)
    plan = plan_for(*call)
    assert plan is not None
    assert walked_by(plan, odd) == walked_by(without_plain(plan), odd)


@for_plain
@given(data=st.data(), nodes=endpoints(RACKS))
def test_what_names_an_endpoint_never_passes(
    call: tuple[int, int], data: st.DataObject, nodes: list[dict[str, Any]]
) -> None:
    """Whatever its port and its rack, with unknown fields in it and behind it."""
    values = data.draw(messages(f"{APIS[call[0]].name}Response", call[1]) | st.just(usual(call, [[3, None]])))
    unknown = data.draw(st.sampled_from([{}, {UNKNOWN: {7: b"", 300: b"unheard of"}}]))
    frame = written(call, {**values, "NodeEndpoints": [{**node, **unknown} for node in nodes]})
    assert len(walked(call, frame).locations) == len(nodes)
    assert not passes(call, frame)


@for_plain
@given(data=st.data())
def test_what_passes_names_none(call: tuple[int, int], data: st.DataObject) -> None:
    """Any bytes: responses with a few of them changed, of a wrong length."""
    values = data.draw(
        messages(f"{APIS[call[0]].name}Response", call[1])
        | st.builds(usual, st.just(call), st.lists(st.lists(st.none() | SIZES, max_size=20), max_size=3))
    )
    frame = bytearray(written(call, values))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.just(len(frame)) | st.integers(8, len(frame)))
    if passes(call, bytes(frame), 0, end):
        walk = walked(call, bytes(frame[:end]))
        assert walk.done
        assert walk.locations == []
        assert walk.offset == end - 8


@for_plain
@pytest.mark.parametrize("hidden", ["Rack", "Host"])
def test_an_endpoint_that_mimics_a_responses_end_is_refused(call: tuple[int, int], hidden: str) -> None:
    """A whole response of the usual shape stands in a string of it."""
    innocent = written(call, usual(call, [[None, 5], [3]]))[8:]
    frame = written(call, {**usual(call, [[None]]), "NodeEndpoints": [{**NODE, hidden: innocent}]})
    assert not passes(call, frame)


@pytest.mark.parametrize("call", CARRIERS, ids=name_of)
def test_only_fetch_and_produce_have_a_usual_shape(call: tuple[int, int]) -> None:
    plan = plan_for(*call)
    assert plan is not None
    assert (plan.plain is not None) == (call in PLAIN)


NODE = {"NodeId": 1, "Host": "b1.internal", "Port": 9092, "Rack": None}


@for_plain
@pytest.mark.parametrize("port", [9092, 0, -1, -5, 65536, 70000, 0x7FFFFFFF])
@pytest.mark.parametrize("rack", [None, "", "r"])
def test_endpoints_are_rewritten_whatever_their_port(call: tuple[int, int], port: int, rack: str | None) -> None:
    """Behind ApiVersions as real clients ask for them."""
    talk = Talk()
    talk.client(request(ApiKey.API_VERSIONS, 0))
    ranges = b"".join(struct.pack(">hhh", key, api.oldest, api.newest) for key, api in APIS.items())
    talk.broker(response(ApiKey.API_VERSIONS, 0, struct.pack(">hi", 0, len(APIS)) + ranges))
    last = {**NODE, "NodeId": 2, "Port": port, "Rack": rack}
    for nodes in ([], [last], [NODE, last]):
        values = {**usual(call, [[300] * 500, [20]]), "NodeEndpoints": nodes}
        frame = written(call, {name: value for name, value in values.items() if value != []})
        talk.client(request(*call, body=b"\0\xff\xff" if call[0] == ApiKey.PRODUCE else b""))
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
def test_an_overlong_size_is_read_as_the_walk_reads_it(call: tuple[int, int], overlong: bytes) -> None:
    """What follows it is endpoints, if its size is misread."""
    plan = plan_for(*call)
    assert plan is not None
    frame = written(call, usual(call, [[None]]))
    index = frame.rindex(b"\x00", 0, len(frame) - (7 if call[0] == ApiKey.PRODUCE else 3))
    longer = frame[:index] + overlong + frame[index + 1 :]
    for filling in range(4):
        whole = longer[: index + len(overlong)] + bytes(filling) + longer[index + len(overlong) :]
        assert walked_by(plan, whole) == walked_by(without_plain(plan), whole)
