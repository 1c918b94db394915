"""What a message definition is compiled to, and that a walk may stop and go on at any byte."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.rewrite import walkplan as op
from kproxy.protocol.rewrite.walk import Walk
from kproxy.protocol.rewrite.walkplan import WalkPlan, plan_for
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from tests.unit.kafka_frames import CARRIERS, chunks, encode, messages, name_of


def plan(call: tuple[int, int]) -> WalkPlan:
    found = plan_for(*call)
    assert found is not None
    return found


def test_metadata_v1_by_hand() -> None:
    """Nothing behind the last broker is a step."""
    assert plan((ApiKey.METADATA, 1)).steps == (
        (op.ARRAY, False, (False, 4)),
        (op.ENDPOINT, False, None),
        (op.SIZED, 2, True),  # rack
        (op.NEXT, 1, None),
        (op.STOP, None, None),
    )


def test_fields_of_fixed_size_are_one_step() -> None:
    assert plan((ApiKey.FIND_COORDINATOR, 0)).steps[:2] == ((op.SKIP, 2, None), (op.ENDPOINT, False, None))
    assert plan((ApiKey.FETCH, 16)).steps[2] == (op.SKIP, 4 + 2 + 4, None)
    # Partition index, error code, high watermark, last stable offset, log start offset
    assert (op.SKIP, 4 + 2 + 8 + 8 + 8, None) in plan((ApiKey.FETCH, 16)).steps
    assert (op.SKIP, 4 + 2 + 8 + 8 + 8, None) in plan((ApiKey.PRODUCE, 10)).steps


def test_the_kind_of_a_cluster_s_endpoints_is_read() -> None:
    assert (op.KIND, None, None) not in plan((ApiKey.DESCRIBE_CLUSTER, 0)).steps
    assert (op.KIND, None, None) in plan((ApiKey.DESCRIBE_CLUSTER, 1)).steps


def test_where_begins_what_is_the_same_each_time() -> None:
    """Behind size, correlation id, the count of tagged fields and the throttle time, as far as a version has them."""
    assert [plan((ApiKey.METADATA, version)).same_from for version in (2, 3, 8, 9, 13)] == [8, 12, 12, 13, 13]
    assert [plan((ApiKey.DESCRIBE_CLUSTER, version)).same_from for version in (0, 2)] == [13, 13]


@pytest.mark.parametrize("call", CARRIERS, ids=name_of)
def test_every_plan_is_sound(call: tuple[int, int]) -> None:
    steps = plan(call).steps
    codes = [code for code, _, _ in steps]
    assert codes.count(op.ENDPOINT) == 1
    assert codes.count(op.STOP) == 1
    assert codes[-1] == op.STOP
    assert (op.MARK in codes) == plan(call).rule.last
    for at, (code, a, b) in enumerate(steps):
        if code == op.ARRAY:
            assert steps[b[1] - 1] == (op.NEXT, at + 1, None), "a loop ends where it says"
        elif code == op.NEXT:
            assert steps[a - 1][0] == op.ARRAY
        elif code == op.TAGS:
            assert steps[at + 1][0] == op.TAG
            assert at + 1 < b < len(steps)
        elif code == op.SKIP:
            assert a > 0
            # Two in a row would be one, but never across the beginning of a loop's element.
            assert steps[at + 1][0] != op.SKIP
    if op.MARK in codes:
        assert codes.index(op.MARK) < codes.index(op.ENDPOINT)
    else:
        assert len(codes) - codes.index(op.ENDPOINT) < 10, "what follows the last address is no step"


def test_other_calls_have_no_plan() -> None:
    carriers = set(CARRIERS)
    for one in APIS.values():
        for version in range(one.newest + 1):
            assert (plan_for(one.value, version) is not None) == ((one.value, version) in carriers)


@pytest.mark.parametrize("call", CARRIERS, ids=name_of)
@pytest.mark.parametrize("at_once", [1, 3])
@given(data=st.data())
def test_a_walk_may_pause_at_every_step(call: tuple[int, int], at_once: int, data: st.DataObject) -> None:
    name = f"{APIS[call[0]].name}Response"
    body = encode(definitions.load_message(name), call[1], data.draw(messages(name, call[1])))
    body = (b"\x00" if plan(call).compact else b"") + body
    whole, walk = Walk(plan(call)), Walk(plan(call))
    whole.advance_all(body, 0, len(body))
    with patch("kproxy.protocol.rewrite.walk.MAX_STEPS", at_once):
        at = walk.advance(body, 0, len(body))
        assert walk.paused or (at_once > 1 and walk.done)  # the smallest messages take three steps
        while walk.paused:
            at = walk.advance(body, at, len(body))
    assert state(walk) == state(whole)


@pytest.mark.parametrize("call", CARRIERS, ids=name_of)
@given(data=st.data())
def test_a_walk_may_stop_and_go_on_at_every_byte(call: tuple[int, int], data: st.DataObject) -> None:
    name = f"{APIS[call[0]].name}Response"
    body = encode(definitions.load_message(name), call[1], data.draw(messages(name, call[1])))
    body = (b"\x00" if plan(call).compact else b"") + body
    whole = Walk(plan(call))
    whole.advance(body, 0, len(body))
    assert whole.done
    for cut in range(len(body) + 1):
        walk = Walk(plan(call))
        reached = walk.advance(body, 0, cut)
        assert reached <= cut
        walk.advance(body, reached, len(body))
        assert state(walk) == state(whole)
    walk, kept, at = Walk(plan(call)), b"", 0
    for byte in chunks(body, [1]):
        kept += byte
        at = walk.advance(kept, 0, len(kept))
        kept = kept[at:]
    assert state(walk) == state(whole)


def state(walk: Walk) -> tuple[object, ...]:
    """All that a walk tells."""
    tags = (walk.tags_at, walk.tag_count, walk.tag_numbers, walk.field_at, walk.size_at)
    return (walk.done, walk.kind, walk.endpoints, walk.locations, walk.mark, walk.offset, *tags)
