"""What is taken for a response of the usual shape names no endpoints, whatever it is made of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.rewrite.plain import PlainResponse
from kproxy.rewrite.plan import plan_for
from kproxy.rewrite.walk import Walk
from kproxy.wire import definitions
from kproxy.wire.api import APIS, FETCH, PRODUCE
from tests.unit.kafka_frames import CARRIERS, encode, messages, name_of, response

PLAIN = [call for call in CARRIERS if call[0] in (FETCH, PRODUCE)]
for_plain = pytest.mark.parametrize("call", PLAIN, ids=name_of)

# Around the limits of varints of one, two and three bytes.
SIZES = st.sampled_from([0, 1, 20, 125, 126, 127, 128, 16_381, 16_382, 16_383, 100_000, 2_097_150]) | st.integers(
    0, 300
)


def shape_of(call: tuple[int, int]) -> PlainResponse:
    plan = plan_for(*call)
    assert plan is not None
    assert plan.plain is not None
    return plan.plain


def written(call: tuple[int, int], values: dict[str, Any]) -> bytes:
    key, version = call
    return response(key, version, encode(definitions.message(f"{APIS[key].name}Response"), version, values))


def walked(call: tuple[int, int], frame: bytes) -> Walk:
    plan = plan_for(*call)
    assert plan is not None
    walk = Walk(plan)
    walk.advance(frame, 8, len(frame))
    return walk


def fits(call: tuple[int, int], frame: bytes, around: tuple[bytes, bytes] = (b"", b"")) -> bool:
    before, behind = around
    data = before + frame + behind
    return shape_of(call).fits(memoryview(data), len(before), len(before) + len(frame))


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
        "ThrottleTimeMs": 0, "ErrorCode": 0, "SessionId": 1,
        "Responses": [
            {"TopicId": bytes(range(16)), "Topic": "orders", "Name": "orders", "Partitions": one,
             "PartitionResponses": one}
            for one in partitions
        ],
    }  # fmt: skip


@for_plain
@given(
    topics=st.lists(st.lists(st.none() | SIZES, max_size=5), max_size=3),
    around=st.tuples(st.binary(max_size=3), st.binary(max_size=3)),
)
def test_a_response_without_endpoints_fits(
    call: tuple[int, int], topics: list[list[int | None]], around: tuple[bytes, bytes]
) -> None:
    frame = written(call, usual(call, topics))
    assert fits(call, frame, around) or any(
        size is not None and size >= 2_097_151 for sizes in topics for size in sizes
    )
    assert walked(call, frame).done


@for_plain
def test_hundreds_of_partitions_fit(call: tuple[int, int]) -> None:
    assert fits(call, written(call, usual(call, [[300] * 500, [20] * 130])))


@pytest.mark.parametrize("call", [call for call in CARRIERS if call not in PLAIN], ids=name_of)
def test_other_responses_are_walked(call: tuple[int, int]) -> None:
    plan = plan_for(*call)
    assert plan is not None
    assert plan.plain is None


@for_plain
@given(data=st.data())
def test_what_fits_has_no_endpoints(call: tuple[int, int], data: st.DataObject) -> None:
    """Any response, with a few bytes changed."""
    values = data.draw(messages(f"{APIS[call[0]].name}Response", call[1]) | st.just(usual(call, [[3, None], [130]])))
    frame = bytearray(written(call, values))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(8, len(frame) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    if fits(call, bytes(frame), (b"", data.draw(st.sampled_from([b"", bytes(64), b"\xff" * 64])))):
        walk = walked(call, bytes(frame))
        assert walk.done
        assert walk.offset == len(frame) - 8
        assert walk.found == []


@for_plain
def test_a_response_with_endpoints_does_not_fit(call: tuple[int, int]) -> None:
    values = usual(call, [[3, 20]])
    values["NodeEndpoints"] = [{"NodeId": 1, "Host": "b1.internal", "Port": 9092, "Rack": None}]
    frame = written(call, values)
    assert len(walked(call, frame).found) == 1
    assert not fits(call, frame)


@for_plain
def test_a_frame_that_is_cut_does_not_fit(call: tuple[int, int]) -> None:
    frame = written(call, usual(call, [[3, 20], [200, None]]))
    assert not any(fits(call, frame[:length], (b"", bytes(40))) for length in range(8, len(frame)))


@for_plain
@pytest.mark.parametrize("overlong", [b"\x80\x00", b"\x81\x00", b"\x80\x80\x00", b"\x85\x80\x00"])
def test_a_size_in_more_bytes_than_it_needs_is_read_as_the_walk_reads_it(
    call: tuple[int, int], overlong: bytes
) -> None:
    """What follows it is endpoints, if its size is misread."""
    frame = written(call, usual(call, [[None]]))
    index = frame.rindex(b"\x00", 0, len(frame) - (7 if call[0] == PRODUCE else 3))
    longer = frame[:index] + overlong + frame[index + 1 :]
    for filling in range(4):
        whole = longer[: index + len(overlong)] + bytes(filling) + longer[index + len(overlong) :]
        walk = walked(call, whole)
        if fits(call, whole):
            assert walk.done
            assert walk.offset == len(whole) - 8


@pytest.mark.parametrize("call", [call for call in PLAIN if call[0] == PRODUCE], ids=name_of)
def test_an_array_that_cannot_be_null_is_left_to_the_walk(call: tuple[int, int]) -> None:
    frame = written(call, usual(call, [[None]]))
    index = frame.rindex(b"\x01", 0, len(frame) - 7)
    assert fits(call, frame)
    assert not fits(call, frame[:index] + b"\x00" + frame[index + 1 :])
