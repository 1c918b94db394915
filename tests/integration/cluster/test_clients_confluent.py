"""confluent-kafka (librdkafka) through kproxy."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kproxy.dev.devcluster import DevCluster
from tests.harness.process import PATIENCE_S, Kproxy
from tests.harness.topics import consumer, create_topic, local_addresses, note_failures, read, unique, values

pytestmark = pytest.mark.integration

# Of the records' timestamps: an hour ago, not so old that the broker may delete them.
START_MS = int(time.time() * 1000) - 3_600_000


def test_every_address_that_it_learns_is_local(cluster: DevCluster, kproxy: Kproxy) -> None:
    expected = local_addresses(kproxy)
    admin = AdminClient({"bootstrap.servers": kproxy.bootstrap})
    metadata = admin.list_topics(timeout=PATIENCE_S)
    assert {broker.id: f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()} == expected
    assert metadata.cluster_id == cluster.cluster_id
    described = admin.describe_cluster(request_timeout=PATIENCE_S).result(PATIENCE_S)
    assert {node.id: f"{node.host}:{node.port}" for node in described.nodes} == expected
    assert f"{described.controller.host}:{described.controller.port}" == expected[described.controller.id]


def test_the_life_of_a_topic(kproxy: Kproxy) -> None:
    topic, group = unique("confluent"), unique("group")
    admin = AdminClient({"bootstrap.servers": kproxy.bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=3)])[topic].result(PATIENCE_S)

    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": kproxy.bootstrap})
    for number in range(100):
        producer.produce(
            topic,
            key=b"k%d" % number,
            value=b"v%03d" % number,
            headers=[("n", b"%d" % number), ("none", None)],
            timestamp=START_MS + number,
            on_delivery=note_failures(failed),
        )
    assert producer.flush(PATIENCE_S) == 0
    assert not failed

    with consumer(kproxy.bootstrap, group_id=group) as reader:
        reader.subscribe([topic])
        got = read(reader, 100)
        reader.commit(asynchronous=False)
        listed = admin.list_consumer_groups(request_timeout=PATIENCE_S).result(PATIENCE_S)
        assert group in {one.group_id for one in listed.valid}
        described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
        assert [member.assignment.topic_partitions[0].topic for member in described.members] == [topic]
        coordinator = described.coordinator
        assert f"{coordinator.host}:{coordinator.port}" == local_addresses(kproxy)[coordinator.id]
    assert values(got) == [b"v%03d" % number for number in range(100)]
    for message in got:
        number = int((message.value() or b"")[1:])
        assert message.key() == b"k%d" % number
        assert message.headers() == [("n", b"%d" % number), ("none", None)]
        assert message.timestamp()[1] == START_MS + number

    admin.delete_consumer_groups([group], request_timeout=PATIENCE_S)[group].result(PATIENCE_S)
    admin.delete_topics([topic])[topic].result(PATIENCE_S)


def test_nothing_of_a_client_with_acks_0_is_lost(cluster: DevCluster, own_kproxy: Callable[..., Kproxy]) -> None:
    """A Produce request with acks=0 has no response; what comes after it on the same connection has one."""
    kproxy = own_kproxy(cluster.bootstrap)
    topic = create_topic(kproxy.bootstrap)
    producer = Producer({"bootstrap.servers": kproxy.bootstrap, "acks": 0, "linger.ms": 1})
    with consumer(kproxy.bootstrap) as reader:
        reader.subscribe([topic])
        for part in range(5):
            for number in range(1000):
                producer.produce(topic, b"%d-%04d" % (part, number))
            assert producer.flush(PATIENCE_S) == 0
            # Asked on the connections that the records went over: a response that is awaited in vain would show.
            assert len(producer.list_topics(topic, timeout=PATIENCE_S).brokers) == 3
        got = read(reader, 5000)
    assert values(got) == sorted(b"%d-%04d" % (part, number) for part in range(5) for number in range(1000))
    # One request without a response would make all later ones late by one, and stay in flight.
    assert kproxy.metric("kproxy_requests_total", api="Produce") >= 5
    assert kproxy.metric("kproxy_refused_total") == 0
    del producer
