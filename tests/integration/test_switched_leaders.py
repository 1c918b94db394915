"""Clients that live through a switch to a cluster with other leaders, and consumers whose leader moves there then."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.going import Going, java, python
from tests.harness.clients.kafka_python import KafkaAdminClient, TopicPartition
from tests.harness.clusters.twosides import QUICK, TwoSides
from tests.harness.migration.carried import apart
from tests.harness.migration.led import Led
from tests.harness.migration.moving import topics
from tests.harness.migration.switched import Switched
from tests.harness.process import wait_until
from tests.harness.topics import unique
from tests.matrix.languages import Go

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def sides() -> Iterator[TwoSides]:
    with DevCluster(brokers=2, properties=QUICK) as blue, DevCluster(brokers=2, properties=QUICK) as green:
        made = TwoSides(blue.direct_bootstrap, green.direct_bootstrap, (blue, green))
        apart(made)
        yield made


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


def start(led: Led, library: str, words: list[str], **properties: str) -> Going:
    named = {"bootstrap.servers": led.kproxy.bootstrap}
    named |= {name.replace("_", "."): value for name, value in properties.items()}
    log = led.logs / f"{unique(library)}.log"
    if library == "java":
        return led.start(java(led.sides.clusters[0].programs, words, named, log))
    if library != "franz-go":
        return led.start(python(library, words, named, log))
    command = Go("franz-go", "", program="going_franz").command()
    return led.start(Going([*command, *words, *(f"{name}={value}" for name, value in named.items())], log))


@pytest.mark.matrix
def test_franz_go_finds_the_other_leaders(led: Led) -> None:
    """Their epochs are those of blue, by which nobody could tell that the leaders are others."""
    topic, partitions = unique("leaders"), 4
    topics(led.sides.source, {topic: partitions}, 1)
    topics(led.sides.target, {topic: partitions}, 2)
    found = Producer({"bootstrap.servers": led.sides.target}).list_topics(topic, 30).topics[topic].partitions
    assert len({one.leader for one in found.values()}) == 2
    writer = start(led, "franz-go", ["produce", topic, str(partitions), "1"])
    reader = start(led, "franz-go", ["consume", topic], group_id=f"{topic}-readers")
    reader.wait(lambda: len(reader.said("got")) > 500, "it reads")
    led.switch(topic)
    writer.wait_more("acked", 1000)
    writer.wait_more("metadata", 8)
    writer.end()
    acked = {int(number) for number, *_ in writer.said("acked")}
    assert not writer.said("failed") + writer.said("died")
    assert [[int(value) for value in one] for one in led.on_green(topic, partitions)] == [
        sorted(number for number in acked if number % partitions == partition) for partition in range(partitions)
    ]
    reader.wait(lambda: set(got(reader)) == acked, "it has read all")
    reader.end()
    assert not reader.said("died")
    for partition in range(partitions):
        there = [int(line[2]) for line in reader.said("got") if line[0] == str(partition)]
        steps = [later - earlier for earlier, later in itertools.pairwise(there)]
        assert [step for step in steps if step > partitions] == [], "no gap"
        assert len([step for step in steps if step < 1]) <= 1, "once it goes back to where it has committed"


@pytest.mark.parametrize(
    ("library", "moves"),
    [("confluent", 0), ("confluent", 1), pytest.param("franz-go", 1, marks=pytest.mark.matrix)],
)
def test_clients_find_a_leader_whose_epoch_is_lower(led: Led, library: str, moves: int) -> None:
    """On blue the partition has changed its leader more often, and the last one is not the one on green."""
    topic, (blue, green) = unique("epochs"), led.sides.clusters
    topics(led.sides.source, {topic: 1}, 2)
    topics(led.sides.target, {topic: 1}, 2)
    for _ in range(3):
        move_leader(blue, topic)
    for _ in range(moves):
        move_leader(green, topic)
    if leader(led.sides.source, topic) == leader(led.sides.target, topic):
        move_leader(blue, topic)
    writer = start(led, library, ["produce", topic, "1", "10"])
    named = {"group_id": f"{topic}-readers", "auto_offset_reset": "earliest", "auto_commit_interval_ms": "100"}
    reader = start(led, library, ["consume", topic], **named)
    reader.wait(lambda: len(got(reader)) > 50, "it reads")
    led.switch(topic)
    writer.wait_more("acked", 200)
    writer.end()
    acked = {int(number) for number, *_ in writer.said("acked")}
    reader.wait(lambda: set(got(reader)) == acked, "it has read all")
    reader.end()
    assert writer.said("failed") + writer.said("died") + reader.said("died") == []
    assert sorted(int(value) for value in led.on_green(topic, 1)[0]) == sorted(acked)


@pytest.mark.matrix
@pytest.mark.parametrize("library", ["java", "confluent", "kafka_python", "franz-go"])
def test_a_consumer_follows_its_partition_to_another_leader(led: Led, library: str) -> None:
    topic = unique("moves")
    topics(led.sides.source, {topic: 1}, 1)
    topics(led.sides.target, {topic: 1}, 2)
    write(led.sides.source, topic, 0, 100)
    named = {"group_id": f"{topic}-readers", "auto_offset_reset": "earliest", "auto_commit_interval_ms": "100"}
    client = start(led, library, ["consume", topic], **named)
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


@pytest.mark.parametrize(
    "library", ["confluent", *(pytest.param(name, marks=pytest.mark.matrix) for name in ("java", "kafka_python"))]
)
def test_a_lagging_consumer_follows_its_partitions_new_leader(led: Led, library: str) -> None:
    """The broker tells it nothing of its position, but where the epoch of the former leader ends."""
    topic, backlog = unique("behind"), 20_000
    topics(led.sides.source, {topic: 1}, 1)
    topics(led.sides.target, {topic: 1}, 2)
    write(led.sides.source, topic, 0, 100)
    named = {"group_id": f"{topic}-readers", "auto_offset_reset": "earliest", "auto_commit_interval_ms": "100"}
    client = start(led, library, ["consume", topic], **named, **_SLOWLY[library])
    client.wait(lambda: len(got(client)) == 100, "all of blue")
    throttle(led.sides.clusters[1], "--add-config", "consumer_byte_rate=5000")
    led.switch(topic)
    write(led.sides.target, topic, 100, backlog)
    client.wait(lambda: got(client)[-1] > 500, "it reads")
    move_leader(led.sides.clusters[1], topic)
    assert got(client)[-1] < backlog - 1, "it is behind"
    throttle(led.sides.clusters[1], "--delete-config", "consumer_byte_rate")
    client.wait(lambda: got(client)[-1] == backlog - 1, "all that was written")
    client.end()
    assert got(client)[100:] == list(range(100, backlog)), "each once"
