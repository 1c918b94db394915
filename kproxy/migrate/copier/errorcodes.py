"""Kafka's error codes that the copier may receive: their names, which are retriable, and advice for the others."""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.base.errors import WireError

OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE, NOT_COORDINATOR = (
    1,
    3,
    6,
    10,
    16,
)
INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED = 47, 51, 90

NAMES: Mapping[int, str] = {
    -1: "UNKNOWN_SERVER_ERROR",
    1: "OFFSET_OUT_OF_RANGE",
    2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    10: "MESSAGE_TOO_LARGE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    17: "INVALID_TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    35: "UNSUPPORTED_VERSION",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    44: "POLICY_VIOLATION",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    50: "INVALID_TRANSACTION_TIMEOUT",
    51: "CONCURRENT_TRANSACTIONS",
    52: "TRANSACTION_COORDINATOR_FENCED",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    56: "KAFKA_STORAGE_ERROR",
    59: "UNKNOWN_PRODUCER_ID",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    78: "OFFSET_NOT_AVAILABLE",
    87: "INVALID_RECORD",
    89: "THROTTLING_QUOTA_EXCEEDED",
    90: "PRODUCER_FENCED",
    100: "UNKNOWN_TOPIC_ID",
    120: "TRANSACTION_ABORTABLE",
}

# Codes of conditions that end: a leader moves, a coordinator loads, a broker starts. The copier retries from its
# committed state.
RETRIABLE = frozenset(
    {-1, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 45, 46, 48, 49, 51, 52, 56, 59, 74, 75, 78, 89, 100, 120}
)
FENCED = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})

# What a user can do about a code that is not retriable.
ADVICE: Mapping[int, str] = {
    2: "the target received a corrupt batch: check the network and the memory of this machine",
    10: "raise max.message.bytes of the target topic to the source's: kproxy migrate prepare does it",
    18: "raise max.message.bytes and segment.bytes of the target topic: kproxy migrate prepare does it",
    29: "allow this principal Read on the source topic, and Write on the target topic and the state topic",
    31: "allow this principal IdempotentWrite on the target cluster",
    32: "open message.timestamp.before.max.ms and message.timestamp.after.max.ms of the target topic:"
    " kproxy migrate prepare does it",
    43: "the target topic has an old message.format.version: raise it to 0.11 or later",
    44: "a policy of the target cluster refuses the batch: ask the operator of that cluster",
    50: "raise transaction.max.timeout.ms of the target's brokers to a minute",
    53: "allow this principal Write and Describe on transactional ids that begin with kproxy-migration-",
    76: "the target does not support the codec of the source: set compression.type of the target topic",
    87: "the target refuses the record; a compacted topic accepts no record without a key: copy to a topic with"
    " cleanup.policy=delete",
}


def error_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    return NAMES.get(code, f"error {code}")


class BrokerError(WireError):
    """An error code in a broker's response. `code` is Kafka's error code."""

    def __init__(self, code: int, what: str) -> None:
        self.code = code
        advice = f": {ADVICE[code]}" if code in ADVICE else ""
        super().__init__("refused", f"{what}: {error_name(code)}{advice}")

    @property
    def is_retriable(self) -> bool:
        """True if another attempt may succeed."""
        return self.code in RETRIABLE


class ProducerFenced(BrokerError):
    """Another producer has taken this transactional id, or the coordinator has expired it."""


def raise_for_code(code: int, what: str) -> None:
    """Raise BrokerError or ProducerFenced, unless the code is 0."""
    if code in FENCED:
        raise ProducerFenced(code, what)
    if code:
        raise BrokerError(code, what)
