from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kproxy.base.errors import WireError
from kproxy.migrate.copier.offsetmap import OffsetMap
from kproxy.migrate.copier.state import (
    Job,
    PartitionState,
    Slice,
    decode_map_piece,
    encode_map_piece,
    identities_differ,
    merge_identities,
    parse_key,
    shared_transactional_id,
    state_key,
    state_partition,
    state_topic_name,
    transactional_id,
)
from kproxy.migrate.copier.statetopic import parse_copied_partitions

STATE = PartitionState(
    "eu.orders", 5, 905, 910, 900, 12345, 0xFFFFFFFF, 7, 1_700_000_000_000, "c/t", "d/", OffsetMap([(5, 3, 900)])
)


def test_json_and_back() -> None:
    assert PartitionState.from_json(STATE.to_json()) == STATE
    assert decode_map_piece(encode_map_piece(STATE.map)) == STATE.map


@pytest.mark.parametrize("has_own_id", [True, False])
def test_the_transactional_id_that_writes_next(has_own_id: bool) -> None:
    state = replace(STATE, has_own_id=has_own_id)
    assert PartitionState.from_json(state.to_json()) == state
    before = json.loads(state.to_json())
    del before["has_own_id"], before["had_own_id"]  # as kproxy wrote it when each partition had an id of its own
    former = PartitionState.from_json(json.dumps(before).encode())
    assert former.has_own_id
    assert former.had_own_id


def test_the_transactional_ids_that_have_written() -> None:
    job = Job("eu", 16)
    shared = shared_transactional_id("eu", state_partition(state_key("partition", "orders", 3), 16))
    assert STATE.writers(job, "orders", 3) == [shared]
    both = replace(STATE, had_own_id=True)
    assert both.writers(job, "orders", 3) == ["kproxy-migration-eu/orders/3", shared]


def test_sealed() -> None:
    rest, piece = STATE.seal()
    assert rest.map == OffsetMap()
    assert piece == STATE.map
    assert (rest.source_next, rest.records) == (905, 900)


@pytest.mark.parametrize(
    ("one", "other", "result", "whole"),
    [
        ("c/t", "c/t", False, "c/t"),
        ("c/t", "c/u", True, None),
        ("c/t", "d/t", True, None),
        ("c/", "c/t", False, "c/t"),  # a broker that did not tell ids before
        ("", "c/t", False, "c/t"),
        ("c/t", "", False, "c/t"),
        ("/t", "c/", False, "c/t"),
    ],
)
def test_identities(one: str, other: str, result: bool, whole: str | None) -> None:
    assert identities_differ(one, other) is identities_differ(other, one) is result
    if whole is not None:
        assert merge_identities(one, other) == merge_identities(other, one) == whole


def test_names() -> None:
    assert state_topic_name("eu") == "kproxy-migration-eu"
    assert transactional_id("eu", "orders", 3) == "kproxy-migration-eu/orders/3"
    assert shared_transactional_id("eu", 3) == "kproxy-migration-eu/shared-3"
    shared = Slice("orders", 3, "orders", 0, 1, 1, 1.0)
    assert shared.transactional_id(Job("eu", 16)) == shared_transactional_id(
        "eu", shared.state_partition(Job("eu", 16))
    )
    own = replace(shared, state=replace(STATE, has_own_id=True))
    assert own.transactional_id(Job("eu", 16)) == transactional_id("eu", "orders", 3)
    assert state_key("partition", "orders", 3) == b'["partition","orders",3]'


def test_pieces_are_with_their_state() -> None:
    """So one transaction needs one partition of the state topic, and one reader finds both."""
    for partition in range(40):
        at = state_partition(state_key("partition", "orders", partition), 16)
        assert 0 <= at < 16
        assert state_partition(state_key("map", "orders", partition, 123456), 16) == at
    assert len({state_partition(state_key("partition", "orders", partition), 16) for partition in range(40)}) > 8


def changed(**fields: object) -> bytes:
    return json.dumps(json.loads(STATE.to_json()) | fields).encode()


@pytest.mark.parametrize(
    "value",
    [
        b"", b"\xff", b"[]", b"{}", b"null", changed(records=-1), changed(records="1"), changed(at=None),
        changed(has_own_id=1), changed(has_own_id=None), changed(map="!"), changed(map="gA=="), changed(map=5), changed(source_next=1.5), changed(source_next=True),
    ],
    ids=repr,
)  # fmt: skip
def test_nonsense_is_refused(value: bytes) -> None:
    with pytest.raises(WireError):
        PartitionState.from_json(value)


def test_a_newer_state_says_what_to_do() -> None:
    with pytest.raises(WireError, match="update"):
        PartitionState.from_json(changed(v=2))


@pytest.mark.parametrize("value", [b"", b"{}", b'{"map": 5}', b'{"map": "gA=="}'])
def test_a_broken_piece(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_map_piece(value)


@pytest.mark.parametrize("name", [b"", b"\xff", b"{}", b"[]", b"5", b"not JSON"])
def test_a_key_that_is_none(name: bytes) -> None:
    for read in (parse_key, lambda key: state_partition(key, 16), lambda key: parse_copied_partitions({key: b"{}"})):
        with pytest.raises(WireError, match="did not write"):
            read(name)
