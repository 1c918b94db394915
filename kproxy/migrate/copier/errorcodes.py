"""The error codes that the copier retries, and advice for others."""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.base.errors import WireError
from kproxy.protocol.wire.errorcodes import COORDINATOR_MOVES, ErrorCode, error_name

# Codes of conditions that end: a leader moves, a coordinator loads, a broker starts. The copier retries from its
# committed state.
RETRIABLE = COORDINATOR_MOVES | {
    ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TRANSACTION_ABORTABLE,
}  # fmt: skip
FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)

# What a user can do about a code that is not retriable.
ADVICE: Mapping[int, str] = {
    ErrorCode.CORRUPT_MESSAGE: (
        "the target received a corrupt batch: check the network and the memory of this machine"
    ),
    ErrorCode.MESSAGE_TOO_LARGE: (
        "raise max.message.bytes of the target topic to the source's: kproxy migrate prepare does it"
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: (
        "raise max.message.bytes and segment.bytes of the target topic: kproxy migrate prepare does it"
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "allow this principal Read on the source topic, and Write on the target topic and the state topic"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ("allow this principal IdempotentWrite on the target cluster"),
    ErrorCode.INVALID_TIMESTAMP: (
        "open message.timestamp.before.max.ms and message.timestamp.after.max.ms of the target topic:"
        " kproxy migrate prepare does it"
    ),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "the target topic has an old message.format.version: raise it to 0.11 or later"
    ),
    ErrorCode.POLICY_VIOLATION: ("a policy of the target cluster refuses the batch: ask the operator of that cluster"),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: ("raise transaction.max.timeout.ms of the target's brokers to a minute"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "allow this principal Write and Describe on transactional ids that begin with kproxy-migration-"
    ),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: (
        "the target does not support the codec of the source: set compression.type of the target topic"
    ),
    ErrorCode.INVALID_RECORD: (
        "the target refuses the record; a compacted topic accepts no record without a key: copy to a topic with"
        " cleanup.policy=delete"
    ),
}


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
