"""Kafka's error codes: their names in Java, kafka-python and the protocol, whether clients retry, and their fault."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cache

from kproxy.base.faults import Fault
from kproxy.protocol.wire.errorcodes import ErrorCode

_NUMBER = re.compile(r"(?i)(?:error[ _]?code['\"]?\s?[:=]?\s?|\[Error |\bErr-)(-?\d{1,3})\b")
# Redpanda: `error_code: network_exception [13]`
_REDPANDA = re.compile(r"error_code: [a-z_]{3,60} \[(-?\d{1,3})\]")
# kafka-go: `[6] Not Leader For Partition: …`
_TITLE = re.compile(r"\[(-?\d{1,3})\] ([A-Z][A-Za-z]{1,20}(?: [A-Za-z]{2,20}){1,6})")
_RUBY = re.compile(r"\bKafka::([A-Z][A-Za-z]{4,60}?)(?:Error)?\b(?!::)")
# GroupCoordinatorNotAvailable, NOT_LEADER_OR_FOLLOWER, coordinator_not_available: a name has at least two words.
_NAME = re.compile(r"\b[A-Za-z]{1,40}(?:[a-z][A-Z]|_[A-Za-z])[A-Za-z_]{1,80}\b")
# librdkafka, some versions with a former name of the code: `Broker: Group coordinator not available`
_LIBRDKAFKA = re.compile(r"\bBroker: ([A-Z][A-Za-z]{1,20}(?:[ -][A-Za-z]{1,20}){1,8})")
# franz-go: `NOT_CONTROLLER: This is not the correct controller for this cluster.`
_NAME_AND_SENTENCE = re.compile(r"\b([A-Z]{2,20}(?:_[A-Z]{1,20}){1,8}): [A-Z][a-z]")
_NO_LETTER = re.compile(r"[^a-z]+")
_SUFFIX = re.compile(r"(?:error|exception)$")
# Names that Kafka's protocol had before version 1.0, and the numbers of their codes: older clients and Erlang's have them.
_FORMER_NAMES = {
    "INVALID_MESSAGE": 2,
    "GROUP_LOAD_IN_PROGRESS": 14,
    "OFFSETS_LOAD_IN_PROGRESS": 14,
    "GROUP_COORDINATOR_NOT_AVAILABLE": 15,
    "CONSUMER_COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR_FOR_GROUP": 16,
    "NOT_COORDINATOR_FOR_CONSUMER": 16,
    "INVALID_SASL_STATE": 34,
}
# These words mean errors of any program.
_TOO_GENERAL = frozenset(
    ("timeout", "unknown", "unknownserver", "unknownservererror", "invalidrequest", "invalidconfig")
)
# So much of a description is enough to recognise it.
_DESCRIPTION_BYTES = 48
_SHORTEST_DESCRIPTION = 24
# The subject of a description that only Kafka can have.
_OF_KAFKA = re.compile(
    r"artition|roker|oordinator|eplica|roducer|onsumer|ransactional|SASL|opic|eader epoch|listener|voter|controller for|throttling"
)

# Each fault, and parts of the protocol names of its codes; the first that fits counts.
_NAMES = """\
not-authorized AUTHORIZATION_FAILED
sasl-mechanism UNSUPPORTED_SASL_MECHANISM
login-not-offered ILLEGAL_SASL_STATE
credentials-refused SASL_AUTHENTICATION_FAILED TOKEN_NOT_FOUND TOKEN_OWNER_MISMATCH TOKEN_EXPIRED UNACCEPTABLE_CREDENTIAL
configuration TOKEN_AUTH_DISABLED TOKEN_REQUEST_NOT_ALLOWED SECURITY_DISABLED INVALID_REQUIRED_ACKS INVALID_PARTITIONS
configuration TOPIC_DELETION_DISABLED INVALID_PRINCIPAL_TYPE
controller-port MISMATCHED_ENDPOINT UNSUPPORTED_ENDPOINT
configuration INVALID_CONFIG INVALID_GROUP_ID INVALID_SESSION_TIMEOUT INVALID_FETCH_SIZE POLICY_VIOLATION
wrong-listener LISTENER_NOT_FOUND
wrong-node NOT_LEADER NOT_CONTROLLER STALE_CONTROLLER_EPOCH LEADER_EPOCH NEW_LEADER_ELECTED
no-leader LEADER_NOT_AVAILABLE LEADERS_NOT_AVAILABLE OFFSET_NOT_AVAILABLE
topic-unknown UNKNOWN_TOPIC INVALID_TOPIC INCONSISTENT_TOPIC_ID FETCH_SESSION_TOPIC_ID
no-coordinator COORDINATOR
record-too-large TOO_LARGE INVALID_COMMIT_OFFSET_SIZE
kraft-configuration VOTER BROKER_REGISTRATION INVALID_REGISTRATION BROKER_ID_NOT_REGISTERED STALE_BROKER_EPOCH
kraft-configuration UNKNOWN_CONTROLLER_ID
not-enough-replicas NOT_ENOUGH_REPLICAS
broker-missing REPLICA BROKER_NOT_AVAILABLE REASSIGNMENT_IN_PROGRESS
wrong-cluster INCONSISTENT_CLUSTER_ID REBOOTSTRAP
broker-too-old UNSUPPORTED_VERSION UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_COMPRESSION
closed NETWORK_EXCEPTION
overloaded REQUEST_TIMED_OUT QUOTA FETCH_SESSION SHARE_SESSION TELEMETRY SUBSCRIPTION_ID
clock TIMESTAMP
transaction PRODUCER TXN TRANSACTION SEQUENCE
group GENERATION REBALANCE MEMBER GROUP_PROTOCOL INSTANCE_ID OFFSET_OUT_OF_RANGE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND
group GROUP_MAX_SIZE GROUP_SUBSCRIBED UNSTABLE_OFFSET UNSUPPORTED_ASSIGNOR
not-about-reaching-kafka CORRUPT_MESSAGE INVALID_RECORD KAFKA_STORAGE LOG_DIR_NOT_FOUND ELECTION_NOT_NEEDED
not-about-reaching-kafka NO_REASSIGNMENT OPERATION_NOT_ATTEMPTED UPDATE_VERSION FEATURE_UPDATE SNAPSHOT_NOT_FOUND
not-about-reaching-kafka POSITION_OUT_OF_RANGE DUPLICATE_RESOURCE RESOURCE_NOT_FOUND INVALID_RECORD_STATE
"""
_FAULTS = [(part, Fault(fault)) for fault, *parts in map(str.split, _NAMES.splitlines()) for part in parts]


@dataclass(frozen=True, slots=True)
class KafkaErrorCode:
    """An error of the protocol. `fault` is None if kproxy has no advice for it."""

    number: int
    name: str
    text: str
    retriable: bool
    fault: Fault | None


@cache
def _errors() -> dict[int, type[Exception]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python uses a deprecated API
        from kafka.errors import kafka_errors
    return dict(kafka_errors)


@cache
def codes_by_number() -> dict[int, KafkaErrorCode]:
    """Return the error codes by their number: those that kafka-python describes."""
    by_number = {}
    for code in ErrorCode:
        error = _errors().get(code)
        if code and error is not None:
            text = " ".join(str(getattr(error, "description", None) or "").split())
            fault = next((fault for part, fault in _FAULTS if part in code.name), None)
            retriable = bool(getattr(error, "retriable", False))
            by_number[code.value] = KafkaErrorCode(code.value, code.name, text, retriable, fault)
    return by_number


@cache
def codes_by_name() -> dict[str, KafkaErrorCode]:
    """Return the error codes by each spelling of their names."""
    by_name: dict[str, KafkaErrorCode] = {}
    for number, code in codes_by_number().items():
        error = _errors()[number]
        former = str(getattr(error, "message", None) or code.name)  # kafka-python has names of older Kafka
        spellings = {code.name, former, error.__name__, error.__name__.removesuffix("Error") + "Exception"}
        for name in (code.name, former):
            stem = name.title().replace("_", "").removesuffix("Exception")
            spellings |= {stem + "Exception", stem + "Error"}
        by_name.update(dict.fromkeys(spellings - {"TimeoutException", "UnknownError", "InvalidRequestError"}, code))
    by_name.update((name, codes_by_number()[number]) for name, number in _FORMER_NAMES.items())
    return by_name


@cache
def _codes_by_spelling() -> dict[str, KafkaErrorCode]:
    """Return the error codes by the letters of their names, however a client spells them."""
    by_spelling = {_spelling(name): code for name, code in codes_by_name().items()}
    return {spelling: code for spelling, code in by_spelling.items() if spelling not in _TOO_GENERAL}


def _spelling(name: str) -> str:
    return _SUFFIX.sub("", _NO_LETTER.sub("", name.lower()))


@cache
def spellings() -> tuple[str, ...]:
    """Return the names of the codes as clients spell them that print neither Java's names nor the protocol's."""
    stems = {name for name in codes_by_name() if "_" in name}
    return tuple(
        spelling for name in sorted(stems) for spelling in (name.lower(), name.title().replace("_", "")) if spelling
    )


@cache
def descriptions() -> dict[str, KafkaErrorCode]:
    """Return the error codes by the begin of what the protocol says of them, without its first letter."""
    by_text: dict[str, KafkaErrorCode] = {}
    for code in codes_by_number().values():
        text = code.text.partition(". ")[0].rstrip(".")[:_DESCRIPTION_BYTES]
        if len(text) >= _SHORTEST_DESCRIPTION:
            by_text[text[1:]] = code
    return by_text


@cache
def titles() -> tuple[str, ...]:
    """Return the names of the codes as kafka-go prints them."""
    return tuple(
        " ".join(word if word in ("SASL", "ID") else word.title() for word in name.split("_"))
        for name in codes_by_name()
        if "_" in name and name.isupper()
    )


def ruby_stem(name: str) -> str:
    """Return the name of ruby-kafka's class for the name of an error, without its module; empty if it has none."""
    return name.removesuffix("Error") if name.endswith("Error") else ""


def has_title(line: str) -> bool:
    """Check whether a line has the number and the name of a code as kafka-go or Redpanda prints them."""
    return _TITLE.search(line) is not None or _REDPANDA.search(line) is not None


def describes_code(line: str) -> bool:
    """Check whether a line describes a code in words that only Kafka uses, or names it and says a sentence about it."""
    code = _described(line)
    if code is not None and _OF_KAFKA.search(code.text):
        return True
    return any(_spelling(match[1]) in _codes_by_spelling() for match in _NAME_AND_SENTENCE.finditer(line))


def _described(line: str) -> KafkaErrorCode | None:
    return next((code for text, code in descriptions().items() if text in line), None)


def find_code(line: str) -> KafkaErrorCode | None:
    """Return the error code that a line names, numbers or describes."""
    for match in _NAME.finditer(line):
        if code := _codes_by_spelling().get(_spelling(match[0])):
            return code
    for match in _RUBY.finditer(line):
        if code := codes_by_name().get(match[1] + "Error"):
            return code
    for match in _TITLE.finditer(line):
        code = codes_by_number().get(int(match[1]))
        if code and any(len(word) > 4 and word.upper() in code.name for word in match[2].split()):
            return code
    for match in (*_REDPANDA.finditer(line), *_NUMBER.finditer(line)):
        if code := codes_by_number().get(int(match[1])):
            return code
    for match in _LIBRDKAFKA.finditer(line):
        if code := _codes_by_spelling().get(_spelling(match[1])):
            return code
    return _described(line)
