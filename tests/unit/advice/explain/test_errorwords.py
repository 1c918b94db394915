"""Kafka's error codes, in the words of each client that prints no code."""

from __future__ import annotations

import io

import pytest

from kproxy.advice.explain.codes import codes_by_number
from kproxy.advice.explain.explanation import explain
from kproxy.advice.explain.patterns import patterns_by_word
from kproxy.advice.remedies.errorwords import MESSAGES
from kproxy.advice.remedies.remedy import Program
from kproxy.base.faults import Fault

WORDS = [
    (message.text, fault)
    for fault, messages in MESSAGES.items()
    for message in messages
    if message.program is Program.ANY
]


def faults(text: str) -> list[Fault]:
    return [fault for cause in explain(io.BytesIO(text.encode())).causes for fault in cause.faults]


@pytest.mark.parametrize("client", ["sarama: kafka server: {}", "Broker: {}", '"logger":"kafkajs","error":"{}"'])
@pytest.mark.parametrize(("words", "fault"), WORDS, ids=lambda value: str(value)[:40])
def test_each_client_that_has_the_words(client: str, words: str, fault: Fault) -> None:
    assert fault in faults(client.format(words))


@pytest.mark.parametrize(("words", "fault"), WORDS, ids=lambda value: str(value)[:40])
def test_the_words_alone_are_no_sign_of_kafka(words: str, fault: Fault) -> None:
    patterns = (pattern for group in patterns_by_word().values() for pattern in group)
    if not any(pattern.is_alone and pattern.find(words) for pattern in patterns):
        assert faults(f"grpc: rpc error: {words}") == []


# What these codes mean depends on the request, or only brokers see them.
WITHOUT_A_FAULT = {
    "UNKNOWN_SERVER_ERROR", "INVALID_REQUEST", "TOPIC_ALREADY_EXISTS", "OFFSET_METADATA_TOO_LARGE", "PRINCIPAL_DESERIALIZATION_FAILURE",
    "OFFSET_MOVED_TO_TIERED_STORAGE", "FENCED_STATE_EPOCH", "INVALID_REGULAR_EXPRESSION", "STREAMS_INVALID_TOPOLOGY",
    "STREAMS_INVALID_TOPOLOGY_EPOCH", "STREAMS_TOPOLOGY_FENCED",
}  # fmt: skip


def test_each_other_code_has_a_fault() -> None:
    without = {code.name for code in codes_by_number().values() if code.fault is None}

    assert without <= WITHOUT_A_FAULT


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Kafka::InvalidTopic", Fault.TOPIC_UNKNOWN),
        ("Kafka::NotEnoughReplicasAfterAppend: x", Fault.NOT_ENOUGH_REPLICAS),
        ("Kafka::UnsupportedSaslMechanism", Fault.SASL_MECHANISM),
        ("Kafka::InvalidSaslState", Fault.LOGIN_NOT_OFFERED),
        ("Kafka::ClusterAuthorizationFailed", Fault.NOT_AUTHORIZED),
    ],
)
def test_the_classes_of_ruby_kafka(text: str, fault: Fault) -> None:
    assert faults(text) == [fault]


@pytest.mark.parametrize(
    "spelling",
    [
        "CoordinatorNotAvailable", "GroupCoordinatorNotAvailable", "coordinator_not_available", ":group_coordinator_not_available",
        "COORDINATOR_NOT_AVAILABLE", "CoordinatorNotAvailableException", "Broker: Group coordinator not available",
    ],
)  # fmt: skip
def test_a_code_in_each_spelling_of_its_name(spelling: str) -> None:
    assert faults(f"kafka consumer group: failed to join, reason: {spelling}") == [Fault.NO_COORDINATOR]


@pytest.mark.parametrize(
    "name", ["request_timed_out", "TimeoutException", "UnknownError", "invalid_request", "member_id", "InvalidConfig"]
)
def test_a_general_name_alone_is_no_sign_of_kafka(name: str) -> None:
    assert faults(f"upload failed: {name}") == []


@pytest.mark.parametrize("number", [16, 41, 72, 75, 82])
def test_the_description_of_a_code_is_enough(number: int) -> None:
    code = codes_by_number()[number]

    assert faults(code.text) == [code.fault]
    assert faults(f"{code.name}: Some words about it.") == [code.fault]
