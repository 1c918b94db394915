"""Clients that are led from brokers of an older version to today's, and between older ones, by a real kproxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from tests.harness.clients.going import Going, java, python
from tests.harness.clusters.twosides import QUICK, TwoSides
from tests.harness.clusters.zookeeper import with_zookeeper
from tests.harness.migration.carried import apart, in_log
from tests.harness.migration.led import Led
from tests.harness.migration.moving import topics
from tests.harness.process import wait_until
from tests.harness.topics import unique
from tests.matrix.brokers import uses_zookeeper
from tests.matrix.languages import Go

pytestmark = [pytest.mark.integration, pytest.mark.matrix, pytest.mark.timeout(600)]

PARTITIONS = 2
_TODAY = DEFAULT_VERSION


@pytest.fixture(
    scope="module", params=[("2.8.2", _TODAY), ("3.9.2", _TODAY), ("3.9.2", "3.9.2")], ids=" to ".join
)  # fmt: skip
def sides(request: pytest.FixtureRequest) -> Iterator[TwoSides]:
    with ExitStack() as held:
        clusters = [
            held.enter_context(
                with_zookeeper(version, [1], QUICK)
                if uses_zookeeper(version)
                else DevCluster(1, version=version, properties=QUICK)
            )
            for version in request.param
        ]
        made = TwoSides(clusters[0].direct_bootstrap, clusters[1].direct_bootstrap, clusters)
        apart(made)
        Producer({"bootstrap.servers": made.target, "transactional.id": unique("first")}).init_transactions(60)
        yield made


def start(led: Led, library: str, *words: str, **more: str) -> Going:
    named = {"bootstrap.servers": led.kproxy.bootstrap, **{name.replace("_", "."): text for name, text in more.items()}}
    log = led.logs / f"{unique(library)}.log"
    if library == "java":
        return led.start(java(led.sides.clusters[1].programs, words, named, log))
    if library == "franz-go":
        command = Go(library, "", program="going_franz").command()
        return led.start(Going([*command, *words, *(f"{name}={text}" for name, text in named.items())], log))
    return led.start(python(library, words, named, log))


LIBRARIES = ("java", "confluent", "kafka_python", "franz-go")


def test_producers_and_groups_go_on(led: Led) -> None:
    """Each library's producer has a topic, and a group of the same library reads it."""
    prefix = unique("old")
    names = {library: f"{prefix}-{library.replace('_', '-')}" for library in LIBRARIES}
    topics(led.sides.source, dict.fromkeys(names.values(), PARTITIONS), 1)
    producers, readers = {}, {}
    for library, topic in names.items():
        plain = {"acks": "-1", "enable_idempotence": "false"} if library == "kafka_python" else {}
        idempotent = {} if library in ("kafka_python", "franz-go") else {"enable_idempotence": "true"}
        producers[library] = start(led, library, "produce", topic, str(PARTITIONS), "5", **plain, **idempotent)
        group = {} if library == "franz-go" else {"auto_offset_reset": "earliest", "session_timeout_ms": "6000"}
        readers[library] = start(led, library, "consume", topic, group_id=f"{topic}-readers", **group)
    for one in producers.values():
        one.wait_more("acked", 200)
    for one in readers.values():
        one.wait_more("got", 100)
    led.switch(prefix)
    for one in producers.values():
        one.wait_more("acked", 200)
    for library, one in producers.items():
        one.end()
        assert not one.said("failed") + one.said("died"), library
        acked = sorted(int(number) for number, *_ in one.said("acked"))
        assert acked == list(range(len(acked)))
        found = in_log(led.sides.target, names[library], PARTITIONS)
        if library == "kafka_python":  # it is not idempotent, and may repeat what was refused
            found = [sorted(set(numbers)) for numbers in found]
        assert found == [acked[partition::PARTITIONS] for partition in range(PARTITIONS)], library
        reader = readers[library]

        def got(reader: Going = reader) -> set[int]:
            return {int(line[2]) for line in reader.said("got")}

        wait_until(lambda got=got, acked=acked: got() == set(acked), f"{library} reads all", 120)


def test_a_transaction_ends_in_an_abort(led: Led, sides: TwoSides) -> None:
    """Brokers before 3.0 cannot say which are open: there the application has ended before the switch."""
    topic = unique("tx")
    topics(led.sides.source, {topic: 1}, 1)
    client = start(led, "java", "transact", topic, "1", "20", "10", transactional_id=unique("id"))
    client.wait_more("committed", 3)
    if uses_zookeeper_of(sides):
        client.end()
    led.switch(topic)
    if uses_zookeeper_of(sides):
        client = start(
            led, "java", "transact", topic, "1", "20", "10", transactional_id=unique("id"), first_number="9999"
        )
    client.wait_more("committed", 3)
    client.end()
    assert not client.said("died")
    found = in_log(led.sides.target, topic, 1)[0]
    assert found == sorted(set(found))
    kept = {number for first, last in client.said("committed") for number in range(int(first), int(last) + 1)}
    assert kept <= set(found)


def uses_zookeeper_of(sides: TwoSides) -> bool:
    return not isinstance(sides.clusters[0], DevCluster)
