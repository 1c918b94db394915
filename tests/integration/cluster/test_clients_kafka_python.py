"""kafka-python through kproxy."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from kproxy.base.address import Address
from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.kafka_python import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaTimeoutError,
    NewTopic,
    TopicPartition,
)
from tests.harness.process import PATIENCE_S, Kproxy, free_window, wait_until
from tests.harness.servers.peers import Peer
from tests.harness.topics import create_topic, leaders, local_addresses, unique

pytestmark = pytest.mark.integration

# Of the records' timestamps: an hour ago, not so old that the broker may delete them.
START_MS = int(time.time() * 1000) - 3_600_000


def test_every_address_that_it_learns_is_local(cluster: DevCluster, kproxy: Kproxy) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kproxy.bootstrap)
    try:
        described = admin.describe_cluster()
    finally:
        admin.close()
    found = {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in described["brokers"]}
    assert found == local_addresses(kproxy)
    assert described["cluster_id"] == cluster.cluster_id


def test_the_life_of_a_topic(kproxy: Kproxy) -> None:
    topic, group = unique("kafka-python"), unique("group")
    with ExitStack() as held:
        admin = KafkaAdminClient(bootstrap_servers=kproxy.bootstrap)
        held.callback(admin.close)
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=3)], wait_for_metadata=True)
        # Only now: a consumer that asks about a topic that is not there makes the broker create it.
        producer = KafkaProducer(bootstrap_servers=kproxy.bootstrap, compression_type="gzip")
        held.callback(producer.close, PATIENCE_S)
        reader = KafkaConsumer(
            topic,
            bootstrap_servers=kproxy.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        held.callback(reader.close)
        sent = {}
        for number in range(100):
            record = (b"k%d" % number, b"v%d" % number, [("n", b"%d" % number)], START_MS + number)
            key, value, headers, timestamp = record
            placed = producer.send(topic, value, key=key, headers=headers, timestamp_ms=timestamp, partition=number % 2)
            sent[placed] = record
        producer.flush(PATIENCE_S)
        expected = {(future.get(0).partition, future.get(0).offset): record for future, record in sent.items()}

        got = {}

        def complete() -> bool:
            for messages in reader.poll(timeout_ms=2000).values():
                for one in messages:
                    got[one.partition, one.offset] = (one.key, one.value, list(one.headers), one.timestamp)
            return len(got) >= 100

        wait_until(complete, "100 records")
        assert got == expected
        reader.commit()
        assert [reader.committed(TopicPartition(topic, number)) for number in (0, 1)] == [50, 50]

        assert group in {one["group_id"] for one in admin.list_groups()}
        assert admin.describe_groups([group])[group]["group_state"] == "Stable"
        reader.close()
        assert admin.delete_groups([group]) == {group: "OK"}
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), "the topic is gone")


def test_it_does_not_connect_all_the_time_to_a_node_that_is_away(
    cluster: DevCluster, own_kproxy: Callable[..., Kproxy]
) -> None:
    """A connection that is accepted is a success for it, after which it has no back-off: it came 60 to 90 times a
    second. When the node is back, its record goes there."""
    topic = create_topic(cluster.direct_bootstrap)
    partition = next(index for index, leader in leaders(cluster.direct_bootstrap, topic).items() if leader == 2)
    away = free_window(1)
    more = ["--map", f"node:2=127.0.0.1:{away}", "--ready-requires", "one"]
    proxy = own_kproxy(str(cluster.dial[1]), *more)
    producer = KafkaProducer(bootstrap_servers=proxy.bootstrap)
    try:
        placed = producer.send(topic, b"late", partition=partition)
        with pytest.raises(KafkaTimeoutError):
            producer.flush(5)
        failed = proxy.metric("kproxy_upstream_dial_failures_total", node="2")
        assert 0 < failed < 30
        with Peer(leading_to(cluster.dial[2]), port=away):
            assert placed.get(PATIENCE_S).partition == partition
    finally:
        producer.close(PATIENCE_S)


def leading_to(target: Address) -> Callable[[socket.socket], None]:
    """Passes all bytes on, in both directions, until one side ends."""

    def behave(connection: socket.socket) -> None:
        with socket.create_connection((target.host, target.port)) as far:
            ends = {connection: far, far: connection}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    ends[end].sendall(data)

    return behave
