"""Batches that old brokers keep, also in the formats of Kafka 0.9 and 0.10, on their way to a new one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.dev.devcluster import DevCluster
from kproxy.protocol.records.codecs import NAMES, ZSTD
from kproxy.protocol.records.decoding import Record, decode_records
from kproxy.protocol.records.encoding import ProducerState as Stamp
from kproxy.protocol.records.producebatches import MERGED, RE_ENCODED, VERBATIM, produce_batches
from tests.harness.clients.batches import fetched, produced
from tests.matrix.brokers import running

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1200)]

OLD = "2.8.2"
NOW = 1_700_000_000_000
FORMATS = {"0.9.0": 0, "0.10.0": 1, "2.8": 2}
# Zstandard came with magic 2.
KINDS = [(form, codec) for form, codec in product(FORMATS, range(5)) if FORMATS[form] == 2 or codec != ZSTD]
COUNT = 300


@pytest.fixture(scope="module")
def old() -> Iterator[str]:
    with running(OLD) as cluster:
        yield cluster.direct_bootstrap


@pytest.fixture(scope="module")
def new() -> Iterator[str]:
    with DevCluster(brokers=1) as cluster:
        yield cluster.direct_bootstrap


def created(bootstrap: str, topic: str, **settings: str) -> tuple[str, int]:
    """Makes a topic of one partition. The address of its leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"min.insync.replicas": "1"} | {name.replace("_", "."): value for name, value in settings.items()}
    for made in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
        made.result(60)
    while True:
        known = admin.list_topics(topic, timeout=60)
        leader = known.topics[topic].partitions.get(0)
        if leader and leader.leader in known.brokers:
            broker = known.brokers[leader.leader]
            return broker.host, broker.port


def consumed(bootstrap: str, topic: str, count: int) -> list[Record]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "check.crcs": True})
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [as_record(consumer.poll(60)) for _ in range(count)]


def as_record(message: Message | None) -> Record:
    assert message is not None
    assert message.error() is None
    headers = tuple((name.encode(), value) for name, value in message.headers() or [])
    kind, timestamp = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE:
        timestamp = -1
    return Record(message.offset(), timestamp, message.key(), message.value(), headers)


def sent(bootstrap: str, topic: str, codec: int, headers: bool) -> None:
    """Large batches, then some with a record each."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": NAMES[codec], "linger.ms": 50})
    for number in range(COUNT):
        key = (None, b"", b"key-%d" % number)[number % 3]
        value = (None, b"", b"value-%d" % number * 30, b"x" * number)[number % 4]
        said = [("a", None), ("a", b"x")] if headers and number % 5 else []
        producer.produce(topic, value, key, 0, timestamp=NOW + number * 7, headers=said)
        if number > COUNT - 20:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


@pytest.mark.parametrize("stamp", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize(("form", "codec"), KINDS)
def test_they_arrive(old: str, new: str, form: str, codec: int, stamp: str) -> None:
    magic = FORMATS[form]
    topic = f"old-{magic}-{NAMES[codec]}-{stamp}"
    source = created(old, topic, message_format_version=form, message_timestamp_type=stamp)
    target = created(new, topic)
    sent(old, topic, codec, magic == 2)
    kept = fetched(source, topic)
    assert {batch.magic for batch in kept} == {magic}
    wanted = consumed(old, topic, COUNT)
    assert [record for batch in kept for record in decode_records(batch)] == wanted
    for batch in kept:
        batch.check()
    made = list(produce_batches(kept, first=0, end=1 << 62, limit=1 << 20, producer=Stamp()))
    assert {piece.method for piece in made} <= {MERGED, RE_ENCODED, VERBATIM}
    assert len(made) < len(kept)
    for piece in made:
        produced(target, topic, b"".join(piece.buffers))
    assert consumed(new, topic, COUNT) == wanted
