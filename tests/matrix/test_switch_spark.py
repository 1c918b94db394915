"""A streaming query of a real Spark that runs while its cluster is switched. Its positions stand in its checkpoint: it
never asks a broker where to go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kproxy.base.errors import ConfigError
from kproxy.migrate.offsets.checkpoint import translate_checkpoint
from tests.harness.clients.spark import connector, needs_spark, session, settings, spark_home
from tests.harness.clusters.twosides import two_sides
from tests.harness.migration.carried import apart
from tests.harness.migration.led import Led
from tests.harness.migration.moving import topics
from tests.harness.migration.switched import Switched
from tests.harness.process import wait_until
from tests.harness.topics import unique

pytestmark = [
    pytest.mark.integration,
    pytest.mark.matrix,
    needs_spark,
    pytest.mark.timeout(600),
    # py4j leaves the sockets of foreachBatch's calls to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PARTITIONS = 2


@pytest.fixture
def led(tmp_path: Path) -> Iterator[Led]:
    with two_sides() as sides:
        apart(sides)
        blue, green = (cluster.bootstrap for cluster in sides.clusters)
        with Switched(tmp_path / "kproxy", blue, green) as kproxy:
            yield Led(sides, kproxy, tmp_path)


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Any]:
    home = spark_home(tmp_path)
    with session(home, {**settings(), "spark.master": "local[2,4]", "spark.jars": connector()}) as made:
        yield made


class Query:
    """It reads a topic through kproxy from its beginning, or from its checkpoint, and notes what comes."""

    def __init__(self, spark: Any, bootstrap: str, topic: str, checkpoint: Path) -> None:
        self.batches: dict[int, list[str]] = {}
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
            "kafkaConsumer.pollTimeoutMs": "3000",
        }
        read = spark.readStream.format("kafka").options(**options).load()
        self.running = (
            read.selectExpr("cast(value as string) as value").writeStream.foreachBatch(self._note)
            .option("checkpointLocation", str(checkpoint)).trigger(processingTime="200 milliseconds").start()
        )  # fmt: skip

    def _note(self, frame: Any, number: int) -> None:
        self.batches[number] = [row["value"] for row in frame.collect()]

    @property
    def seen(self) -> Counter[str]:
        return Counter(value for some in self.batches.values() for value in some)


def write(bootstrap: str, topic: str, first: int, upto: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, upto):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert not producer.flush(60)


def test_a_running_query_gets_no_wrong_record_and_can_continue(led: Led, spark: Any, tmp_path: Path) -> None:
    topic, old, new = unique("streamed"), tmp_path / "old", tmp_path / "new"
    topics(led.sides.source, {topic: PARTITIONS}, 1)
    write(led.sides.source, topic, 0, 600)
    query = Query(spark, led.kproxy.bootstrap, topic, old)
    wait_until(lambda: len(query.seen) == 600, "all records of blue")
    led.switch(topic)
    write(led.kproxy.bootstrap, topic, 600, 900)
    wait_until(lambda: not query.running.isActive, "Spark gives it up", 120)
    assert "Cannot fetch record for offset" in str(query.running.exception())
    assert query.seen == Counter(str(number) for number in range(600)), "nothing but what it had"

    words = r"planned with offsets of the target and has read nothing: move 1 and \.1\.crc away"
    with pytest.raises(ConfigError, match=words):
        translate_checkpoint(str(old), str(new), led.sides.state())
    for name in ("1", ".1.crc"):
        (old / "offsets" / name).rename(tmp_path / name)
    translate_checkpoint(str(old), str(new), led.sides.state())
    again = Query(spark, led.kproxy.bootstrap, topic, new)
    wait_until(lambda: len(again.seen) >= 300, "it goes on")
    again.running.stop()
    assert query.seen + again.seen == Counter(str(number) for number in range(900))
