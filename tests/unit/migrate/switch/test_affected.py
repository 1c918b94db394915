"""Which clients will see more of a switch than a pause."""

from __future__ import annotations

from kproxy.migrate.clusters.inventory import Group, Inventory, Topic
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING
from kproxy.migrate.spec.migration import Groups, Migration, Topics
from kproxy.migrate.switch.affected import (
    clients,
    producer_ids,
    told,
    topics_and_groups,
    transactional_ids,
    transactions,
)
from kproxy.migrate.switch.answers import Client
from kproxy.migrate.switch.transactions import Open

SIDES = ({"bootstrap-servers": "a:1"}, {"bootstrap-servers": "b:1"})


def source(topics: list[str], groups: list[Group] | None = None) -> Inventory:
    return Inventory(
        "A", (4, 0), (), {name: Topic(name, ()) for name in topics}, {one.name: one for one in groups or []}
    )  # fmt: skip


def test_topics() -> None:
    migration = Migration(*SIDES, topics=Topics(("a", "b*"), rename={"a": "z"}))
    there = ["a", "b1", "c", "__consumer_offsets", "kproxy-migration-x"]
    found = list(topics_and_groups(migration, source(["a", "b1"]), there))
    assert [(one.severity, one.about) for one in found] == [(STOP, "topics"), (WARNING, "topics")]
    assert found[0].text.startswith("a would have other names")
    assert found[1].text.startswith("c not migrated")


def test_groups() -> None:
    migration = Migration(*SIDES, groups=Groups(("*",), ("old",)))
    groups = [
        Group("old", "classic", "Empty"),
        Group("fine", "classic", "Stable", "consumer"),
        Group("shared", "share", "Stable"),
        Group("app", "classic", "Stable", "consumer"),
        Group("workers", "classic", "Stable", "connect"),
    ]
    found = {one.about: one.text for one in topics_and_groups(migration, source([], groups), ["app-store-changelog"])}
    assert set(found) == {"group old", "group shared", "group app", "group workers"}
    assert "left out" in found["group old"]
    assert "share group" in found["group shared"]
    assert "state.dir" in found["group app"]
    assert "Kafka Connect" in found["group workers"]


def test_open_transactions() -> None:
    assert list(transactions([])) == []
    assert next(iter(transactions(None))).severity == WARNING
    assert "of t1, t2, t3 and 1 more" in next(iter(transactions([Open(f"t{n}") for n in (1, 2, 3, 4)]))).text


def test_transactional_ids_that_both_sides_know() -> None:
    assert list(transactional_ids({"a", "b"}, {"c"})) == []
    assert list(transactional_ids(None, {"c"})) == list(transactional_ids({"c"}, None)) == []
    (found,) = transactional_ids({"d", "a", "b", "c", "e"}, {"c", "b", "d", "e", "x"})
    assert found.severity == WARNING
    assert found.text.startswith("both sides know b, c, d and 1 more, with other producer ids")


def test_clients() -> None:
    sessions = [
        Client("a", "10.0.0.1", "librdkafka 2"), Client("a", "10.0.0.1", "librdkafka 2"), Client("b", "10.0.0.1"),
        Client("consumer-spark-kafka-source-1", "10.0.0.1", "java 4"),
    ]  # fmt: skip
    found = list(clients(sessions))
    assert found[0].severity == NOTE
    assert found[0].text == "connected now: 1 java 4, 1 librdkafka 2, 1 unknown software"
    assert "checkpoint" in found[1].text
    assert found[2].text.startswith("a: librdkafka before 2.8 takes no leader whose epoch is lower")
    assert len(found) == 3
    assert list(clients([])) == []
    names = ["librdkafka 2.3.0", "confluent-kafka-python 2.16.1-rdkafka-2.16.0", "librdkafka 3.0", "librdkafka 2.8.0"]
    (_, warned) = clients([Client(f"c{at}", "10.0.0.1", name) for at, name in enumerate(names)])
    assert warned.text.startswith("c0: librdkafka before 2.8 takes no leader")
    wrote = [
        Client("w", "10.0.0.1", "librdkafka 2.16.0", writes=True, produces="idempotent"),
        Client("v", "10.0.0.1", "librdkafka 2.16.0", writes=True),  # nobody has seen how it writes
        Client("r", "10.0.0.1", "librdkafka 2.16.0"),
        Client("p", "10.0.0.1", "librdkafka 2.16.0", writes=True, produces="plain"),
        Client("t", "10.0.0.1", "librdkafka 2.16.0", writes=True, produces="transactional"),
        Client("j", "10.0.0.1", "apache-kafka-java 4.3.1", writes=True, produces="idempotent"),
        Client("f", "10.0.0.1", "kgoing 1", writes=True, produces="plain"),
        Client("k", "10.0.0.1", "kafka-python 3.0.12", writes=True, produces="idempotent"),
        Client("q", "10.0.0.1", "kafka-python 3.0.12", writes=True, produces="plain"),
        Client("s", "10.0.0.1", "", writes=True, produces="idempotent"),
    ]
    assert len(list(clients(wrote))) == 1, "only what is connected: it meets no former sequence numbers"
    (_, kafka_python, librdkafka, others) = clients(wrote, again=True)
    assert (librdkafka.severity, librdkafka.about) == (WARNING, "librdkafka")
    assert librdkafka.text.startswith(
        "v (if it is idempotent), w: an idempotent producer of librdkafka that has written to both sides ends"
    )
    assert (kafka_python.severity, kafka_python.about) == (WARNING, "kafka-python")
    assert kafka_python.text.startswith("k: an idempotent producer of kafka-python")
    assert "OutOfOrderSequenceNumberError" in kafka_python.text
    assert (others.severity, others.about) == (WARNING, "producers")
    assert others.text.startswith("s: an idempotent producer that has written to both sides")
    franz = [Client("orders", "10.0.0.1", "kgo v1.22.0"), Client("b", "10.0.0.1", "kgoing 1")]
    (_, warned) = clients(franz)
    assert (warned.severity, warned.about) == (WARNING, "franz-go")
    assert warned.text.startswith("orders: a franz-go consumer that was started before kproxy had both upstreams")
    one = next(iter(told({"waits for its positions": ["x", "x", "y"]})))
    assert (one.about, one.text) == ("clients x, y", "waits for its positions")


def test_producer_ids_in_the_log() -> None:
    """Those below the floor are ids that the source hands out."""
    assert producer_ids({}, 100) is None
    assert producer_ids({("a", 0): {100, 7_000}}, 100) is None
    found = producer_ids({("b", 1): {99, 100, 3}, ("a", 2): {99}, ("a", 0): {100}}, 100)
    assert found is not None
    assert found.severity == STOP
    assert found.text.startswith(
        "partition 2 of a on the target has records of producer 99, and 1 more partitions have"
    )
    assert "up to 99:" in found.text
