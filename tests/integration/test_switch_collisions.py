"""The same producer ids, epochs and sequence numbers on both sides, on purpose: `kproxy migrate switch` refuses them in
its preflight. Two real clusters that are as new hand out the same ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.base.diagnostic import ERROR, NOTE, Diagnostic, Severity
from kproxy.migrate.clusters import producerids
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.clusters.inventory_reader import read_logged_producer_ids
from kproxy.migrate.prepare.cluster_pair import ClusterPair
from kproxy.migrate.prepare.takenids import record_taken_ids
from kproxy.migrate.spec.migration import Migration, TopicSelection
from kproxy.migrate.switch import preflight
from kproxy.migrate.switch.client_selection import ClientSelection
from tests.harness.clients import kafka_python  # noqa: F401  # its warnings are not ours
from tests.harness.clusters.twosides import TwoSides, two_sides
from tests.harness.migration.led import Led
from tests.harness.migration.moving import topics
from tests.harness.migration.switched import Switched
from tests.harness.topics import unique

pytestmark = pytest.mark.integration

LOST = 5
"""A broker remembers the last five batches of a producer, and takes only those for repetitions."""


@pytest.fixture
def sides() -> Iterator[TwoSides]:
    """Clusters that nobody has used: producer ids begin at the same number on both."""
    with two_sides() as made:
        topics(made.target, {f"kproxy-migration-{made.name}": 1}, 1)  # the state topic: nothing is copied so far
        yield made


def producer(bootstrap: str) -> Producer:
    """Idempotent; each record is a batch of its own."""
    return Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 1}
    )


def write(one: Producer, topic: str, values: list[str]) -> None:
    acked: list[str] = []
    for value in values:
        one.produce(topic, value.encode(), partition=0, on_delivery=lambda error, _: error or acked.append(""))
    assert not one.flush(60)
    assert len(acked) == len(values)


def ids(bootstrap: str, topic: str) -> frozenset[int]:
    with Admin(bootstrap) as admin:
        found, unseen = read_logged_producer_ids(admin, topic.__eq__)
    assert not unseen
    return (found or {}).get((topic, 0), frozenset())


def stops(
    sides: TwoSides, topic: str, *, first: bool = True, dry_run: bool = True, severity: Severity = ERROR
) -> list[str]:
    found = checked(sides, topic, first=first, dry_run=dry_run)
    return [one.text for one in found if one.severity == severity and one.subject == "producer ids"]


def checked(
    sides: TwoSides,
    topic: str,
    *,
    first: bool = True,
    dry_run: bool = True,
    selection: ClientSelection | None = None,
) -> list[Diagnostic]:
    migration = Migration(
        {"bootstrap-servers": sides.source},
        {"bootstrap-servers": sides.target},
        sides.name,
        topics=TopicSelection((topic,)),
    )
    with ClusterPair(migration, ClusterEndpoints.from_addresses(sides.source, sides.target)) as both:
        return list(preflight.check_clusters(both, first=first, dry_run=dry_run, selection=selection))


def test_ids_that_would_collide_are_refused(sides: TwoSides) -> None:
    topic = unique("collide")
    for bootstrap in (sides.source, sides.target):
        topics(bootstrap, {topic: 1}, 1)
        write(producer(bootstrap), topic, ["a", "b"])
    assert ids(sides.source, topic) == ids(sides.target, topic) != frozenset()
    (in_log,) = stops(sides, topic)
    assert f"partition 0 of {topic} on the target has records of producer" in in_log

    for dry_run, done in ((True, "would be"), (False, "are")):
        (text,) = stops(sides, topic, dry_run=dry_run, severity=NOTE)
        assert f"{done} raised above the source's" in text
    assert stops(sides, topic, dry_run=False, severity=NOTE) == []
    (left,) = stops(sides, topic)
    assert left.partition(", and")[0] == in_log.partition(", and")[0]
    assert stops(sides, topic, first=False) == []  # they are those of clients that have been there

    # The transactional ids of a wave are its own: those of another one are not warned of.
    for bootstrap in (sides.source, sides.target):
        transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "billing-1"})
        transactional.init_transactions(60)
        transactional.begin_transaction()
        transactional.produce(topic, b"c", partition=0)
        transactional.commit_transaction(60)
    for transactions, warned in ((("billing-*",), True), (("orders-*",), False)):
        wave = ClientSelection(transactions=transactions, wave="one")
        texts = [one.text for one in checked(sides, topic, selection=wave) if one.subject == "transactions"]
        assert any("both sides know billing-1" in text for text in texts) is warned

    clean = unique("clean")
    for bootstrap in (sides.source, sides.target):
        topics(bootstrap, {clean: 1}, 1)
        write(producer(bootstrap), clean, ["a", "b"])
    assert stops(sides, clean) == []


def test_ids_that_kproxy_used_up_on_the_source_are_no_clients(sides: TwoSides) -> None:
    """A reversible switch that was undone has raised the source's ids above those of the copier on the target."""
    source, target = {1: sides.source}, {1: sides.target}
    producerids.raise_to(target, 10_000, producerids.take_one_id_each(target))
    topic = unique("undone")
    for bootstrap in (sides.source, sides.target):
        topics(bootstrap, {topic: 1}, 1)
        write(producer(bootstrap), topic, ["a", "b"])
    raised = producerids.raise_to(source, 20_000, producerids.take_one_id_each(source))
    assert stops(sides, topic, dry_run=False, severity=NOTE), "the target's ids are raised above them"
    (in_log,) = stops(sides, topic)
    assert f"partition 0 of {topic} on the target has records of producer" in in_log

    record_taken_ids(sides.target, sides.name, raised.taken)
    assert stops(sides, topic) == []
    (theirs,) = ids(sides.target, topic)
    others = [(first, last) for first, last in raised.taken if not first <= theirs <= last]
    assert len(others) < len(raised.taken), "the id was among them"

    write(producer(sides.source), topic, ["c"])  # ids of clients are above those that kproxy used up
    assert stops(sides, topic) == []


@pytest.mark.matrix
def test_what_the_preflight_saves_from(sides: TwoSides, tmp_path: Path) -> None:
    """A switch by hand, with POST /switch, has no preflight: a producer of the source loses what the target takes for
    repetitions, and is told that all is written. If this fails, brokers have become wiser, or kproxy has."""
    topic = unique("collide")
    topics(sides.source, {topic: 1}, 1)
    topics(sides.target, {topic: 1}, 1)
    blue, green = (cluster.bootstrap for cluster in sides.clusters)
    with Switched(tmp_path / "kproxy", blue, green) as kproxy:
        led = Led(sides, kproxy, tmp_path)
        ours = producer(kproxy.bootstrap)
        write(ours, topic, [f"ours-{number}" for number in range(3)])
        write(producer(sides.target), topic, [f"theirs-{number}" for number in range(3 + LOST)])
        assert ids(sides.source, topic) == ids(sides.target, topic)
        assert stops(sides, topic)
        kproxy.hold()
        kproxy.must("flip")
        kproxy.must("release")
        write(ours, topic, [f"ours-{number}" for number in range(3, 10)])
        found = [value for value in led.on_green(topic, 1)[0] if value.startswith("ours")]
    assert found == [f"ours-{number}" for number in range(3 + LOST, 10)]
