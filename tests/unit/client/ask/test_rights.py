"""What a user may do, as brokers answer to requests that change nothing; and whatever else a peer may answer."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kproxy.base.errors import KproxyError
from kproxy.client.ask import rights
from kproxy.client.ask.rights import RightResult
from kproxy.protocol.wire.acls import OPERATIONS, Right
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.messages import encode_fields, read_request

NEW = {ApiKey.METADATA: range(14), ApiKey.HEARTBEAT: range(5), ApiKey.END_TXN: range(6)}
READ, WRITE = 1 << 3, 1 << 4
ALLOWED, REFUSED = RightResult(True), RightResult(False)


class Broker:
    """A channel to a broker that answers by the name of the topic, group or transactional id."""

    def __init__(self, codes: Mapping[str, int], bits: int = 0, partitions: int = 1, cut: int | None = None) -> None:
        self.codes, self.bits, self.partitions, self.cut = codes, bits, partitions, cut
        self.unanswered: list[bytes] = []
        self.asked: list[dict[str, Any]] = []
        self.most_unanswered = 0

    def send(self, frame: bytes) -> None:
        self.unanswered.append(frame)
        self.most_unanswered = max(self.most_unanswered, len(self.unanswered))

    async def receive(self) -> bytes:
        request = read_request(self.unanswered.pop(0))
        self.asked.append(request.fields)
        if request.key == ApiKey.METADATA:
            names = [topic["Name"] for topic in request.fields["Topics"]]
            body = metadata(
                {name.decode(): self.codes.get(name.decode(), 0) for name in names}, self.bits, self.partitions
            )
        else:
            name = request.fields.get("GroupId", request.fields.get("TransactionalId")).decode()
            api = "Heartbeat" if request.key == ApiKey.HEARTBEAT else "EndTxn"
            body = encode_fields(f"{api}Response", request.version, {"ErrorCode": self.codes.get(name, 0)})
        return struct.pack(">i", request.key) + body[: self.cut]


def metadata(codes: Mapping[str, int], bits: int, partitions: int) -> bytes:
    replicas = {"LeaderId": 1, "ReplicaNodes": [1, 2], "IsrNodes": [1], "OfflineReplicas": [2]}
    nodes = [{"PartitionIndex": n, **replicas} for n in range(partitions)]
    topics = [
        {"ErrorCode": code, "Name": name.encode(), "Partitions": nodes, "TopicAuthorizedOperations": bits}
        for name, code in codes.items()
    ]
    brokers = [{"NodeId": n, "Host": b"host", "Port": 9, "Rack": None if n else b"r"} for n in range(2)]
    fields = {"Brokers": brokers, "ClusterId": b"c", "ControllerId": 1, "Topics": topics}
    return encode_fields("MetadataResponse", 8, fields)


def tried(broker: Broker, wanted: Sequence[Right], versions: Any = NEW) -> list[RightResult]:
    results = asyncio.run(rights.try_rights(broker, versions, wanted))  # type: ignore[arg-type]  # it has what is used
    return [results[right] for right in wanted]


def on_topic(name: str, operation: str = "Write") -> Right:
    return Right(operation, "Topic", name)


def test_topics() -> None:
    broker = Broker({"hidden": 29, "gone": 3}, READ, partitions=700)
    wanted = [on_topic("t"), on_topic("t", "Read"), on_topic("hidden"), on_topic("gone")]
    assert tried(broker, wanted) == [REFUSED, ALLOWED, REFUSED, RightResult(None, "UNKNOWN_TOPIC_OR_PARTITION")]
    (request,) = broker.asked
    assert not request["AllowAutoTopicCreation"]
    assert request["IncludeTopicAuthorizedOperations"]


@pytest.mark.parametrize(("bit", "operation"), OPERATIONS.items())
def test_each_operation_has_its_own_bit(bit: int, operation: str) -> None:
    assert tried(Broker({}, 1 << bit), [on_topic("t", operation)]) == [ALLOWED]
    assert tried(Broker({}, ~(1 << bit) & 0x7FFFFFFF), [on_topic("t", operation)]) == [REFUSED]


def test_brokers_that_do_not_report_operations() -> None:
    assert tried(Broker({}, -(2**31)), [on_topic("t")])[0].allowed is None
    (old,) = tried(Broker({}), [on_topic("t")], {ApiKey.METADATA: range(8)})
    assert old == RightResult(None, "brokers before Kafka 2.3 do not report rights on topics")


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (25, ALLOWED), (22, ALLOWED), (16, ALLOWED), (15, ALLOWED), (14, ALLOWED), (27, ALLOWED), (69, ALLOWED),
        (30, REFUSED),
        (0, RightResult(None, "NONE")),  # no broker takes a member that it does not know
        (-1, RightResult(None, "UNKNOWN_SERVER_ERROR")), (31, RightResult(None, "CLUSTER_AUTHORIZATION_FAILED")),
        (999, RightResult(None, "error 999")),
    ],
)  # fmt: skip
def test_groups(code: int, result: RightResult) -> None:
    broker = Broker({"g": code})
    assert tried(broker, [Right("Read", "Group", "g")]) == [result]
    assert broker.asked[0]["MemberId"] == b"kproxy-has-no-member-here"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (49, ALLOWED), (16, ALLOWED), (15, ALLOWED), (14, ALLOWED), (47, ALLOWED), (48, ALLOWED), (90, ALLOWED),
        (105, ALLOWED), (53, REFUSED), (0, RightResult(None, "NONE")),
        (30, RightResult(None, "GROUP_AUTHORIZATION_FAILED")),
    ],
)  # fmt: skip
def test_transactional_ids(code: int, result: RightResult) -> None:
    broker = Broker({"tx": code})
    assert tried(broker, [Right("Write", "TransactionalId", "tx")]) == [result]
    (request,) = broker.asked
    assert (request["ProducerId"], request["Committed"]) == (2**63 - 1, False)


def test_rights_that_cannot_be_tried() -> None:
    wanted = [Right("Delete", "Group", "g"), Right("Describe", "TransactionalId", "tx"), Right("Alter", "Cluster", "c")]
    assert tried(Broker({}), wanted) == [RightResult(None, "kproxy cannot try it")] * 3
    wanted = [Right("Read", "Group", "g"), Right("Write", "TransactionalId", "tx")]
    assert tried(Broker({}), wanted, {}) == [RightResult(None, "the broker does not support the request")] * 2
    assert tried(Broker({}), []) == []


def test_many_at_once() -> None:
    """Each gets its own answer, and few requests wait at a time."""
    broker = Broker({f"g{n}": 30 if n % 3 else 16 for n in range(100)} | {f"t{n}": 29 for n in range(0, 100, 2)}, WRITE)
    wanted = [right for n in range(100) for right in (Right("Read", "Group", f"g{n}"), on_topic(f"t{n}"))]
    results = tried(broker, wanted)
    assert results[::2] == [REFUSED if n % 3 else ALLOWED for n in range(100)]
    assert results[1::2] == [ALLOWED if n % 2 else REFUSED for n in range(100)]
    assert broker.most_unanswered == 16


def test_an_answer_that_lacks_a_topic() -> None:
    class Forgetful(Broker):
        async def receive(self) -> bytes:
            await super().receive()
            return struct.pack(">i", ApiKey.METADATA) + metadata({"other": 0}, WRITE, 1)

    assert tried(Forgetful({}), [on_topic("t")]) == [RightResult(None, "the broker's answer does not have the topic")]


def test_answers_that_end_early_or_are_nonsense() -> None:
    whole = len(metadata({"t": 0}, WRITE, 3)) - 4  # behind the topics are the operations on the cluster
    for cut in range(whole):
        with pytest.raises(KproxyError):
            tried(Broker({}, WRITE, 3, cut), [on_topic("t")])
    chance = random.Random(1)
    for _ in range(2000):
        body = bytearray(metadata({"t": 0}, WRITE, 3))
        for _ in range(chance.randrange(1, 4)):
            body[chance.randrange(len(body))] = chance.choice((0, 0x7F, 0x80, 0xFF))

        class Garbled(Broker):
            async def receive(self, garbled: bytes = bytes(body)) -> bytes:
                self.unanswered.clear()
                return struct.pack(">i", ApiKey.METADATA) + garbled

        with contextlib.suppress(KproxyError):
            assert len(tried(Garbled({}), [on_topic("t")])) == 1
