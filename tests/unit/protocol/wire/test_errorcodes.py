"""Kafka's error codes, compared with kafka-python's, which has older names of some and lacks the newest."""

from __future__ import annotations

from kafka.errors import kafka_errors

from kproxy.protocol.wire.errorcodes import ErrorCode, error_name

RENAMED = {
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "NO_ERROR": "NONE",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
}


def test_the_codes_are_kafkas() -> None:
    theirs = {code: error.message for code, error in kafka_errors.items() if isinstance(code, int)}
    ours = {code.value: code.name for code in ErrorCode}
    assert {code: RENAMED.get(name, name) for code, name in theirs.items()} == {code: ours[code] for code in theirs}
    assert sorted(ours) == list(range(-1, len(ours) - 1))


def test_a_code_of_a_later_kafka_has_a_number() -> None:
    assert [error_name(code) for code in (3, 999)] == ["UNKNOWN_TOPIC_OR_PARTITION", "error 999"]
