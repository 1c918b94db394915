"""Which clients will see more of a switch than a pause."""

from __future__ import annotations

from kproxy.base.diagnostic import ERROR, NOTE, WARNING
from kproxy.migrate.clusters.inventory import GroupInventory, Inventory, TopicInventory
from kproxy.migrate.spec.migration import GroupSelection, Migration, TopicSelection
from kproxy.migrate.switch.client_effects import (
    check_clients,
    check_producer_ids,
    check_topics_and_groups,
    check_transactional_ids,
    check_transactions,
    streams_applications,
)
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.transactions import OpenTransaction

SIDES = ({"bootstrap-servers": "a:1"}, {"bootstrap-servers": "b:1"})


def source(topics: list[str], groups: list[GroupInventory] | None = None) -> Inventory:
    return Inventory(
        "A", (4, 0), (), {name: TopicInventory(name, ()) for name in topics}, {one.name: one for one in groups or []}
    )  # fmt: skip


def test_topics() -> None:
    migration = Migration(*SIDES, topics=TopicSelection(("a", "b*"), rename={"a": "z"}))
    there = ["a", "b1", "c", "__consumer_offsets", "kproxy-migration-x"]
    found = list(check_topics_and_groups(migration, source(["a", "b1"]), there))
    assert [(one.severity, one.subject) for one in found] == [(ERROR, "topics"), (WARNING, "topics")]
    assert found[0].text.startswith("a would have other names")
    assert found[1].text.startswith("c not migrated")


def test_groups() -> None:
    migration = Migration(*SIDES, groups=GroupSelection(("*",), ("old",)))
    groups = [
        GroupInventory("old", "classic", "Empty"),
        GroupInventory("fine", "classic", "Stable", "consumer"),
        GroupInventory("shared", "share", "Stable"),
        GroupInventory("app", "classic", "Stable", "consumer"),
        GroupInventory("workers", "classic", "Stable", "connect"),
    ]
    found = {
        one.subject: one.text for one in check_topics_and_groups(migration, source([], groups), ["app-store-changelog"])
    }
    assert set(found) == {"group old", "group shared", "group app", "group workers"}
    assert "excluded" in found["group old"]
    assert "share group" in found["group shared"]
    assert "state.dir" in found["group app"]
    assert "Kafka Connect" in found["group workers"]
    (moved,) = check_topics_and_groups(migration, source([], groups), [], {"fine", "shared"})
    assert moved.subject == "group shared"


def test_open_transactions() -> None:
    assert list(check_transactions([])) == []
    assert next(iter(check_transactions(None))).severity == WARNING
    assert (
        "of t1, t2, t3 and 1 more"
        in next(iter(check_transactions([OpenTransaction(f"t{n}") for n in (1, 2, 3, 4)]))).text
    )


def test_transactional_ids_that_both_sides_know() -> None:
    assert list(check_transactional_ids({"a", "b"}, {"c"})) == []
    assert list(check_transactional_ids(None, {"c"})) == list(check_transactional_ids({"c"}, None)) == []
    (found,) = check_transactional_ids({"d", "a", "b", "c", "e"}, {"c", "b", "d", "e", "x"})
    assert found.severity == WARNING
    assert found.text.startswith("both sides know b, c, d and 1 more, with different producer ids")


def test_a_streams_application_replaces_fenced_producers_itself() -> None:
    """The ids are those that Kafka Streams 4.4 makes, by group protocol classic or streams."""
    groups = [GroupInventory("counts", "classic", "Stable", "consumer"), GroupInventory("sums", "streams", "Stable")]
    streams = streams_applications(
        source([], [*groups, GroupInventory("orders", "classic", "Stable")]), ["counts-s-changelog"]
    )
    assert streams == {"counts", "sums"}
    thread = "-6d99fe3c-d0af-4a03-9b51-b494b69929d1-1"
    ids = {f"{name}{thread}" for name in ("counts", "sums", "orders")} | {"counts-6d99", f"sums{thread}-x"}
    (found,) = check_transactional_ids(ids, ids, streams)
    assert found.text.startswith(f"both sides know counts-6d99, orders{thread}, sums{thread}-x, with")


def test_clients() -> None:
    sessions = [
        ConnectedClient("a", "10.0.0.1", "librdkafka 2"), ConnectedClient("a", "10.0.0.1", "librdkafka 2"), ConnectedClient("b", "10.0.0.1"),
        ConnectedClient("consumer-spark-kafka-source-1", "10.0.0.1", "java 4"),
    ]  # fmt: skip
    found = list(check_clients(sessions))
    assert found[0].severity == NOTE
    assert found[0].text == "connected now: 1 java 4, 1 librdkafka 2, 1 unknown software"
    assert "checkpoint" in found[1].text
    assert found[2].text.startswith("a: librdkafka before 2.8 ignores a leader whose epoch is lower")
    assert len(found) == 3
    assert list(check_clients([])) == []
    names = ["librdkafka 2.3.0", "confluent-kafka-python 2.16.1-rdkafka-2.16.0", "librdkafka 3.0", "librdkafka 2.8.0"]
    (_, warned) = check_clients([ConnectedClient(f"c{at}", "10.0.0.1", name) for at, name in enumerate(names)])
    assert warned.text.startswith("c0: librdkafka before 2.8 ignores a leader")
    wrote = [
        ConnectedClient("w", "10.0.0.1", "librdkafka 2.16.0", writes=True, produces="idempotent"),
        ConnectedClient("v", "10.0.0.1", "librdkafka 2.16.0", writes=True),  # nobody has seen how it writes
        ConnectedClient("r", "10.0.0.1", "librdkafka 2.16.0"),
        ConnectedClient("p", "10.0.0.1", "librdkafka 2.16.0", writes=True, produces="plain"),
        ConnectedClient("t", "10.0.0.1", "librdkafka 2.16.0", writes=True, produces="transactional"),
        ConnectedClient("j", "10.0.0.1", "apache-kafka-java 4.3.1", writes=True, produces="idempotent"),
        ConnectedClient("f", "10.0.0.1", "kgoing 1", writes=True, produces="plain"),
        ConnectedClient("k", "10.0.0.1", "kafka-python 3.0.12", writes=True, produces="idempotent"),
        ConnectedClient("q", "10.0.0.1", "kafka-python 3.0.12", writes=True, produces="plain"),
        ConnectedClient("s", "10.0.0.1", "", writes=True, produces="idempotent"),
    ]
    assert len(list(check_clients(wrote))) == 1, "only what is connected: it meets no former sequence numbers"
    (_, kafka_python, librdkafka, others) = check_clients(wrote, switched_before=True)
    assert (librdkafka.severity, librdkafka.subject) == (WARNING, "librdkafka")
    assert librdkafka.text.startswith(
        "v (if it is idempotent), w: an idempotent librdkafka producer that has written to both sides fails"
    )
    assert (kafka_python.severity, kafka_python.subject) == (WARNING, "kafka-python")
    assert kafka_python.text.startswith("k: an idempotent kafka-python producer")
    assert "OutOfOrderSequenceNumberError" in kafka_python.text
    assert (others.severity, others.subject) == (WARNING, "producers")
    assert others.text.startswith("s: an idempotent producer that has written to both sides")
    franz = [ConnectedClient("orders", "10.0.0.1", "kgo v1.22.0"), ConnectedClient("b", "10.0.0.1", "kgoing 1")]
    (_, warned) = check_clients(franz)
    assert (warned.severity, warned.subject) == (WARNING, "franz-go")
    assert warned.text.startswith("orders: a franz-go consumer that was started before kproxy had both upstreams")
    waiting = [ConnectedClient(name, "10.0.0.1", "x", ("waits for its positions",)) for name in ("x", "x", "y")]
    (_, one) = check_clients(waiting)
    assert (one.subject, one.text) == ("clients x, y", "waits for its positions")


def test_producer_ids_in_the_log() -> None:
    """Those below the floor are ids that the source hands out."""
    assert check_producer_ids({}, 100) is None
    assert check_producer_ids({("a", 0): {100, 7_000}}, 100) is None
    found = check_producer_ids({("b", 1): {99, 100, 3}, ("a", 2): {99}, ("a", 0): {100}}, 100)
    assert found is not None
    assert found.severity == ERROR
    assert found.text.startswith(
        "partition 2 of a on the target has records of producer 99, and 1 more partitions have"
    )
    assert "up to 99:" in found.text
