"""Consumer groups of both protocols, with members of different clients, and share groups."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from kproxy.dev.devcluster import DevCluster
from tests.harness import topics as clients
from tests.harness.clients.kafka_python import ConfigResource, ConfigResourceType, KafkaAdminClient
from tests.harness.process import Kproxy, wait_until
from tests.harness.topics import consumer, create_topic, unique, values

pytestmark = pytest.mark.integration

PARTITIONS = 6
# The classic protocol tells its members of a rebalance in answers to heartbeats; the other one has the brokers' pace.
CLASSIC = {"heartbeat_interval_ms": 200, "session_timeout_ms": 10_000}
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def settings(group: str, protocol: str) -> dict[str, object]:
    return {"group_id": group, "group_protocol": protocol, **(CLASSIC if protocol == "classic" else {})}


def produce(bootstrap: str, topic: str, part: str) -> list[bytes]:
    """Send 100 records to each partition; their values."""
    made = []
    for partition in range(PARTITIONS):
        records = [b"%s-%d-%d" % (part.encode(), partition, number) for number in range(100)]
        clients.produce(bootstrap, topic, records, partition)
        made += records
    return sorted(made)


class Member:
    """A consumer in a group, and what it has read."""

    def __init__(self, reader: Consumer, topic: str) -> None:
        self.reader = reader
        self.got: list[Message] = []
        reader.subscribe([topic])

    def poll(self) -> Member:
        for message in self.reader.consume(1000, timeout=0.05):
            assert message.error() is None, message.error()
            self.got.append(message)
        return self

    @property
    def partitions(self) -> set[int]:
        return {one.partition for one in self.reader.assignment()}


@PROTOCOLS
def test_two_members_share_the_partitions_and_one_takes_over(kproxy: Kproxy, protocol: str) -> None:
    topic, group = create_topic(kproxy.bootstrap, PARTITIONS), unique("group")
    admin = AdminClient({"bootstrap.servers": kproxy.bootstrap})
    with consumer(kproxy.bootstrap, **settings(group, protocol)) as one:
        first = Member(one, topic)
        wait_until(lambda: len(first.poll().partitions) == 6, "the only member has all partitions")
        with consumer(kproxy.bootstrap, **settings(group, protocol)) as other:
            second = Member(other, topic)

            def shared() -> bool:
                first.poll()
                second.poll()
                return len(first.partitions) == len(second.partitions) == 3

            wait_until(shared, "both members have three partitions")
            assert first.partitions | second.partitions == set(range(PARTITIONS))
            before = produce(kproxy.bootstrap, topic, "before")

            def all_read() -> bool:
                first.poll()
                second.poll()
                return len(first.got) + len(second.got) >= len(before)

            wait_until(all_read, "all records are read")
            assert values(first.got + second.got) == before
            assert {one.partition() for one in first.got} == first.partitions
            assert {one.partition() for one in second.got} == second.partitions
            for member in (first, second):
                member.reader.commit(asynchronous=False)

            described = admin.describe_consumer_groups([group])[group].result(30)
            assert len(described.members) == 2
            assert described.type.name.lower() == protocol
            assert described.state.name == "STABLE"
        wait_until(lambda: len(first.poll().partitions) == 6, "the member that stays has all partitions")
        first.got.clear()
        after = produce(kproxy.bootstrap, topic, "after")
        wait_until(lambda: len(first.poll().got) >= len(after), "the member that stays reads all")
        assert values(first.got) == after  # and what was committed does not come again
        first.reader.commit(asynchronous=False)
        committed = first.reader.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=30)
        assert [one.offset for one in committed] == [200] * PARTITIONS


@contextmanager
def java(cluster: DevCluster, output: Path, tool: str, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Kafka's tools while it runs; what it prints goes to the file `output`."""
    with output.open("wb") as stdout, output.with_suffix(".err").open("wb") as stderr:
        process = subprocess.Popen(
            cluster.programs.command(tool, *args), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@PROTOCOLS
def test_java_and_librdkafka_in_one_group(cluster: DevCluster, kproxy: Kproxy, tmp_path: Path, protocol: str) -> None:
    topic, group = create_topic(kproxy.bootstrap, PARTITIONS), unique("group")
    output = tmp_path / "java"
    args = ("--bootstrap-server", kproxy.bootstrap, "--topic", topic, "--group", group, "--from-beginning")
    own = ("group.protocol=consumer",) if protocol == "consumer" else ("heartbeat.interval.ms=200",)
    with (
        consumer(kproxy.bootstrap, **settings(group, protocol)) as reader,
        java(cluster, output, "kafka-console-consumer", *args, "--command-property", *own) as process,
    ):
        member = Member(reader, topic)

        def shared() -> bool:
            assert process.poll() is None, output.with_suffix(".err").read_text()
            member.poll()
            return len(member.partitions) == 3

        wait_until(shared, "the Java member has half of the partitions", 60)
        sent = produce(kproxy.bootstrap, topic, "both")

        def all_read() -> bool:
            member.poll()
            return len(member.got) + len(output.read_bytes().splitlines()) >= len(sent)

        wait_until(all_read, "all records are read")
        by_java = output.read_bytes().splitlines()
        assert len(by_java) == len(member.got) == 300
        assert sorted(values(member.got) + by_java) == sent


def test_share_group(cluster: DevCluster, kproxy: Kproxy, tmp_path: Path) -> None:
    """KIP-932: ShareGroupHeartbeat, ShareFetch and ShareAcknowledge, with Java's share consumer."""
    topic, group = create_topic(kproxy.bootstrap, PARTITIONS), unique("share")
    admin = KafkaAdminClient(bootstrap_servers=kproxy.bootstrap)
    try:
        earliest = ConfigResource(ConfigResourceType.GROUP, group, {"share.auto.offset.reset": "earliest"})
        admin.alter_configs([earliest])
        sent = produce(kproxy.bootstrap, topic, "share")
        args = ("--bootstrap-server", kproxy.bootstrap, "--topic", topic, "--group", group)
        with java(cluster, tmp_path / "one", "kafka-console-share-consumer", *args, "--max-messages", "600") as process:
            assert process.wait(60) == 0, (tmp_path / "one.err").read_text()
        assert sorted((tmp_path / "one").read_bytes().splitlines()) == sent
        listed = {one["group_id"]: one["group_type"] for one in admin.list_groups()}
        assert listed[group] == "share"
    finally:
        admin.close()
    # Acknowledged through kproxy: the broker counts them as consumed.
    assert kproxy.metric("kproxy_requests_total", api="ShareFetch") > 0
    assert kproxy.metric("kproxy_requests_total", api="ShareGroupHeartbeat") > 0
