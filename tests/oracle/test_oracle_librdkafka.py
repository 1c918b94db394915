"""Record batches by librdkafka, with the broker that it has for tests: it keeps batches as they come."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition

from kproxy.protocol.records.codecs import NAMES
from kproxy.protocol.records.decoding import Record, decode_records
from kproxy.protocol.records.encoding import ProducerState as Stamp
from kproxy.protocol.records.header import Batch
from kproxy.protocol.records.producebatches import MERGED, ProduceBatch, produce_batches
from tests.harness.clients.batches import fetched, produced

pytestmark = pytest.mark.integration

NOW = 1_700_000_000_000
codecs = pytest.mark.parametrize("codec", range(5), ids=NAMES)


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[str, int]]:
    """The address of a broker that librdkafka runs in this process."""
    owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced"})
    (found,) = owner.list_topics(timeout=30).brokers.values()
    yield found.host, found.port
    del owner  # it ran until here


def some(count: int) -> list[Record]:
    rng = random.Random(5)
    found = []
    for number in range(count):
        headers = ((b"a", None), (b"a", b"x" * 70), (b"", b"")) if number % 3 else ()
        value = rng.choice((None, b"", rng.randbytes(300), b"abc" * 2000))
        found.append(Record(number, NOW + number * 7, rng.choice((None, b"", b"key")), value, headers))
    return found


@codecs
@pytest.mark.parametrize("count", [1, 500])
def test_what_librdkafka_writes(broker: tuple[str, int], codec: int, count: int) -> None:
    topic = f"written-{codec}-{count}"
    producer = Producer(
        {"bootstrap.servers": "{}:{}".format(*broker), "compression.type": NAMES[codec], "linger.ms": 100}
    )
    wanted = some(count)
    for record in wanted:
        headers = [(name.decode(), value) for name, value in record.headers]
        producer.produce(topic, record.value, record.key, 0, timestamp=record.timestamp, headers=headers)
    assert producer.flush(30) == 0
    found = fetched(broker, topic)
    assert [record for batch in found for record in decode_records(batch)] == wanted
    if count > 1:
        assert codec in {batch.codec for batch in found}  # it leaves small ones as they are


def copied(found: list[Batch], first: int) -> list[ProduceBatch]:
    return list(produce_batches(found, first=first, end=1 << 62, limit=1 << 20, producer=Stamp()))


@codecs
def test_what_librdkafka_reads(broker: tuple[str, int], codec: int) -> None:
    """Batches taken over as they are, cut at the edge of a slice, and merged from those of one record."""
    source, target = f"source-{codec}", f"target-{codec}"
    producer = Producer(
        {"bootstrap.servers": "{}:{}".format(*broker), "compression.type": NAMES[codec], "linger.ms": 100}
    )
    wanted = some(1300)
    for number, record in enumerate(wanted):
        headers = [(name.decode(), value) for name, value in record.headers]
        producer.produce(source, record.value, record.key, 0, timestamp=record.timestamp, headers=headers)
        if number in (400, 800) or 1200 < number < 1220:
            assert producer.flush(30) == 0
    assert producer.flush(30) == 0
    made = copied(fetched(broker, source), first=7)
    assert MERGED in {piece.method for piece in made}
    producer.list_topics(target, timeout=30)  # makes it
    for piece in made:
        produced(broker, target, b"".join(piece.buffers))
    consumer = Consumer({"bootstrap.servers": "{}:{}".format(*broker), "group.id": target, "check.crcs": True})
    with closing(consumer):
        consumer.assign([TopicPartition(target, 0, 0)])
        for number, record in enumerate(wanted[7:]):
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            said = tuple((name.encode(), value) for name, value in message.headers() or [])
            assert (message.offset(), message.key(), message.value()) == (number, record.key, record.value)
            assert (message.timestamp(), said) == ((TIMESTAMP_CREATE_TIME, record.timestamp), record.headers)
