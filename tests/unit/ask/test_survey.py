"""What `kproxy doctor` asks brokers, and what they may answer: what they should, too little, nonsense."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.ask import survey
from kproxy.ask.asking import Ask
from kproxy.ask.survey import TopicSeen
from kproxy.errors import UpstreamError, WireError
from kproxy.wire import api
from tests.harness.answers import array, text
from tests.harness.kafka_python import ApiVersionsResponse, DescribeConfigsResponse, MetadataResponse
from tests.unit.ask.broker import Broker

SERVED = {key: range(20) for key in api.APIS}


def _metadata() -> bytes:
    partition = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition
    topic = MetadataResponse.MetadataResponseTopic
    partitions = [
        partition(error_code=0, partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1, 2], isr_nodes=[1]),
        partition(error_code=5, partition_index=1, leader_id=-1, leader_epoch=0, replica_nodes=[3], isr_nodes=[]),
    ]
    seen = topic(error_code=0, name="orders", is_internal=False, partitions=partitions, authorized_operations={3, 8})
    hidden = topic(error_code=29, name="secret", is_internal=False, partitions=[], authorized_operations=None)
    response = MetadataResponse(
        version=8, throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=7, topics=[seen, hidden],
        authorized_operations=None,
    )  # fmt: skip
    return bytes(response.encode())


def _configs() -> bytes:
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult
    configs = [
        config(name=name, value=value, read_only=True, config_source=4, is_sensitive=False, synonyms=[])
        for name, value in (("listeners", "A://:1"), ("zookeeper.connect", None))
    ]
    done = result(error_code=0, error_message=None, resource_type=4, resource_name="1", configs=configs)
    return bytes(DescribeConfigsResponse(version=1, throttle_time_ms=0, results=[done]).encode())


def _features() -> bytes:
    key = ApiVersionsResponse.FinalizedFeatureKey
    finalized = [key(name="metadata.version", max_version_level=30, min_version_level=1)]
    response = ApiVersionsResponse(
        version=3, error_code=0, api_keys=[], throttle_time_ms=0, finalized_features=finalized
    )
    return bytes(response.encode())


def _mechanisms(*names: str, error: int = 33) -> bytes:
    return struct.pack(">h", error) + array([text(name) for name in names])


ASKED: dict[str, tuple[int, bytes, Callable[[Ask], Awaitable[Any]]]] = {
    "features": (api.API_VERSIONS, _features(), lambda ask: survey.features(ask, SERVED)),
    "contents": (api.METADATA, _metadata(), lambda ask: survey.contents(ask, SERVED)),
    "settings": (api.DESCRIBE_CONFIGS, _configs(), lambda ask: survey.settings(ask, SERVED, 1)),
    "coordinator": (
        api.FIND_COORDINATOR, struct.pack(">hi", 15, 4), lambda ask: survey.coordinator(ask, SERVED, "g"),
    ),
    "mechanisms": (api.SASL_HANDSHAKE, _mechanisms("PLAIN"), lambda ask: survey.mechanisms(ask, SERVED)),
}  # fmt: skip
each = pytest.mark.parametrize("question", ASKED)


async def answer(question: str, body: bytes | None = None) -> Any:
    key, whole, asking = ASKED[question]
    return await asking(Broker({key: whole if body is None else body}))


async def test_the_topics_that_a_user_may_see() -> None:
    found = await answer("contents")
    assert found.controller == 7
    assert found.topic("orders") == TopicSeen(
        "orders", 0, 2, (1,), frozenset({1}), frozenset({1, 2, 3}), frozenset({"Read", "Describe"})
    )
    assert (found.topic("secret").error, found.topic("secret").allowed) == (29, None)
    assert found.topic("missing") is None


async def test_the_settings_of_listeners() -> None:
    assert await answer("settings") == {"listeners": "A://:1"}


async def test_the_features_and_the_coordinator() -> None:
    assert (await answer("features")).finalized == {"metadata.version": 30}
    assert await answer("coordinator") == (15, 4)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (_mechanisms("PLAIN", "SCRAM-SHA-512"), ("PLAIN", "SCRAM-SHA-512")),
        (_mechanisms("PLAIN", error=34), None),  # the listener has no SASL
        (_mechanisms("PLAIN", error=0), None),  # no broker has that mechanism
    ],
)
async def test_the_mechanisms_of_a_listener(body: bytes, names: tuple[str, ...] | None) -> None:
    assert await answer("mechanisms", body) == names


async def test_a_list_of_mechanisms_without_end() -> None:
    assert len(await answer("mechanisms", _mechanisms(*["X"] * 50_000))) == 20


@each
async def test_an_old_broker_is_not_asked(question: str) -> None:
    old = Broker({})
    asking = {
        "features": lambda: survey.features(old, {}),
        "settings": lambda: survey.settings(old, {}, 1),
        "coordinator": lambda: survey.coordinator(old, {}, "g"),
        "mechanisms": lambda: survey.mechanisms(old, {}),
    }.get(question)
    if asking is not None:
        await asking()
        assert old.asked == []


@each
async def test_an_answer_that_ends_anywhere(question: str) -> None:
    key, whole, asking = ASKED[question]
    for end in range(len(whole)):
        with contextlib.suppress(WireError):
            await asking(Broker({key: whole[:end]}))


@each
@given(data=st.data())
async def test_an_answer_of_nonsense(question: str, data: st.DataObject) -> None:
    key, whole, asking = ASKED[question]
    spoiled = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=8)):
        spoiled[at] = data.draw(st.integers(0, 255))
    body = data.draw(st.one_of(st.just(bytes(spoiled)), st.binary(max_size=200)))
    with contextlib.suppress(WireError, UpstreamError):
        await asking(Broker({key: body}))


@each
async def test_counts_that_are_not_there(question: str) -> None:
    """Two thousand million elements, and none of them behind."""
    key, _, asking = ASKED[question]
    for count in (0x7FFFFFFF, -1, -2147483648):
        for before in range(30):
            with contextlib.suppress(WireError):
                await asking(Broker({key: bytes(before) + struct.pack(">i", count)}))
