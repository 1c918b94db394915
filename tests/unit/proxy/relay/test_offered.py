"""What clients of a cluster that can be switched are told of in ApiVersions."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.proxy.relay.calls import Calls, SessionCalls
from kproxy.proxy.relay.conversation import Conversation
from kproxy.proxy.switching.caps import CAPS
from tests.unit.kafka_frames import Counted, encode, read, request, response

DEFINITION = definitions.load_message("ApiVersionsResponse")
SHARED = Calls(lambda code, name, version: Counted(), CAPS)
"""Those of one node, for all sessions."""
BY_IDS = [68, 76, 77, 78, 79]
OFFSET_FOR_LEADER_EPOCH = 23


def asking(software: str, correlation_id: int = 1, version: int = 4) -> bytes:
    name, _, its_version = software.partition(" ")
    body = b"".join(bytes([len(text) + 1]) + text.encode() for text in (name, its_version))
    return request(ApiKey.API_VERSIONS, version, correlation_id, body + b"\0")


def conversation() -> Conversation:
    return Conversation(SessionCalls(SHARED), lambda found: [], 1 << 20)


def told(talk: Conversation, correlation_id: int = 1) -> dict[int, int]:
    """The newest version of each API that the client learns of, from a broker that has what kproxy knows."""
    keys = [{"ApiKey": one.value, "MinVersion": one.oldest, "MaxVersion": one.newest} for one in APIS.values()]
    answer: dict[str, Any] = {"ErrorCode": 0, "ApiKeys": keys, "ThrottleTimeMs": 0, "FinalizedFeaturesEpoch": -1}
    answer |= {"SupportedFeatures": [], "FinalizedFeatures": [], "ZkMigrationReady": False}
    said = talk.from_upstream(response(ApiKey.API_VERSIONS, 4, encode(DEFINITION, 4, answer), correlation_id), 0.0)
    return {one["api_key"]: one["max_version"] for one in read(ApiKey.API_VERSIONS, 4, bytes(said))["api_keys"]}


@pytest.mark.parametrize("software", ["kgo v1.22.2", "kgo "])
def test_franz_go_never_learns_the_id_of_a_topic(software: str) -> None:
    talk = conversation()
    talk.from_client(asking(software), 0.0)
    found = told(talk)
    assert (found[ApiKey.METADATA], found[ApiKey.PRODUCE], found[ApiKey.FETCH]) == (9, 9, 12)
    assert [key for key in (*BY_IDS, OFFSET_FOR_LEADER_EPOCH) if key in found] == []
    assert len(found) == len(APIS) - len(BY_IDS) - 1


@pytest.mark.parametrize("software", ["apache-kafka-java 4.3.1", "librdkafka 2.15", "kgoing 1", " "])
def test_others_keep_the_ids_even_beside_franz_go(software: str) -> None:
    beside, talk = conversation(), conversation()
    beside.from_client(asking("kgo v1.22.2"), 0.0)
    talk.from_client(asking(software), 0.0)
    assert told(talk) == {one.value: CAPS.get(one.value, one.newest) for one in APIS.values()}
    assert told(beside)[ApiKey.METADATA] == 9


def test_the_answer_to_an_unknown_version_suits_franz_go() -> None:
    talk = conversation()
    assert talk.from_client(asking("kgo v1.22.2", version=6), 0.0) == b""
    assert talk.take_answers()
    talk.from_client(asking("kgo v1.22.2", 2), 0.0)
    assert told(talk, 2)[ApiKey.METADATA] == 9


def test_franz_go_that_knows_more_from_before_is_not_refused() -> None:
    talk = conversation()
    talk.from_client(asking("kgo v1.22.2"), 0.0)
    asked = request(ApiKey.METADATA, 12, 2)
    assert talk.from_client(asked, 0.0) == asked
