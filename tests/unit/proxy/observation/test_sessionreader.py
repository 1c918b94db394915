"""What the requests of a session name, as kafka-python's own classes write them, in any chunks and from any byte on."""

from __future__ import annotations

import struct
import uuid
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.observation import record as limits
from kproxy.proxy.observation.record import Budget, NameUsage, PartitionKey, Topic, UsageRecord, Use
from kproxy.proxy.observation.sessionreader import LONGEST, SessionReader
from kproxy.proxy.relay.observer import ObserverStart
from kproxy.proxy.watch.feed import SessionLabels
from tests.unit.kafka_frames import CHUNKINGS, chunks, frame, request

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import admin, consumer, producer
    from kafka.record import MemoryRecordsBuilder

ID = uuid.UUID("6d8fe9f4-51c4-4f7f-9d6f-6a5a1f6c3c11")
LABELS = SessionLabels("orders", "node 1", "10.0.0.7:40123", "alice", "blue")


def sent(message: Any, version: int, client_id: str = "billing") -> bytes:
    """A whole request, written by kafka-python."""
    message.with_header(correlation_id=7, client_id=client_id)
    return bytes(message.encode(version=version, header=True, framed=True))


def records(count: int, producer_id: int = -1, epoch: int = -1, size: int = 10) -> bytes:
    """A record batch, built by kafka-python."""
    builder = MemoryRecordsBuilder(
        magic=2, compression_type=0, batch_size=1 << 20, transactional=False, producer_id=producer_id,
        producer_epoch=epoch, base_sequence=0,
    )  # fmt: skip
    for number in range(count):
        builder.append(timestamp=number, key=None, value=bytes(size))
    builder.close()
    return bytes(builder.buffer())


def produce(
    topics: dict[Any, dict[int, bytes]], version: int = 9, transaction: str | None = None, client_id: str = "billing"
) -> bytes:
    kind = producer.ProduceRequest.TopicProduceData
    data = [
        kind(
            **({"topic_id": topic} if version >= 13 else {"name": topic}),
            partition_data=[kind.PartitionProduceData(index=index, records=raw) for index, raw in partitions.items()],
        )
        for topic, partitions in topics.items()
    ]
    message = producer.ProduceRequest(transactional_id=transaction, acks=-1, timeout_ms=1000, topic_data=data)
    return sent(message, version, client_id)


def fetch(*topics: Any, version: int = 11, session: tuple[int, int] = (0, -1), partitions: int = 2) -> bytes:
    kind = consumer.FetchRequest.FetchTopic
    data = [
        kind(
            **({"topic_id": topic} if version >= 13 else {"topic": topic}),
            partitions=[kind.FetchPartition(partition=index, fetch_offset=5) for index in range(partitions)],
        )
        for topic in topics
    ]
    message = consumer.FetchRequest(
        max_wait_ms=500, min_bytes=1, session_id=session[0], session_epoch=session[1], topics=data,
        forgotten_topics_data=[], rack_id="a",
    )  # fmt: skip
    return sent(message, version)


BEGINNING = ObserverStart()


def read(*pieces: bytes, start: ObserverStart = BEGINNING, usage: UsageRecord | None = None) -> UsageRecord:
    """The record of a session in which these pieces come, a second apart."""
    usage = usage or UsageRecord(0.0)
    reader = SessionReader(usage, lambda: LABELS, start)
    for now, piece in enumerate(pieces, start=1):
        reader.from_client(memoryview(piece), float(now))
    return usage


def label(topic: Topic) -> Any:
    return topic.name or uuid.UUID(bytes=topic.id)


def topics(usage: UsageRecord, use: Use) -> set[Any]:
    return {label(topic) for client in usage.clients.values() for kind, topic in client.topics if kind == use}


def named(usage: UsageRecord, use: Use) -> set[str]:
    return {name for client in usage.clients.values() for kind, name in client.names if kind == use}


@pytest.mark.parametrize("version", range(3, 14))
def test_topics_that_are_written(version: int) -> None:
    names: list[Any] = [ID, uuid.UUID(int=7)] if version >= 13 else ["orders", "payments"]
    usage = read(produce({names[0]: {0: records(3, 17, 2), 4: records(1)}, names[1]: {1: records(2)}}, version))
    assert topics(usage, Use.WRITES) == set(names)
    found = {
        (key.topic.name or uuid.UUID(bytes=key.topic.id), key.partition): row for key, row in usage.partitions.items()
    }
    assert {key: row.offsets for key, row in found.items()} == {(names[0], 0): 3, (names[0], 4): 1, (names[1], 1): 2}
    assert {number: each.epoch for number, each in found[names[0], 0].producers.items()} == {17: 2}
    (key,) = usage.clients
    assert key == ("orders", "blue", "alice", "10.0.0.7", "billing", "", "")
    assert not usage.left_out


@pytest.mark.parametrize("version", range(4, 19))
def test_topics_that_are_read(version: int) -> None:
    names: list[Any] = [ID, uuid.UUID(int=7)] if version >= 13 else ["orders", "payments"]
    usage = read(fetch(*names, version=version))
    assert topics(usage, Use.READS) == set(names)
    assert not usage.left_out


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_requests_that_repeat_themselves_are_counted_alike(version: int) -> None:
    """A producer to one partition at a time: the partition, the records and the producer's epoch differ."""
    topic: Any = ID if version >= 13 else "orders"
    pieces = [
        produce({topic: {index % 3: records(index + 1, 17, index, size=index * 60)}}, version, "t-1")
        for index in range(9)
    ]
    usage = read(*pieces)
    assert {key.partition: row.offsets for key, row in usage.partitions.items()} == {0: 12, 1: 15, 2: 18}
    assert [row.producers[17].epoch for row in usage.partitions.values()] == [6, 7, 8]
    (client,) = usage.clients.values()
    (use,) = client.topics.values()
    assert (use.requests, use.last) == (9, 9.0)
    assert named(usage, Use.TRANSACTION) == {"t-1"}
    assert {(name, kind) for name, kind, _ in client.transactions} == {("t-1", Use.WRITES)}


def test_another_topic_transaction_or_client_is_not_taken_for_the_usual_one() -> None:
    batch = records(1)
    usage = read(
        produce({"a": {0: batch}}), produce({"b": {0: batch}}), produce({"a": {0: batch}}, transaction="t"),
        produce({"a": {0: batch}}, client_id="another"),
    )  # fmt: skip
    assert topics(usage, Use.WRITES) == {"a", "b"}
    assert {key.client_id: len(row.topics) for key, row in usage.clients.items()} == {"billing": 2, "another": 1}
    assert {key.topic.name: row.offsets for key, row in usage.partitions.items()} == {"a": 3, "b": 1}


GROUP_REQUESTS = [
    sent(consumer.OffsetFetchRequest(group_id="g1", topics=None, require_stable=False), 7),
    sent(
        consumer.OffsetFetchRequest(
            groups=[consumer.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g2", topics=None)]
        ),
        8,
    ),
    request(ApiKey.HEARTBEAT, 0, 3, struct.pack(">h2sih1s", 2, b"g3", 1, 1, b"m"), client_id="billing"),
    request(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, struct.pack(">h1sqhh2s", 1, b"t", 9, 0, 2, b"g4"), client_id="billing"),
]
ADDED = struct.pack(">h1sqhih1sii", 1, b"t", 9, 0, 1, 1, b"a", 1, 0)
TRANSACTION = request(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, ADDED, client_id="billing")
ADMIN = sent(admin.DeleteTopicsRequest(topic_names=["old"], timeout_ms=1000), 5)
SESSION = [
    request(ApiKey.API_VERSIONS, 3, 1, b"\x05java\x043.9\0", client_id="billing"),
    *GROUP_REQUESTS,
    TRANSACTION,
    ADMIN,
    produce({"a": {0: records(3)}, "b": {2: records(4)}}),
    fetch("c", partitions=9),
    produce({"a": {0: records(1)}}),
    produce({"a": {1: records(2, size=500)}}),
]


def counted(usages: dict[Any, NameUsage]) -> dict[Any, int]:
    return {name: usage.requests for name, usage in usages.items()}


def content(usage: UsageRecord) -> Any:
    """All of a record but its times."""
    return (
        {
            key: (counted(row.topics), counted(row.names), counted(row.transactions))
            for key, row in usage.clients.items()
        },
        {key: (row.offsets, row.unsized, set(row.producers)) for key, row in usage.partitions.items()},
        dict(usage.left_out),
    )


def test_groups_transactions_and_administration() -> None:
    usage = read(*SESSION)
    (client,) = usage.clients.values()
    (key,) = usage.clients
    assert key.software == "java 3.9"
    assert named(usage, Use.GROUP) == {"g1", "g2", "g3", "g4"}
    assert named(usage, Use.TRANSACTION) == {"t"}
    assert named(usage, Use.ADMIN) == {"DeleteTopics"}
    assert set(client.transactions) == {("t", Use.GROUP, "g4"), ("t", Use.WRITES, Topic("a"))}
    assert topics(usage, Use.WRITES) == {"a", "b"}
    assert topics(usage, Use.READS) == {"c"}
    assert not usage.left_out


@given(sizes=CHUNKINGS)
def test_any_chunks(sizes: list[int]) -> None:
    usage = UsageRecord(0.0)
    reader = SessionReader(usage, lambda: LABELS, ObserverStart())
    for piece in chunks(b"".join(SESSION), [size * 5 for size in sizes]):
        reader.from_client(memoryview(piece), 1.0)
    assert content(usage) == content(read(*SESSION))


@given(data=st.data())
def test_beginning_in_the_middle(data: st.DataObject) -> None:
    """Of requests that begin afterwards all is read, and nothing of the rest of another one."""
    stream = b"".join(SESSION)
    at = data.draw(st.integers(0, len(stream)))
    begun = passed = 0
    while passed < at:
        passed += len(SESSION[begun])
        begun += 1
    usage = read(stream[at:], start=ObserverStart(request_left=passed - at))
    assert content(usage) == content(read(*SESSION[begun:]))


@given(garbage=st.binary(min_size=1, max_size=400), key=st.sampled_from(list(ApiKey)), data=st.data())
def test_garbage_ends_no_session(garbage: bytes, key: ApiKey, data: st.DataObject) -> None:
    version = data.draw(st.integers(key.oldest, key.newest))
    read(garbage)
    read(request(key, version, 1, garbage), fetch("a"))


def test_nothing_is_read_behind_tokens_without_headers() -> None:
    usage = UsageRecord(0.0)
    reader = SessionReader(usage, lambda: LABELS, ObserverStart())
    reader.from_client(request(ApiKey.SASL_HANDSHAKE, 0, 1, b"\0\5PLAIN") + frame(bytes(20)), 1.0)
    assert reader.stopped


def test_a_user_is_known_after_the_login() -> None:
    users = iter(["", "alice"])
    usage = UsageRecord(0.0)
    reader = SessionReader(usage, lambda: SessionLabels("c", "n", "h:1", next(users)), ObserverStart())
    reader.from_client(GROUP_REQUESTS[0], 1.0)
    reader.from_client(
        request(ApiKey.SASL_AUTHENTICATE, 1, 2, struct.pack(">i3s", 3, b"abc"), client_id="billing"), 2.0
    )
    reader.from_client(GROUP_REQUESTS[0], 3.0)
    assert [key.user for key in usage.clients] == ["", "alice"]


# Limits


def test_clients_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_CLIENTS", 2)
    usage = read(*(produce({"a": {0: records(1)}}, client_id=f"c{number}") for number in range(4)))
    assert [key.client_id for key in usage.clients] == ["c0", "c1"]
    assert usage.left_out["clients"] == 2
    assert usage.partitions[PartitionKey("orders", "blue", Topic("a"), 0)].offsets == 4  # what passed, passed


@pytest.mark.parametrize(("limit", "kind"), [("MOST_NAMES", "names"), ("MOST_PARTITIONS", "partitions"),
                                             ("MOST_PRODUCERS", "producers")])  # fmt: skip
def test_names_partitions_and_producers_beyond_the_limits_are_counted(
    limit: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, limit, 2)
    usage = read(*(produce({f"t{number}": {0: records(1, number, 0)}}) for number in range(5)))
    assert usage.left_out == {kind: 3}


def test_a_fetch_that_is_too_large_is_counted_and_kept_nowhere() -> None:
    large = fetch(*(f"topic-{number}" for number in range(50)), partitions=100)
    assert len(large) > LONGEST
    usage = UsageRecord(0.0)
    reader = SessionReader(usage, lambda: LABELS, ObserverStart())
    for piece in chunks(large, [1000]):
        reader.from_client(piece, 1.0)
        assert len(reader._head) <= LONGEST
    reader.from_client(fetch("a"), 2.0)
    assert usage.left_out == {"requests": 1}
    assert topics(usage, Use.READS) == {"a"}


def test_what_the_budget_does_not_allow_is_counted() -> None:
    usage = UsageRecord(0.0)
    usage.budget = Budget(a_second=0, most=20)
    big = produce({f"t{number}": {0: records(1)} for number in range(30)})
    read(big, big, fetch("a"), usage=usage)
    assert usage.left_out == {"requests": 2}


def test_a_budget_grows_with_time_up_to_its_most() -> None:
    budget = Budget(a_second=10, most=20)
    assert budget.allows(100.0)
    budget.charge(50)
    assert not budget.allows(101.0)
    assert budget.allows(103.5)
    budget.charge(20)
    assert budget.allows(1000.0)
    budget.charge(19)
    assert budget.allows(1000.0)


def test_a_client_without_fetch_sessions_is_read_once_a_second() -> None:
    usage = UsageRecord(0.0)
    reader = SessionReader(usage, lambda: LABELS, ObserverStart())
    for now in (1.0, 1.2, 1.4, 2.1):
        reader.from_client(fetch("a", version=4), now)
    (client,) = usage.clients.values()
    (use,) = client.topics.values()
    assert use.requests == 2
    assert client.last == 2.1
