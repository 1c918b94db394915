"""Kafka Streams and Connect that go on at another cluster: with their topics copied and their positions translated."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.dev.devcluster import DEFAULT_VERSION
from tests.harness.clusters.twosides import TwoSides, two_sides, until
from tests.harness.migration.carried import carry_all
from tests.harness.migration.moving import topics
from tests.harness.topics import unique
from tests.matrix.connecting import ask, connect, file_connectors
from tests.matrix.frameworks import Java

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

RECORDS, WORDS = 400, 20


@pytest.fixture(scope="module")
def sides() -> Iterator[TwoSides]:
    with two_sides() as made:
        yield made


def write(bootstrap: str, topic: str, first: int, upto: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, upto):
        producer.produce(topic, f"value-{number}", f"word-{number % WORDS}")
    assert producer.flush(60) == 0


def test_a_streams_application_goes_on_exactly_once(sides: TwoSides) -> None:
    name, move_of = unique("words"), sides.migration()
    counts = f"{name}-counts"
    topics(sides.source, {name: 3, counts: 3}, 1)

    def run(bootstrap: str, wanted: int, *more: str) -> list[str]:
        command = Java("Kafka Streams", DEFAULT_VERSION, program="streams/Moved").command()
        ended = subprocess.run(
            [*command, bootstrap, name, name, counts, str(wanted), *more], capture_output=True, text=True, timeout=250
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return [line for line in ended.stdout.splitlines() if line.startswith("count ")]

    write(sides.source, name, 0, RECORDS)
    assert len(run(sides.source, RECORDS, "earliest")) == RECORDS
    write(sides.source, name, RECORDS, 2 * RECORDS)  # not counted before the move
    assert carry_all(move_of, name)
    got = run(sides.target, 2 * RECORDS)  # without "earliest": it has a position in each partition, or fails
    wanted = [f"count word-{word}! {count + 1}" for word in range(WORDS) for count in range(2 * RECORDS // WORDS)]
    assert Counter(got) == Counter(wanted)


def test_connectors_go_on_with_each_line_exactly_once(sides: TwoSides, tmp_path: Path) -> None:
    name, move_of = unique("lines"), sides.migration()
    topics(sides.source, {name: 3}, 1)
    from_, to = tmp_path / "source", tmp_path / "sink"
    connectors = file_connectors(name, from_, to)

    def lines() -> list[str]:
        return to.read_text().splitlines() if to.exists() else []

    def add(first: int, upto: int) -> None:
        with from_.open("a") as file:
            file.writelines(f"line-{number}\n" for number in range(first, upto))

    add(0, RECORDS)
    with connect(tmp_path, sides.source, name) as url:
        for connector, settings in connectors.items():
            until(lambda c=connector, s=settings: ask(f"{url}/connectors/{c}/config", s), "it takes no connector")
        until(lambda: len(lines()) >= RECORDS, "not every line is there")
    write(sides.source, name, 0, RECORDS)  # by another producer, and not yet in the sink
    assert carry_all(move_of, name)
    add(RECORDS, 2 * RECORDS)
    with connect(tmp_path, sides.target, name) as url:  # no connector is configured: the copied topics have that
        until(lambda: len(lines()) >= 3 * RECORDS, "not every line is there")
        assert sorted(ask(f"{url}/connectors")) == sorted(connectors)
    wanted = [f"line-{number}" for number in range(2 * RECORDS)] + [f"value-{number}" for number in range(RECORDS)]
    assert Counter(lines()) == Counter(wanted)
