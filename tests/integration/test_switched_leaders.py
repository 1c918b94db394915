"""Consumers that live through a switch, and then through a move of their partition's leader at the new cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.devcluster import DevCluster
from tests.harness.clients import unique
from tests.harness.going import Going, java, python
from tests.harness.kafka_python import KafkaAdminClient, TopicPartition
from tests.harness.led import Led
from tests.harness.moving import topics
from tests.harness.process import wait_until
from tests.harness.switched import Switched
from tests.harness.twosides import QUICK, TwoSides

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def sides() -> Iterator[TwoSides]:
    with DevCluster(brokers=1, properties=QUICK) as blue, DevCluster(brokers=2, properties=QUICK) as green:
        yield TwoSides(blue.direct_bootstrap, green.direct_bootstrap, (blue, green))


@pytest.fixture
def led(sides: TwoSides, tmp_path: Path) -> Iterator[Led]:
    blue, green = (cluster.direct_bootstrap for cluster in sides.clusters)
    with Switched(tmp_path / "kproxy", blue, green) as kproxy:
        made = Led(sides.migration(), kproxy, tmp_path)
        with made.clients:
            yield made


def leader(bootstrap: str, topic: str) -> int:
    """Of its only partition."""
    return Producer({"bootstrap.servers": bootstrap}).list_topics(topic, 30).topics[topic].partitions[0].leader


def move_leader(cluster: DevCluster, topic: str) -> None:
    """To the other broker. Connections stay."""
    before = leader(cluster.direct_bootstrap, topic)
    order = [before, *(node for node in cluster.node_ids if node != before)]
    admin = KafkaAdminClient(bootstrap_servers=cluster.direct_bootstrap)
    try:
        admin.alter_partition_reassignments({TopicPartition(topic, 0): order[::-1]})

        def moved() -> bool:
            admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
            return leader(cluster.direct_bootstrap, topic) != before

        wait_until(moved, "the other broker leads")
    finally:
        admin.close()


def write(bootstrap: str, topic: str, first: int, upto: int) -> None:
    """In small batches."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10, "enable.idempotence": True})
    for number in range(first, upto):
        producer.produce(topic, str(number).encode(), partition=0)
    assert not producer.flush(60)


class Writing:
    """Writes records, numbered from `first` on, without a pause."""

    def __init__(self, bootstrap: str, topic: str, first: int) -> None:
        self.sent = first
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic = topic
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._ends.wait(0.002):
            self._producer.produce(self._topic, str(self.sent).encode(), partition=0)
            self._producer.poll(0)
            self.sent += 1

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        assert not self._producer.flush(60)


def got(client: Going) -> list[int]:
    return [int(line[2]) for line in client.said("got")]


@pytest.mark.matrix
@pytest.mark.parametrize("library", ["java", "confluent", "kafka_python"])
def test_a_consumer_follows_its_partition_to_another_leader(led: Led, library: str) -> None:
    topic = unique("moves")
    topics(led.sides.source, {topic: 1}, 1)
    topics(led.sides.target, {topic: 1}, 2)
    write(led.sides.source, topic, 0, 100)
    named = {"bootstrap.servers": led.kproxy.bootstrap, "group.id": f"{topic}-readers", "auto.offset.reset": "earliest",
             "auto.commit.interval.ms": "100"}  # fmt: skip
    log = led.logs / f"{library}.log"
    program = led.sides.clusters[0].programs
    client = led.start(
        java(program, ["consume", topic], named, log)
        if library == "java"
        else python(library, ["consume", topic], named, log)
    )
    client.wait(lambda: len(client.said("got")) == 100, "all of blue")
    led.switch(topic)
    write(led.sides.target, topic, 100, 200)
    client.wait(lambda: [line for line in client.said("got") if line[2] == "199"], "all of green")
    with Writing(led.sides.target, topic, 200) as writing:
        for _ in range(3):
            reached = writing.sent + 300
            client.wait(lambda: got(client)[-1] > reached, "it follows")  # noqa: B023
            move_leader(led.sides.clusters[1], topic)
    client.wait(lambda: got(client)[-1] == writing.sent - 1, "all that was written")
    client.end()
    assert got(client)[100:] == list(range(100, writing.sent)), "each once"


def throttle(cluster: DevCluster, *words: str) -> None:
    """A quota of the brokers for all consumers, so that they stay behind for a while."""
    done = cluster.tool(
        "kafka-configs", "--bootstrap-server", cluster.direct_bootstrap, "--alter", "--entity-type", "clients",
        "--entity-default", *words,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


_SLOWLY = {
    "java": {"max.partition.fetch.bytes": "2000", "max.poll.records": "20"},
    "confluent": {"fetch.message.max.bytes": "2000"},
    "kafka_python": {"max.partition.fetch.bytes": "2000", "max.poll.records": "20"},
}


@pytest.mark.parametrize("library", ["java", "confluent", pytest.param("kafka_python", marks=pytest.mark.matrix)])
def test_a_consumer_that_is_behind_follows_its_partition_to_another_leader(led: Led, library: str) -> None:
    """The broker tells it nothing of its position, but where the epoch of the former leader ends."""
    topic, backlog = unique("behind"), 20_000
    topics(led.sides.source, {topic: 1}, 1)
    topics(led.sides.target, {topic: 1}, 2)
    write(led.sides.source, topic, 0, 100)
    named = {"bootstrap.servers": led.kproxy.bootstrap, "group.id": f"{topic}-readers", "auto.offset.reset": "earliest",
             "auto.commit.interval.ms": "100", **_SLOWLY[library]}  # fmt: skip
    log = led.logs / f"{library}.log"
    words = ["consume", topic]
    client = led.start(
        java(led.sides.clusters[0].programs, words, named, log)
        if library == "java"
        else python(library, words, named, log)
    )
    client.wait(lambda: len(got(client)) == 100, "all of blue")
    throttle(led.sides.clusters[1], "--add-config", "consumer_byte_rate=20000")
    led.switch(topic)
    write(led.sides.target, topic, 100, backlog)
    client.wait(lambda: got(client)[-1] > 500, "it reads")
    move_leader(led.sides.clusters[1], topic)
    assert got(client)[-1] < backlog - 1, "it is behind"
    throttle(led.sides.clusters[1], "--delete-config", "consumer_byte_rate")
    client.wait(lambda: got(client)[-1] == backlog - 1, "all that was written")
    client.end()
    assert got(client)[100:] == list(range(100, backlog)), "each once"
