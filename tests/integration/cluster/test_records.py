"""What was sent is what arrives: record by record, and byte by byte."""

from __future__ import annotations

import struct

import pytest
from confluent_kafka import TopicPartition

from kproxy.dev.devcluster import DevCluster
from tests.harness import topics as clients
from tests.harness.clients import records
from tests.harness.clients.frames import Frames, api_versions, fetch, produce, records_in
from tests.harness.process import PATIENCE_S, Kproxy, wait_until
from tests.harness.topics import consumer, create_topic, leaders, local_addresses, read_topic

pytestmark = pytest.mark.integration

COMPRESSIONS = ("none", "lz4", "zstd", "snappy", "gzip")


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.matrix)])
def test_records_come_back_as_they_were_sent(count: int, cluster: DevCluster, kproxy: Kproxy) -> None:
    """Keys, values, headers, timestamps and order, produced through kproxy; read through kproxy and directly."""
    topic = records.create(kproxy.bootstrap)
    part = count // len(COMPRESSIONS)
    for at, compression in enumerate(COMPRESSIONS):
        records.produce(kproxy.bootstrap, topic, range(at * part, (at + 1) * part), compression)
    assert records.difference(kproxy.bootstrap, topic, count) == ""
    assert records.difference(cluster.direct_bootstrap, topic, count) == ""


@pytest.mark.parametrize("damage", ["lost", "twice", "swapped", "too few"])
def test_the_comparison_can_fail(cluster: DevCluster, kproxy: Kproxy, damage: str) -> None:
    topic = records.create(kproxy.bootstrap, 1)
    numbers = list(range(600))
    if damage == "lost":
        del numbers[300]
    elif damage == "twice":
        numbers.insert(300, 300)
    elif damage == "swapped":
        numbers[300], numbers[306] = numbers[306], numbers[300]
    else:
        del numbers[-6:]
    records.produce(kproxy.bootstrap, topic, numbers, "none")
    assert records.difference(kproxy.bootstrap, topic, 600) != ""


def test_fetched_bytes_are_the_brokers(cluster: DevCluster, kproxy: Kproxy) -> None:
    """Not a byte of a response is another than the one that the broker gives to a direct client."""
    topic = records.create(kproxy.bootstrap)
    records.produce(kproxy.bootstrap, topic, range(6000), "lz4")
    for partition, leader in leaders(kproxy.bootstrap, topic).items():
        with Frames(str(cluster.dial[leader])) as direct, Frames(local_addresses(kproxy)[leader]) as through:
            for offset, most in ((0, 1 << 20), (0, 1), (500, 10_000), (1000, 1 << 20), (5000, 1 << 20)):
                question = fetch(offset, topic, partition, offset, most)
                assert through.ask(question) == direct.ask(question)


def test_after_produce_with_acks_0_the_connection_goes_on(cluster: DevCluster, kproxy: Kproxy) -> None:
    """There is no response to it, and the next response belongs to the next request, sent ahead or not."""
    source, sink = create_topic(kproxy.bootstrap, 1), create_topic(kproxy.bootstrap, 1)
    # By a producer that is not idempotent: its batch must count each time.
    clients.produce(kproxy.bootstrap, source, [b"%d" % number for number in range(100)])
    with Frames(local_addresses(kproxy)[leaders(kproxy.bootstrap, source)[0]]) as frames:
        error, batches = records_in(frames.ask(fetch(1, source, 0, 0, 1 << 20)), source)
        assert error == 0
        assert batches
    with Frames(local_addresses(kproxy)[leaders(kproxy.bootstrap, sink)[0]]) as frames:
        silent = produce(7, sink, 0, batches, acks=0)
        frames.send(silent, silent, api_versions(8), silent, api_versions(9), produce(10, sink, 0, batches, acks=1))
        assert [frames.receive()[:4] for _ in range(3)] == [struct.pack(">i", number) for number in (8, 9, 10)]
        frames.send(silent)
        assert frames.ask(api_versions(11))[:4] == struct.pack(">i", 11)
    once = [one.value() for one in read_topic(cluster.direct_bootstrap, source, 1)]
    assert once == [b"%d" % number for number in range(100)]
    assert [one.value() for one in read_topic(cluster.direct_bootstrap, sink, 1)] == once * 5


def test_acks_0_records_sent_before_the_client_closes_arrive(cluster: DevCluster, kproxy: Kproxy) -> None:
    """Nothing is in flight, so the session ends with the client: behind its last byte."""
    source, sink = create_topic(kproxy.bootstrap, 1), create_topic(kproxy.bootstrap, 1)
    clients.produce(kproxy.bootstrap, source, [b"%d" % number * 100 for number in range(100)])
    with Frames(local_addresses(kproxy)[leaders(kproxy.bootstrap, source)[0]]) as frames:
        _, batches = records_in(frames.ask(fetch(1, source, 0, 0, 1 << 20)), source)
    for _ in range(5):
        with Frames(local_addresses(kproxy)[leaders(kproxy.bootstrap, sink)[0]]) as frames:
            frames.send(*[produce(7, sink, 0, batches, acks=0)] * 100)
    with consumer(cluster.direct_bootstrap) as reader:
        where = TopicPartition(sink, 0)
        wait_until(lambda: reader.get_watermark_offsets(where, PATIENCE_S)[1] == 5 * 100 * 100, "all have arrived")
