"""Tests of what the user of a connection may do, which do not do it.

 * Topics: the broker reports the operations that it allows (Metadata v8, KIP-430; Kafka 2.3 and later).
 * Read on a group: a heartbeat of a member that the group does not have. Each broker checks the right first, also one
   that does not coordinate the group; then it refuses the member.
 * Write on a transactional id: the end of a transaction, with a producer id that no cluster assigns. Each broker checks
   the right first; then it refuses the producer id.

None of it changes anything, creates a topic or reads a record. An authorizer may log what it refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kproxy.client.ask.channel import Channel
from kproxy.client.ask.question import Question, ask_for
from kproxy.client.ask.questions import Versions
from kproxy.protocol.wire.acls import GROUP, OPERATIONS, READ, TOPIC, TRANSACTIONAL_ID, WRITE, Right
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode, error_name
from kproxy.protocol.wire.messages import encode_fields
from kproxy.protocol.wire.primitives import INT16, INT32, Underflow, read_string

T = TypeVar("T")

# Topics of one request: the answer lists all their partitions.
_TOPICS_AT_ONCE = 10
# Requests that may wait for their answers on one connection.
_REQUESTS_AT_ONCE = 16
# Partitions read before other tasks have their turn.
_PARTITIONS_AT_ONCE = 500
_OMITTED = -(2**31)
_NO_MEMBER = "kproxy-has-no-member-here"
_NO_PRODUCER_ID = 2**63 - 1
_BIT_OF = {name: bit for bit, name in OPERATIONS.items()}
# The answers of a broker that has checked the right, and then refuses the member or the producer id.
_MEMBER_REFUSED = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_PRODUCER_REFUSED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


@dataclass(frozen=True, slots=True)
class RightResult:
    """The answer whether a user has a right; `allowed` is None if kproxy does not know it, and `why` has the reason."""

    allowed: bool | None
    why: str = ""


_ALLOWED, _REFUSED = RightResult(True), RightResult(False)


def can_try(right: Right) -> bool:
    """Return whether `try_rights` can find out about this right."""
    if right.resource == TOPIC:
        return right.operation in _BIT_OF
    return (right.operation, right.resource) in ((READ, GROUP), (WRITE, TRANSACTIONAL_ID))


async def try_rights(channel: Channel, versions: Versions, rights: Sequence[Right]) -> dict[Right, RightResult]:
    """Return for each right whether the user of the connection has it.

    Raises UpstreamError and WireError, as `Question.ask` does.
    """
    results = {right: RightResult(None, "kproxy cannot try it") for right in rights if not can_try(right)}
    on_topics = [right for right in rights if right.resource == TOPIC and can_try(right)]
    results |= await _try_topics(channel, versions, on_topics)
    questions: dict[Right, Question[RightResult]] = {}
    for right in rights:
        if right.resource == TOPIC or not can_try(right):
            continue
        question = _group_question(versions, right) if right.resource == GROUP else _id_question(versions, right)
        if question is None:
            results[right] = RightResult(None, "the broker does not support the request")
        else:
            questions[right] = question
    answers = await _ask_all(channel, list(questions.values()))
    return results | dict(zip(questions, answers, strict=True))


async def _ask_all(channel: Channel, questions: Sequence[Question[T]]) -> list[T]:
    """Ask the questions, several at a time, and return the answers."""
    answers: list[T] = []
    for batch in _batches(questions, _REQUESTS_AT_ONCE):
        for question in batch:
            question.send(channel)
        answers += [await question.read_answer(channel) for question in batch]
    return answers


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _group_question(versions: Versions, right: Right) -> Question[RightResult] | None:
    version = _version(versions, ApiKey.HEARTBEAT)
    fields = {"GroupId": right.name, "GenerationId": 0, "MemberId": _NO_MEMBER, "GroupInstanceId": None}
    read = partial(_judge, ErrorCode.GROUP_AUTHORIZATION_FAILED, _MEMBER_REFUSED)
    return None if version is None else ask_for(ApiKey.HEARTBEAT, version, fields, read)


def _id_question(versions: Versions, right: Right) -> Question[RightResult] | None:
    version = _version(versions, ApiKey.END_TXN)
    fields = {"TransactionalId": right.name, "ProducerId": _NO_PRODUCER_ID, "ProducerEpoch": 0, "Committed": False}
    read = partial(_judge, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _PRODUCER_REFUSED)
    return None if version is None else ask_for(ApiKey.END_TXN, version, fields, read)


def _version(versions: Versions, key: int) -> int | None:
    return next((version for version in range(4) if version in versions.get(key, ())), None)


def _judge(refusal: int, checked: Iterable[int], fields: Mapping[str, int]) -> RightResult:
    code = fields["ErrorCode"]
    if code == refusal:
        return _REFUSED
    return _ALLOWED if code in checked else RightResult(None, error_name(code))


async def _try_topics(channel: Channel, versions: Versions, rights: Sequence[Right]) -> dict[Right, RightResult]:
    if not rights:
        return {}
    if 8 not in versions.get(ApiKey.METADATA, ()):
        return dict.fromkeys(rights, RightResult(None, "brokers before Kafka 2.3 do not report rights on topics"))
    names = sorted({right.name for right in rights})
    questions = [_topics_question(batch) for batch in _batches(names, _TOPICS_AT_ONCE)]
    reported: dict[bytes, tuple[int, int]] = {}
    for answer in await _ask_all(channel, questions):
        reported |= answer
    return {right: _judge_topic(right, reported.get(right.name.encode())) for right in rights}


def _judge_topic(right: Right, reported: tuple[int, int] | None) -> RightResult:
    if reported is None:
        return RightResult(None, "the broker's answer does not have the topic")
    code, bits = reported
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:  # Read and Write imply Describe
        return _REFUSED
    if code != ErrorCode.NONE:
        return RightResult(None, error_name(code))
    if bits == _OMITTED:
        return RightResult(None, "the broker does not report rights on topics")
    return _ALLOWED if bits >> _BIT_OF[right.operation] & 1 else _REFUSED


def _topics_question(names: Sequence[str]) -> Question[dict[bytes, tuple[int, int]]]:
    fields = {
        "Topics": [{"Name": name} for name in names],
        "AllowAutoTopicCreation": False,
        "IncludeTopicAuthorizedOperations": True,
    }
    request = encode_fields("MetadataRequest", 8, fields)
    return Question(ApiKey.METADATA, 8, request, _read_topics)


async def _read_topics(body: bytes) -> dict[bytes, tuple[int, int]]:
    """Return the error code and the bits of the allowed operations of each topic in a Metadata response, v8."""
    end = len(body)
    count, at = _count(body, 4)  # behind the throttle time
    for _ in range(count):
        _, at = read_string(body, at + 4, end, compact=False, nullable=False)
        _, at = read_string(body, at + 4, end, compact=False, nullable=True)  # behind the port
    _, at = read_string(body, at, end, compact=False, nullable=True)
    count, at = _count(body, at + 4)  # behind the controller's id
    topics: dict[bytes, tuple[int, int]] = {}
    read = 0
    for _ in range(count):
        (code,) = INT16.unpack_from(body, at)
        name, at = read_string(body, at + 2, end, compact=False, nullable=False)
        partitions, at = _count(body, at + 1)  # behind the flag of internal topics
        for _ in range(partitions):
            at += 14  # error, index, leader, epoch
            for _ in range(3):  # replicas, those in sync, those offline
                nodes, at = _count(body, at)
                at += 4 * nodes
            read += 1
            if read % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
        (bits,) = INT32.unpack_from(body, at)
        at += 4
        topics[name or b""] = code, bits
    return topics


def _count(body: bytes, at: int) -> tuple[int, int]:
    (count,) = INT32.unpack_from(body, at)
    if count < 0 or count > len(body) - at:  # each element has a byte at least
        raise Underflow
    return count, at + 4
