"""What is in a cluster, as brokers of several ages tell it: read here, written from Kafka's definitions."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.base.address import Address
from kproxy.client.ask import contents
from kproxy.client.ask.contents import Broker, ClusterContents, Group, GroupListing, Partition, Topic
from kproxy.client.ask.question import Question
from kproxy.client.ask.settings import LISTENER_SETTINGS, BrokerSettings, settings_question
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from tests.unit.client.ask.broker import Broker as Answering
from tests.unit.kafka_frames import encode

METADATA = {
    "throttle_time_ms": 0,
    "brokers": [
        {"node_id": 2, "host": "kafka-2", "port": 9093, "rack": "b"},
        {"node_id": 1, "host": "kafka-1\x1b[2J", "port": 9092, "rack": None},
    ],
    "cluster_id": "the-id",
    "controller_id": 2,
    "topics": [
        {
            "error_code": 0, "name": "orders", "is_internal": False, "partitions": [
                {"error_code": 0, "partition_index": 1, "leader_id": 2, "replica_nodes": [2, 1],
                 "isr_nodes": [2], "offline_replicas": [1]},
                {"error_code": 5, "partition_index": 0, "leader_id": -1, "replica_nodes": [1],
                 "isr_nodes": [1], "offline_replicas": []},
            ],
        },
        {"error_code": 29, "name": "hid\nden", "is_internal": True, "partitions": []},
    ],
}  # fmt: skip
GROUPS = {
    "throttle_time_ms": 0,
    "error_code": 0,
    "groups": [
        {"group_id": "b", "protocol_type": "consumer", "group_state": "Stable", "group_type": "classic"},
        {"group_id": "a\r", "protocol_type": "", "group_state": "Empty", "group_type": "share"},
    ],
}
CONFIGS = {
    "throttle_time_ms": 0,
    "results": [
        {
            "error_code": 0, "error_message": None, "resource_type": 4, "resource_name": "1", "configs": [
                {"name": name, "value": value, "read_only": True, "config_source": source, "is_sensitive": secret,
                 "synonyms": [{"name": "x", "value": None, "source": 4}]}
                for name, value, secret, source in (
                    ("listeners", "A://:1", False, 4), ("advertised.listeners", "A://h:1", True, 2),
                    ("cleanup.policy", "/tmp", False, 5),
                )
            ],
        }
    ],
}  # fmt: skip
QUORUM = {
    "error_code": 0,
    "topics": [
        {
            "topic_name": "__cluster_metadata", "partitions": [
                {"partition_index": 0, "error_code": 0, "leader_id": 3000, "leader_epoch": 1, "high_watermark": 9,
                 "current_voters": [], "observers": []}
            ],
        }
    ],
}  # fmt: skip


def name_of(key: int) -> str:
    return APIS[key].name


def camel(values: Any) -> Any:
    """With the definitions' names."""
    if isinstance(values, dict):
        return {"".join(part.title() for part in name.split("_")): camel(value) for name, value in values.items()}
    return [camel(one) for one in values] if isinstance(values, list) else values


def body_of(key: int, version: int, values: dict[str, Any]) -> bytes:
    """A response without its correlation id."""
    flexible = version >= APIS[key].flexible
    return (b"\0" if flexible else b"") + encode(
        definitions.load_message(f"{name_of(key)}Response"), version, camel(values)
    )


def asked(question: Question[Any], values: dict[str, Any]) -> None:
    """The request is what Kafka's definition says."""
    name = f"{name_of(question.key)}Request"
    assert question.body == encode(definitions.load_message(name), question.version, camel(values))


def served(**newest: int) -> dict[int, range]:
    return {ApiKey[key]: range(version + 1) for key, version in newest.items()}


@pytest.mark.parametrize("newest", [1, 2, 3, 4, 5, 13])
async def test_brokers_and_topics(newest: int) -> None:
    question = contents.contents_question(served(METADATA=newest))
    assert question.version == {3: 2, 13: 5}.get(newest, newest)
    asked(question, {"topics": None, "allow_auto_topic_creation": False})
    found = await question.ask(Answering({ApiKey.METADATA: body_of(ApiKey.METADATA, question.version, METADATA)}))
    offline = (1,) if question.version >= 5 else ()
    assert found == ClusterContents(
        "the-id" if newest >= 2 else None,
        2,
        (Broker(1, Address("kafka-1\x1b[2J", 9092), None), Broker(2, Address("kafka-2", 9093), "b")),
        (
            Topic("hid\\nden", True, (), 29),
            Topic("orders", False, (Partition(0, -1, (1,), (1,), (), 5), Partition(1, 2, (2, 1), (2,), offline, 0)), 0),
        ),
    )
    first, second = found.topics[1].partitions
    assert (first.is_leaderless, first.is_under_replicated) == (True, False)
    assert (second.is_leaderless, second.is_under_replicated) == (False, True)


async def test_what_this_user_may_do() -> None:
    """Kafka 2.3 and later tell (KIP-430)."""
    untold = -(2**31)
    topics = [
        {"error_code": 0, "name": name, "is_internal": False, "partitions": [], "topic_authorized_operations": bits}
        for name, bits in (("all", 0b0000_1101_1111_1000), ("reads", 1 << 3 | 1 << 8), ("untold", untold))
    ]
    topics[0]["partitions"] = [
        {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 77, "replica_nodes": [1],
         "isr_nodes": [1], "offline_replicas": []}
    ]  # fmt: skip
    values = METADATA | {"topics": topics, "cluster_authorized_operations": untold}
    question = contents.contents_question(served(METADATA=13), operations=True)
    asked(question, {
        "topics": None, "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False, "include_topic_authorized_operations": True,
    })  # fmt: skip
    found = await question.ask(Answering({ApiKey.METADATA: body_of(ApiKey.METADATA, 8, values)}))
    everything = frozenset(contents.OPERATIONS.values())
    allowed = {one.name: one.allowed for one in found.topics}
    assert allowed == {"all": everything, "reads": frozenset({"Read", "Describe"}), "untold": None}
    assert found.topics[0].partitions[0].leader == 1
    older = contents.contents_question(served(METADATA=7), operations=True)
    assert older.version == 5


def test_a_topic_that_is_asked_for_is_never_created() -> None:
    """Brokers before Metadata v4 create what is asked for; those are asked for all topics."""
    assert not contents.can_ask_for_one_topic(served(METADATA=3))
    assert contents.can_ask_for_one_topic(served(METADATA=4))
    question = contents.contents_question(served(METADATA=13), ["a", "b"])
    asked(question, {"topics": [{"name": "a"}, {"name": "b"}], "allow_auto_topic_creation": False})


@pytest.mark.parametrize(("newest", "version"), [(0, 0), (3, 0), (4, 4), (5, 5)])
async def test_groups(newest: int, version: int) -> None:
    question = contents.groups_question(served(LIST_GROUPS=newest))
    assert question is not None
    assert question.version == version
    asked(question, {"states_filter": [], "types_filter": []})
    found = await question.ask(Answering({ApiKey.LIST_GROUPS: body_of(ApiKey.LIST_GROUPS, version, GROUPS)}))
    a = Group("a\\r", "", "Empty" if version >= 4 else None, "share" if version >= 5 else None)
    b = Group("b", "consumer", "Stable" if version >= 4 else None, "classic" if version >= 5 else None)
    assert found == GroupListing(0, (a, b))
    assert contents.groups_question({}) is None


async def test_listeners() -> None:
    question = settings_question(served(DESCRIBE_CONFIGS=4), 7, LISTENER_SETTINGS)
    assert question is not None
    resource = {"resource_type": 4, "resource_name": "7", "configuration_keys": list(LISTENER_SETTINGS)}
    asked(question, {"resources": [resource], "include_synonyms": False})
    found = await question.ask(Answering({ApiKey.DESCRIBE_CONFIGS: body_of(ApiKey.DESCRIBE_CONFIGS, 1, CONFIGS)}))
    assert found == BrokerSettings(
        0, {"listeners": "A://:1", "advertised.listeners": None}, dynamic=frozenset({"advertised.listeners"})
    )
    assert settings_question(served(DESCRIBE_CONFIGS=0), 7) is None


async def test_all_settings_of_a_broker() -> None:
    question = settings_question(served(DESCRIBE_CONFIGS=4), 7)
    assert question is not None
    resource = {"resource_type": 4, "resource_name": "7", "configuration_keys": None}
    asked(question, {"resources": [resource], "include_synonyms": False})
    found = await question.ask(Answering({ApiKey.DESCRIBE_CONFIGS: body_of(ApiKey.DESCRIBE_CONFIGS, 1, CONFIGS)}))
    assert found.values["cleanup.policy"] == "/tmp"
    assert found.defaults == {"cleanup.policy"}


async def test_who_leads_the_quorum() -> None:
    question = contents.quorum_leader_question(served(DESCRIBE_QUORUM=2))
    assert question is not None
    topic = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    asked(question, {"topics": [topic]})
    answers = ((QUORUM, 3000), ({"error_code": 31, "topics": []}, None), ({"error_code": 0, "topics": []}, None))
    for values, leader in answers:
        body = body_of(ApiKey.DESCRIBE_QUORUM, 0, values)
        assert await question.ask(Answering({ApiKey.DESCRIBE_QUORUM: body})) == leader
    assert contents.quorum_leader_question({}) is None


ASKED = {
    key.name: (key, body_of(key, version, values), question)
    for key, version, values, question in (
        (ApiKey.METADATA, 5, METADATA, contents.contents_question(served(METADATA=5))),
        (ApiKey.LIST_GROUPS, 5, GROUPS, contents.groups_question(served(LIST_GROUPS=5))),
        (ApiKey.DESCRIBE_CONFIGS, 1, CONFIGS, settings_question(served(DESCRIBE_CONFIGS=1), 1)),
        (ApiKey.DESCRIBE_QUORUM, 0, QUORUM, contents.quorum_leader_question(served(DESCRIBE_QUORUM=0))),
    )
}
"""Questions with an answer to each; what can go wrong with these is in `test_questions`."""
