"""Questions of a client that uses a topic or a group, and what a broker may answer to them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kproxy.base.errors import KproxyError
from kproxy.client.ask import usage
from kproxy.client.ask.question import Question
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.messages import encode_fields

NEW = {ApiKey.DESCRIBE_GROUPS: range(7), ApiKey.LIST_OFFSETS: range(1, 12), ApiKey.FETCH: range(4, 19)}


class Answers:
    """A channel to a broker with these bodies as its answers, one for each request."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = list(bodies)
        self.sent: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    async def receive(self) -> bytes:
        key = struct.unpack_from(">h", self.sent[-1], 4)[0]
        return struct.pack(">i", key) + self.bodies.pop(0)


def answer(question: Question[Any] | None, body: bytes) -> Any:
    assert question is not None
    return asyncio.run(question.ask(Answers(body)))  # type: ignore[arg-type]  # it has what is used


def group(version: int = 5, **fields: Any) -> bytes:
    text = {name: b"" for name in ("GroupId", "GroupState", "ProtocolType", "ProtocolData")}
    body = encode_fields("DescribeGroupsResponse", version, {"Groups": [text | fields]})
    return b"\0" + body  # behind the tags of the header


def ends(*partitions: tuple[int, int, int]) -> bytes:
    """A ListOffsets response v1: index, error, offset."""
    parts = [{"PartitionIndex": index, "ErrorCode": error, "Offset": end} for index, error, end in partitions]
    return encode_fields("ListOffsetsResponse", 1, {"Topics": [{"Name": b"t", "Partitions": parts}]})


def reads(*partitions: tuple[int, int], records: bytes = b"") -> bytes:
    """A Fetch response v4: index, error."""
    parts = [{"PartitionIndex": index, "ErrorCode": error, "Records": records} for index, error in partitions]
    return encode_fields("FetchResponse", 4, {"Responses": [{"Topic": b"t", "Partitions": parts}]})


def read(*bodies: bytes, partitions: tuple[int, ...] = (0, 1, 2)) -> tuple[dict[int, int], int]:
    """The codes, and the number of requests."""
    channel = Answers(*bodies)
    codes = asyncio.run(usage.read_at_end(channel, NEW, "t", partitions, 1))  # type: ignore[arg-type]
    return dict(codes), len(channel.sent)


def test_a_group() -> None:
    question = usage.group_question(NEW, "g")
    described = answer(question, group(GroupState=b"Sta\x1bble", AuthorizedOperations=1 << 3 | 1 << 8))
    assert described == usage.GroupDescription(0, "Sta\\x1bble", frozenset({"Read", "Describe"}))
    assert answer(question, group(ErrorCode=16, AuthorizedOperations=-(2**31))).allowed is None
    nothing = b"\0" + encode_fields("DescribeGroupsResponse", 5, {})
    assert answer(question, nothing).error == -1
    assert usage.group_question({}, "g") is None


def test_a_group_of_an_old_broker() -> None:
    question = usage.group_question({ApiKey.DESCRIBE_GROUPS: range(1)}, "g")
    body = encode_fields("DescribeGroupsResponse", 0, {"Groups": [{"ErrorCode": 15}]})
    assert answer(question, body) == usage.GroupDescription(15, "", None)


def test_a_read_at_the_end() -> None:
    assert read(ends((0, 0, 7), (1, 0, 0), (2, 6, -1)), reads((0, 0), (1, 29))) == ({0: 0, 1: 29, 2: 6}, 2)
    assert read(ends((0, 6, -1)), partitions=(0,)) == ({0: 6}, 1)  # nothing to read


@pytest.mark.parametrize("code", [0, 1, 76])
def test_a_read_that_is_allowed(code: int) -> None:
    """Records came or went meanwhile."""
    assert read(ends((0, 0, 7)), reads((0, code), records=b"x" * 5000), partitions=(0,)) == ({0: 0}, 2)


def test_partitions_that_were_not_asked_for_do_not_count() -> None:
    assert read(ends((0, 0, 7), (9, 0, 7)), reads((0, 0), (9, 29)), partitions=(0,)) == ({0: 0}, 2)
    assert read(ends(), partitions=(0,)) == ({}, 1)


@pytest.mark.parametrize("body", [b"", b"\0" * 3, b"\xff" * 40, struct.pack(">ii", 2**31 - 1, 2**31 - 1)])
@pytest.mark.parametrize("asking", [lambda body: read(body), lambda body: read(ends((0, 0, 7)), body)])
def test_nonsense_is_an_error_with_a_reason(body: bytes, asking: Callable[[bytes], object]) -> None:
    with pytest.raises(KproxyError):
        asking(body)


def test_a_broker_without_these_versions_is_not_asked() -> None:
    assert asyncio.run(usage.read_at_end(Answers(), {}, "t", (0,), 1)) == {}  # type: ignore[arg-type]
