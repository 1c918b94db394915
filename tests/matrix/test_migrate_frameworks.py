"""Kafka Streams and Connect that go on at another cluster: with their topics copied and their positions translated."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kproxy.devcluster import DEFAULT_VERSION
from kproxy.migrate.administration import Admin
from kproxy.migrate.migration import Migration
from kproxy.migrate.offsets import Offsets, incomplete
from tests.harness import kafka_python  # noqa: F401  # its warnings are not ours
from tests.harness.clients import unique
from tests.harness.moving import topics
from tests.harness.twosides import TwoSides, two_sides, until
from tests.matrix.frameworks import Java, worker

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

RECORDS, WORDS = 400, 20


@pytest.fixture(scope="module")
def sides() -> Iterator[TwoSides]:
    with two_sides() as made:
        yield made


def move(sides: TwoSides, prefix: str) -> None:
    """What `prepare`, `copy` and `offsets` do: all topics and groups with such names."""
    admin = AdminClient({"bootstrap.servers": sides.source})
    layout = {
        name: len(topic.partitions)
        for name, topic in admin.list_topics(timeout=30).topics.items()
        if prefix in name and not name.startswith("kproxy-migration")
    }
    for name, count in layout.items():
        resource = ConfigResource(ResourceType.TOPIC, name)
        configs = admin.describe_configs([resource])[resource].result(30)
        policy = configs["cleanup.policy"].value
        topics(sides.target, {name: count}, 1, **{"cleanup.policy": policy})
        sides.copy({name: name}, sparse="compact" in policy)
    migration = Migration({}, {}, sides.name)
    with Admin(sides.source) as source, Admin(sides.target) as target:
        results = Offsets(migration, source, target).read_state().run(lambda group: prefix in group, dry_run=False)
    assert not incomplete(results, migration)
    assert results


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
    move(move_of, name)
    got = run(sides.target, 2 * RECORDS)  # without "earliest": it has a position in each partition, or fails
    wanted = [f"count word-{word}! {count + 1}" for word in range(WORDS) for count in range(2 * RECORDS // WORDS)]
    assert Counter(got) == Counter(wanted)


def ask(url: str, settings: Mapping[str, str] | None = None) -> Any:
    """The answer of a Connect worker; None while it is not ready to give one."""
    body = None if settings is None else json.dumps(settings).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="PUT" if body else "GET")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code not in (404, 409, 500, 503):
                raise
            return None


@contextmanager
def connect(directory: Path, bootstrap: str, name: str) -> Iterator[str]:
    """A distributed worker that has nothing but its topics; gives the URL of its REST server."""
    text, started = "org.apache.kafka.connect.storage.StringConverter", "REST server listening at http://"
    settings = {
        "bootstrap.servers": bootstrap, "group.id": f"{name}-workers", "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets", "status.storage.topic": f"{name}-status",
        "offset.storage.partitions": "3", "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1", "status.storage.replication.factor": "1", "key.converter": text,
        "value.converter": text, "listeners": "http://127.0.0.1:0", "plugin.discovery": "service_load",
        "offset.flush.interval.ms": "1000",
    }  # fmt: skip
    (directory / "worker.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    log = directory / "worker.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [*worker(DEFAULT_VERSION), str(directory / "worker.properties")], stdout=file, stderr=file
        )
    try:

        def url() -> str:
            assert process.poll() is None, log.read_text()[-4000:]
            _, said, rest = log.read_text().rpartition(started)
            return f"http://{rest.split('/')[0]}" if said and "/" in rest else ""

        until(url, "the worker does not say where it listens")
        yield url()
        process.terminate()
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def test_connectors_go_on_with_each_line_exactly_once(sides: TwoSides, tmp_path: Path) -> None:
    name, move_of = unique("lines"), sides.migration()
    topics(sides.source, {name: 3}, 1)
    from_, to = tmp_path / "source", tmp_path / "sink"
    kind = "org.apache.kafka.connect.file.FileStream"
    connectors = {
        f"{name}-source": {"connector.class": f"{kind}SourceConnector", "file": str(from_), "topic": name},
        f"{name}-sink": {
            "connector.class": f"{kind}SinkConnector", "file": str(to), "topics": name,
            "consumer.override.auto.offset.reset": "earliest",
        },
    }  # fmt: skip

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
    move(move_of, name)
    add(RECORDS, 2 * RECORDS)
    with connect(tmp_path, sides.target, name) as url:  # no connector is configured: the copied topics have that
        until(lambda: len(lines()) >= 3 * RECORDS, "not every line is there")
        assert sorted(ask(f"{url}/connectors")) == sorted(connectors)
    wanted = [f"line-{number}" for number in range(2 * RECORDS)] + [f"value-{number}" for number in range(RECORDS)]
    assert Counter(lines()) == Counter(wanted)
