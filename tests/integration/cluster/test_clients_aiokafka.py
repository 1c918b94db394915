"""aiokafka through kproxy."""

from __future__ import annotations

import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]

from kproxy.dev.devcluster import DevCluster
from tests.harness.process import PATIENCE_S, Kproxy
from tests.harness.topics import local_addresses, unique

pytestmark = pytest.mark.integration

# Of the records' timestamps: an hour ago, not so old that the broker may delete them.
START_MS = int(time.time() * 1000) - 3_600_000


async def test_every_address_that_it_learns_is_local(cluster: DevCluster, kproxy: Kproxy) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kproxy.bootstrap) as producer:
        known = {broker.nodeId: f"{broker.host}:{broker.port}" for broker in producer.client.cluster.brokers()}
    admin = AIOKafkaAdminClient(bootstrap_servers=kproxy.bootstrap)
    await admin.start()
    try:
        described = await admin.describe_cluster()
    finally:
        await admin.close()
    told = {broker["node_id"]: f"{broker['host']}:{broker['port']}" for broker in described["brokers"]}
    assert known == told == local_addresses(kproxy)
    assert described["cluster_id"] == cluster.cluster_id


async def test_the_life_of_a_topic(kproxy: Kproxy) -> None:
    topic, group = unique("aiokafka"), unique("group")
    admin = AIOKafkaAdminClient(bootstrap_servers=kproxy.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=3)])
        sent = {}
        async with AIOKafkaProducer(
            bootstrap_servers=kproxy.bootstrap, enable_idempotence=True, compression_type="gzip"
        ) as producer:
            for number in range(100):
                key, value, headers = b"k%d" % number, b"v%d" % number, [("n", b"%d" % number)]
                timestamp = START_MS + number
                placed = await producer.send(
                    topic, value, key=key, headers=headers, timestamp_ms=timestamp, partition=number % 2
                )
                sent[placed] = (key, value, tuple(headers), timestamp)
            await producer.flush()
            expected = {((await future).partition, (await future).offset): record for future, record in sent.items()}
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=kproxy.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as reader:
            got: dict[tuple[int, int], object] = {}
            while len(got) < 100:
                batch = await reader.getmany(timeout_ms=PATIENCE_S * 1000)
                assert batch, f"only {len(got)} records of 100 came within {PATIENCE_S} s"
                for messages in batch.values():
                    for one in messages:
                        got[one.partition, one.offset] = (one.key, one.value, tuple(one.headers), one.timestamp)
            assert got == expected
            await reader.commit()
        assert group in {name for name, _ in await admin.list_consumer_groups()}
        offsets = await admin.list_consumer_group_offsets(group)
        assert {place.partition: committed.offset for place, committed in offsets.items()} == {0: 50, 1: 50}
        deleted = await admin.delete_topics([topic])
        assert [error for _, error in deleted.topic_error_codes] == [0]
    finally:
        await admin.close()
