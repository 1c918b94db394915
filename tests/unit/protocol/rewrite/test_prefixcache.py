"""The cache of response prefixes: with it, clients get the same bytes as without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.base.address import Address
from kproxy.base.errors import WireError
from kproxy.protocol.rewrite import prefixcache
from kproxy.protocol.rewrite.endpoints import TABLE, Endpoints
from kproxy.protocol.rewrite.prefixcache import PREFIXES
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.primitives import INT32, uvarint
from tests.unit.kafka_frames import (
    CARRIERS,
    CHUNKINGS,
    UPSTREAM_MARKS,
    Talk,
    asked,
    chunks,
    encode,
    frame,
    identity,
    messages,
    name_of,
    request,
    response,
)

# Of each API and version that lists all nodes.
LISTS = [(rule.api_key, version) for rule in TABLE if rule.complete for version in rule.versions]
HOSTS = st.sampled_from(["up.a", "up.b", "up.example.東京", "fd00:dead::1"])
BROKERS = st.lists(st.tuples(st.integers(0, 3), HOSTS, st.sampled_from([9092, 9093])), max_size=3)
NO_TAGS, TAGS = b"\x00", b"\x02\x05\x03abc\x7f\x00"


@pytest.fixture(autouse=True)
def nothing_before() -> Iterator[None]:
    PREFIXES.clear()
    yield
    PREFIXES.clear()


def written(
    call: tuple[int, int],
    brokers: Sequence[tuple[int, str, int]],
    *,
    topics: int = 1,
    throttle: int = 0,
    tags: bytes = NO_TAGS,
    number: int = 7,
) -> bytes:
    """A response of this API and version that lists these brokers: ids, hosts, ports."""
    key, version = call
    ids = "BrokerId" if key == ApiKey.DESCRIBE_CLUSTER else "NodeId"
    topic = {"ErrorCode": 0, "Name": "t", "TopicId": bytes(16), "IsInternal": False, "Partitions": []}
    fields: dict[str, Any] = {
        "ThrottleTimeMs": throttle, "ErrorCode": 0, "ErrorMessage": None, "EndpointType": 1, "ClusterId": "c",
        "ControllerId": 1, "ClusterAuthorizedOperations": -1,
        "Topics": [{**topic, "TopicAuthorizedOperations": one} for one in range(topics)],
        "Brokers": [
            {ids: node, "Host": host, "Port": port, "Rack": None, "IsFenced": False} for node, host, port in brokers
        ],
    }  # fmt: skip
    body = encode(definitions.load_message(f"{APIS[key].name}Response"), version, fields)
    return response(key, version, body, number, tags)


def told(found: Endpoints, port: int = 20000, host: str = "127.0.0.1") -> list[Address]:
    return [Address(host, port + one.node_id) for one in found.nodes]


@contextmanager
def all_known() -> Iterator[None]:
    """Within it, the front of every response must be known: what is walked over is remembered anew."""
    before = PREFIXES._prefixes
    yield
    assert PREFIXES._prefixes is before


@given(
    said=st.lists(
        st.tuples(
            st.sampled_from(
                [(ApiKey.METADATA, 1), (ApiKey.METADATA, 8), (ApiKey.METADATA, 12), (ApiKey.DESCRIBE_CLUSTER, 1)]
            ),
            BROKERS,
            st.fixed_dictionaries(
                {"topics": st.integers(0, 2), "throttle": st.integers(0, 1), "tags": st.sampled_from([NO_TAGS, TAGS])}
            ),
            CHUNKINGS,
            st.sampled_from(["l", "127.0.0.1", "up.a"]),
            st.sampled_from([9092, 20000]),
        ),
        max_size=12,
    )
)
def test_a_sequence_is_the_same_as_without_a_memory(said: list[Any]) -> None:
    """Brokers, ports, topics and what clients are told change at random, in sessions that share the memory."""
    outcomes = []
    for forgetful in (True, False):
        outcome: list[Any] = []
        for call, brokers, more, sizes, host, port in said:
            if forgetful:
                PREFIXES.clear()
            talk = asked(*call, lambda found, host=host, port=port: told(found, port, host))
            outcome += (talk.broker(*chunks(written(call, brokers, **more), sizes)), talk.seen, talk.rewritten)
            assert talk.conversation.is_idle
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("call", CARRIERS, ids=name_of)
@given(data=st.data(), sizes=CHUNKINGS)
def test_every_response_is_the_same_the_second_time(
    call: tuple[int, int], data: st.DataObject, sizes: list[int]
) -> None:
    name = f"{APIS[call[0]].name}Response"
    said = response(*call, encode(definitions.load_message(name), call[1], data.draw(messages(name, call[1]))))
    first, second = asked(*call), asked(*call)
    out = first.broker(said)
    assert second.broker(*chunks(said, sizes)) == out
    assert (second.seen, second.rewritten) == (first.seen, first.rewritten)
    assert asked(*call, identity).broker(*chunks(said, sizes)) == said


@pytest.mark.parametrize("call", LISTS, ids=name_of)
def test_what_came_before_is_not_walked_again(call: tuple[int, int]) -> None:
    """Although the throttle time, the topics and the correlation id are others; and the same endpoints are given."""
    brokers = [(1, "up.a", 9092), (2, "up.b", 9092)]
    talk = asked(*call)
    talk.broker(written(call, brokers))
    talk.client(request(*call, 8))
    with all_known():
        out = talk.broker(written(call, brokers, throttle=500, topics=3, number=8))
    assert talk.seen[0] is talk.seen[1]
    talk.client(request(*call, 9))
    with pytest.raises(AssertionError), all_known():
        talk.broker(written(call, [(1, "up.a", 9092), (2, "up.b", 9093)], number=9))
    PREFIXES.clear()
    assert asked(*call).broker(written(call, brokers, throttle=500, topics=3)) == out[:4] + INT32.pack(7) + out[8:]


def test_others_are_not_remembered() -> None:
    """Most answers to FindCoordinator differ, and those that name new leaders are rare."""
    for call in [one for one in CARRIERS if one not in LISTS]:
        plan = asked(*call).calls[call[0] << 16 | call[1]]
        assert plan is not None
        assert plan.plan is not None
        assert plan.plan.same_from == 0


CALL = (ApiKey.METADATA, 12)
ONE = [(1, "up.a", 9092)]


def test_other_local_addresses_are_told_at_once() -> None:
    said = written(CALL, ONE)
    for host, port in [("a", 1), ("a", 1), ("a", 2), ("longer", 2), ("a", 1), ("up.a", 9091), ("up.a", 1)]:
        out = asked(*CALL, lambda found, host=host, port=port: told(found, port, host)).broker(said)
        local = bytes((len(host) + 1,)) + host.encode() + INT32.pack(port + 1)
        assert out[4:] == said[4:].replace(b"\x05up.a" + INT32.pack(9092), local)
        assert INT32.unpack_from(out)[0] == len(out) - 4


@pytest.mark.parametrize("kind", [list, tuple])
def test_the_addresses_may_come_in_any_sequence(kind: Callable[[list[Address]], Sequence[Address]]) -> None:
    said = written(CALL, ONE)
    outs, made = set(), set()
    for _ in range(3):
        outs.add(asked(*CALL, lambda found: kind(told(found))).broker(said))
        (front,) = PREFIXES._prefixes
        assert front._last is not None
        made.add(id(front._last[1]))
    assert len(outs) == len(made) == 1, "it is made once"


def test_who_may_not_know_is_refused_each_time() -> None:
    def refuse(found: Endpoints) -> list[Address]:
        raise WireError("not-localised", "nobody may know")

    said = written(CALL, ONE)
    for _ in range(2):
        with pytest.raises(WireError, match="nobody may know"):
            asked(*CALL, refuse).broker(said)
    assert UPSTREAM_MARKS[0] not in asked(*CALL).broker(said)
    with pytest.raises(WireError, match="nobody may know"):
        asked(*CALL, refuse).broker(said)


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_frame_that_ends_within_what_is_remembered_is_refused(cut: int) -> None:
    whole = written(CALL, ONE, topics=0)
    asked(*CALL).broker(whole)
    (front,) = PREFIXES._prefixes
    body = whole[4 : front.end - cut]
    with pytest.raises(WireError) as refused:
        asked(*CALL).broker(INT32.pack(len(body)) + body, b"following bytes that are of no frame of this response")
    assert refused.value.reason == "malformed"


def test_a_prefix_that_makes_the_frame_too_large_is_refused() -> None:
    said = INT32.pack(0x7FFFFFFF) + written(CALL, ONE)[4:]
    for _ in range(2):
        with pytest.raises(WireError, match="larger than 2 GiB"):
            asked(*CALL, lambda found: told(found, host="much.longer.than.before")).broker(said)


def test_the_memory_is_bounded() -> None:
    """Brokers may name others each time, as many as they like, with names as long as they like."""
    many = [(node, "up.a", 9092) for node in range(prefixcache.MAX_PREFIX_ENDPOINTS + 1)]
    long = [(node, "up." + "x" * 200, 9092) for node in range(100)]
    for brokers in (many, long, []):
        said = written(CALL, brokers)
        first, second = asked(*CALL), asked(*CALL)
        assert first.broker(said) == second.broker(said)
        assert len(second.seen) == (1 if brokers else 0)
        assert not PREFIXES._prefixes
    asked(*CALL).broker(written(CALL, many[:-1]))
    asked(*CALL).broker(written(CALL, long[:70]))
    assert len(PREFIXES._prefixes) == 2
    for port in range(3 * prefixcache.MAX_PREFIXES):
        talk = Talk()
        talk.client(request(*CALL))
        assert UPSTREAM_MARKS[0] not in talk.broker(written(CALL, [(1, "up.a", port)]))
    assert len(PREFIXES._prefixes) == prefixcache.MAX_PREFIXES
    with all_known():
        for port in range(2 * prefixcache.MAX_PREFIXES, 3 * prefixcache.MAX_PREFIXES):
            asked(*CALL).broker(written(CALL, [(1, "up.a", port)]))


def test_tagged_fields_in_the_header_are_walked_over() -> None:
    """Then the front stands elsewhere."""
    for tags in (TAGS, NO_TAGS, TAGS):
        out = asked(*CALL).broker(written(CALL, ONE, tags=tags))
        assert out[8:].startswith(tags)
        assert UPSTREAM_MARKS[0] not in out
    assert len(PREFIXES._prefixes) == 1


def test_what_is_remembered_stands_at_its_own_place_only() -> None:
    """A tagged field in the header may have the bytes of a front, where it stands if there is none."""
    asked(*CALL).broker(written(CALL, ONE))
    (front,) = PREFIXES._prefixes
    size = uvarint(len(front.data), 3)
    real = written(CALL, [(2, "up.b", 9092)])
    said = frame(real[4:8], b"\x01\x05", size, front.data, real[9:])
    assert said[front.begin : front.end] == front.data
    out = asked(*CALL).broker(said)
    assert b"up.b" not in out
    assert b"up.a" in out, "no address"


def test_what_is_remembered_is_of_its_own_version_only() -> None:
    """The same bytes may have their addresses elsewhere in another one: version 0 has no racks."""
    first = INT32.pack(1) + b"\0\4up.a" + INT32.pack(9092)
    # 0: the id, the host and the port of a second broker. 1: the rack of the first, and the second's id and host.
    second = b"\0\2rr" + b"\0\4up\0\4" + b"up.b"
    rest = INT32.pack(9093) + b"\xff\xff" + bytes(8)
    said = frame(INT32.pack(7), INT32.pack(2), first, second, rest)
    outs = [asked(ApiKey.METADATA, version).broker(said) for version in (0, 1)]
    assert len(PREFIXES._prefixes) == 2
    assert outs[0].count(b"127.0.0.1") == outs[1].count(b"127.0.0.1") == 2
    assert b"\0\4up\0" not in outs[0]
    assert b"\0\2rr\0\4up\0\x09127.0.0.1" in outs[1]
    assert outs == [asked(ApiKey.METADATA, version).broker(said) for version in (0, 1)]
