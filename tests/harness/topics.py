"""Helpers for tests with real clients: unique names, topics, and the local addresses that clients must receive."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs forget NewTopic

from tests.harness.clients.kafka_python import KafkaAdminClient
from tests.harness.process import PATIENCE_S, Kproxy, wait_until

# kcat comes neither from PyPI nor from Maven: where it cannot be installed, a machine does without its tests.
needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed: apt-get install kcat")


def unique(prefix: str) -> str:
    """Return a name that no other test and no other run has."""
    return f"{prefix}-{uuid4().hex[:12]}"


def local_addresses(kproxy: Kproxy) -> dict[int, str]:
    """Return by node id the local address that every client must receive."""
    return {node["id"]: node["local"] for node in kproxy.status()["nodes"] if node["kind"] == "broker"}


def create_topic(bootstrap: str, partitions: int = 3, replicas: int = 3, **config: str) -> str:
    """Create a topic with a unique name, wait until each partition has a leader, and return the name.

    `config` is the topic's, with `_` for `.`. It waits for a broker that is away for a moment, because the machine is
    busy: the broker would lead no partition.
    """
    name = unique("topic")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wait_until(lambda: len(admin.list_topics(timeout=PATIENCE_S).brokers) >= replicas, f"{replicas} brokers are there")
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=settings)
    admin.create_topics([topic])[name].result(PATIENCE_S)
    wait_until(lambda: len(leaders(bootstrap, name, admin)) == partitions, f"all partitions of {name} have a leader")
    return name


def delete_topics(bootstrap: str, *names: str) -> None:
    """Delete topics, and wait until no broker knows them or keeps a replica of them.

    A broker's metadata forgets a topic before its replicas go. If a test then creates a topic with the same name, the
    replica of the old topic may acknowledge a record, which is lost with it.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_topics([*names]).values():
        deleted.result(PATIENCE_S)
    wait_until(lambda: not {*names} & admin.list_topics(timeout=PATIENCE_S).topics.keys(), f"{names} are gone")
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        wait_until(lambda: not {*names} & _replicated_topics(client), f"the replicas of {names} are gone")


def _replicated_topics(client: KafkaAdminClient) -> set[str]:
    """Return the names of the topics that have a replica on any broker."""
    return {
        topic["name"]
        for broker in client.describe_log_dirs()
        for directory in broker["log_dirs"]
        for topic in directory["topics"]
    }


def leaders(bootstrap: str, topic: str, admin: AdminClient | None = None) -> dict[int, int]:
    """Return node ids of leaders by partition. Waits until a broker knows the topic."""
    admin = admin or AdminClient({"bootstrap.servers": bootstrap})
    # Of a new topic, each broker hears by itself.
    partitions = wait_until(
        lambda: admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions, f"a broker knows {topic}"
    )
    return {number: one.leader for number, one in partitions.items() if one.leader >= 0}


def produce(bootstrap: str, topic: str, records: Iterable[bytes], partition: int = -1) -> None:
    """Send records with these values, to one partition or to any; fail if one is not acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap})
    failed: list[KafkaError] = []
    for value in records:
        producer.produce(topic, value, partition=partition, on_delivery=note_failures(failed))
    assert producer.flush(PATIENCE_S) == 0
    assert not failed, failed[:3]


def note_failures(failed: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    """Return a delivery callback that collects the errors."""

    def report(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    return report


@contextmanager
def consumer(bootstrap: str, **config: object) -> Iterator[Consumer]:
    """Return a confluent-kafka consumer that starts at the beginning and commits only on request.

    `config` has librdkafka's settings, with `_` for `.`.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": unique("group"),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **{key.replace("_", "."): value for key, value in config.items()},
    }
    made = Consumer(settings)
    try:
        yield made
    finally:
        made.close()


def read(reader: Consumer, count: int, seconds: float = PATIENCE_S) -> list[Message]:
    """Return the next `count` records of a subscribed or assigned consumer; fail if they do not come."""
    got: list[Message] = []

    def complete() -> bool:
        for message in reader.consume(min(10_000, count - len(got)), timeout=0.2):
            error = message.error()
            if error is None:
                got.append(message)
            else:
                assert error.retriable() or error.code() == KafkaError._PARTITION_EOF, error
        return len(got) >= count

    wait_until(complete, f"{count} records", seconds)
    return got


def read_topic(bootstrap: str, topic: str, partitions: int = 3, **config: object) -> list[Message]:
    """Return all current records of a topic, as a consumer without a group reads them."""
    with consumer(bootstrap, enable_partition_eof=True, **config) as reader:
        reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        got: list[Message] = []
        ended: set[int | None] = set()

        def complete() -> bool:
            for message in reader.consume(10_000, timeout=0.2):
                error = message.error()
                if error is None:
                    got.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    assert error.retriable(), error
            return len(ended) == partitions

        wait_until(complete, f"the end of all partitions of {topic}", PATIENCE_S)
        return got


# What a broker says while the coordinator of a group begins, or moves.
_COORDINATOR_LATER = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
}  # fmt: skip


def commit_as(bootstrap: str, group: str, positions: Sequence[TopicPartition]) -> None:
    """Commit for a group without members, with retries.

    librdkafka does not retry by itself on a new cluster. Neither does its AdminClient, which does not even raise the
    error in a partition's answer.
    """
    with consumer(bootstrap, group_id=group) as reader:

        def done() -> bool:
            try:
                done = reader.commit(offsets=list(positions), asynchronous=False)
                errors = [one.error for one in done if one.error is not None]
            except KafkaException as error:
                errors = [error.args[0]]
            assert {error.code() for error in errors} <= _COORDINATOR_LATER, errors
            return not errors

        wait_until(done, f"a position of {group} is committed")


def values(messages: Sequence[Message]) -> list[bytes]:
    """Return the records' values, sorted."""
    return sorted(value for message in messages if (value := message.value()) is not None)
