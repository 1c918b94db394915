"""Idempotent and transactional producers through kproxy."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer, TopicPartition

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.kafka_python import KafkaProducer
from tests.harness.process import Kproxy
from tests.harness.topics import consumer, create_topic, produce, read, read_topic, unique, values

pytestmark = pytest.mark.integration


def numbered(part: str, count: int = 100) -> list[bytes]:
    return [b"%s-%04d" % (part.encode(), number) for number in range(count)]


def test_idempotent_producer(cluster: DevCluster, kproxy: Kproxy) -> None:
    topic = create_topic(kproxy.bootstrap)
    producer = Producer({"bootstrap.servers": kproxy.bootstrap, "enable.idempotence": True, "batch.num.messages": 10})
    for value in numbered("once", 2000):
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    assert values(read_topic(cluster.direct_bootstrap, topic)) == numbered("once", 2000)


def test_commit_and_abort_with_librdkafka(kproxy: Kproxy) -> None:
    topic = create_topic(kproxy.bootstrap)
    producer = Producer({"bootstrap.servers": kproxy.bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions(60)
    for part, commit in (("first", True), ("second", False), ("third", True)):
        producer.begin_transaction()
        for value in numbered(part):
            producer.produce(topic, value)
        if commit:
            producer.commit_transaction(60)
        else:
            assert producer.flush(60) == 0  # so that there is something to abort
            producer.abort_transaction(60)
    _check_committed(kproxy, topic)


def test_commit_and_abort_with_kafka_python(kproxy: Kproxy) -> None:
    topic = create_topic(kproxy.bootstrap)
    producer = KafkaProducer(bootstrap_servers=kproxy.bootstrap, transactional_id=unique("tx"))
    try:
        producer.init_transactions()
        for part, commit in (("first", True), ("second", False), ("third", True)):
            producer.begin_transaction()
            for value in numbered(part):
                producer.send(topic, value)
            producer.flush(60)
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close(30)
    _check_committed(kproxy, topic)


def _check_committed(kproxy: Kproxy, topic: str) -> None:
    committed = read_topic(kproxy.bootstrap, topic, isolation_level="read_committed")
    assert values(committed) == numbered("first") + numbered("third")
    everything = read_topic(kproxy.bootstrap, topic, isolation_level="read_uncommitted")
    assert values(everything) == numbered("first") + numbered("second") + numbered("third")


def test_offsets_belong_to_the_transaction(kproxy: Kproxy) -> None:
    """Read, transform, write: an aborted transaction moves neither the records nor the group's offsets."""
    source, sink, group = create_topic(kproxy.bootstrap, 1), create_topic(kproxy.bootstrap), unique("group")
    produce(kproxy.bootstrap, source, numbered("in"))
    producer = Producer({"bootstrap.servers": kproxy.bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions(60)
    here = TopicPartition(source, 0)
    with consumer(kproxy.bootstrap, group_id=group, isolation_level="read_committed") as reader:
        reader.subscribe([source])
        for commit, expected in ((False, None), (True, 100)):
            producer.begin_transaction()
            for message in read(reader, 100):
                producer.produce(sink, b"out" + (message.value() or b"")[2:])
            producer.send_offsets_to_transaction(reader.position([here]), reader.consumer_group_metadata(), 60)
            if commit:
                producer.commit_transaction(60)
            else:
                producer.flush(60)  # else those that have not left yet are never written
                producer.abort_transaction(60)
                reader.seek(TopicPartition(source, 0, 0))
            (committed,) = reader.committed([here], timeout=30)
            assert committed.offset == expected or (expected is None and committed.offset < 0)
    assert values(read_topic(kproxy.bootstrap, sink, isolation_level="read_committed")) == numbered("out")
    # The aborted ones are there too.
    assert len(read_topic(kproxy.bootstrap, sink, isolation_level="read_uncommitted")) == 200
