"""Records of every kind that a cluster of Kafka 3.9 can have, written by clients of all ages in all formats.

The broker keeps magic 0 and 1 because it has ZooKeeper and `inter.broker.protocol.version=2.8`, with which it still
obeys `message.format.version`. In KRaft mode, and from 3.0 on, every batch becomes one of magic 2.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.harness.clients.batches import fetched
from tests.harness.clients.truth import program
from tests.harness.clusters.zookeeper import ZooKeeperCluster, with_zookeeper
from tests.harness.migration.moving import rows, topics
from tests.harness.migration.spoiling import STRAY, Record, made, spoils
from tests.harness.process import wait_until
from tests.harness.topics import delete_topics, note_failures, unique

SOURCE = "3.9.2"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Zstandard came with magic 2.
OLD_CODECS = CODECS[:-1]
OLD = {"old-0": "0.9.0", "old-1": "0.10.0"}
LARGEST = 1 << 20
_KEYS = 500
# Where there is a partition's record that is spoiled later, as a share of them.
_SPOILT_AT = 0.85


@dataclass(frozen=True)
class Scale:
    """The size of each part of the load.

    `partitions`: of topics that do not have one kind for each partition. `clients`: versions of Kafka's own client,
    each with a partition; `old`: that of the client whose records are kept in old formats. The other numbers are
    records: of each partition, and for `keyed`, `ones` and `transactions` (each of about 50) of all.
    """

    brokers: int
    partitions: int
    clients: Sequence[str]
    old: str
    plain: int
    each: int
    codecs: int
    large: int
    keyed: int
    ones: int
    transactions: int
    compacted: int
    spoilt: int

    @property
    def spoilt_at(self) -> int:
        return int(self.spoilt * _SPOILT_AT)


FULL = Scale(
    brokers=3, partitions=6, clients=("0.10.2.2", "0.11.0.3", "1.1.1", "2.1.1", "2.8.2", "3.9.2", "4.3.1"),
    old="0.10.2.2", plain=150_000, each=40_000, codecs=60_000, large=500, keyed=200_000, ones=10_000, transactions=1000,
    compacted=50_000, spoilt=20_000,
)  # fmt: skip
SMALL = Scale(
    brokers=1, partitions=2, clients=("3.9.2", "4.3.1"), old="3.9.2", plain=2000, each=1000, codecs=1000, large=8,
    keyed=2000, ones=200, transactions=20, compacted=1000, spoilt=200,
)  # fmt: skip


@contextmanager
def source(scale: Scale) -> Iterator[ZooKeeperCluster]:
    """Start the cluster for the load."""
    properties = {
        "inter.broker.protocol.version": "2.8", "log.cleaner.backoff.ms": "200", "message.max.bytes": "4000000",
        "replica.fetch.max.bytes": "4000000", "group.initial.rebalance.delay.ms": "0", "num.partitions": "1",
        "auto.create.topics.enable": "false", "log.segment.delete.delay.ms": "1000",
    }  # fmt: skip
    with with_zookeeper(SOURCE, range(1, scale.brokers + 1), properties, heap="512m") as cluster:
        yield cluster


class Load:
    """The whole load on one cluster. `partitions`: of each topic. `sent`: records that no transaction has aborted."""

    def __init__(self, bootstrap: str, scale: Scale, seed: int) -> None:
        self.bootstrap, self.scale, self._seed = bootstrap, scale, seed
        self.sent = 0
        self.spoils = spoils(scale.spoilt_at)
        spoilt = len(self.spoils) + 3  # one loses a record to the next, and one is right
        self.partitions = {
            **dict.fromkeys(("plain", "keyed", "transactional"), scale.partitions), "clients": len(scale.clients),
            "codecs": len(CODECS), "large": len(CODECS), "ones": 2, "stamped": 1, "begun": 1, "empty": 2,
            "compacted": 2, "gaps": 1, "old-0": len(OLD_CODECS), "old-1": len(OLD_CODECS), "spoilt": spoilt,
        }  # fmt: skip

    def write(self) -> None:
        """Create the topics and fill them."""
        self._create()
        jobs: Sequence[Callable[[], None]] = (
            self._java, self._keyed, self._ones, self._transactional, self._begun, self._spoilt, self._compacted,
        )  # fmt: skip
        for job in jobs:
            job()

    def magics(self, topic: str) -> set[int]:
        """Return the formats of the batches in the topic's first partition."""
        known = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(topic, timeout=60)
        broker = known.brokers[known.topics[topic].partitions[0].leader]
        return {batch.magic for batch in fetched((broker.host, broker.port), topic)}

    def _create(self) -> None:
        kept = {"retention.ms": "-1", "max.message.bytes": str(3 * LARGEST)}
        cleaned = {
            "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0001", "segment.ms": "100",
            "delete.retention.ms": "86400000",
        }  # fmt: skip
        special: Mapping[str, Mapping[str, str]] = {
            **{topic: {"message.format.version": version} for topic, version in OLD.items()},
            "stamped": {"message.timestamp.type": "LogAppendTime"},
            "compacted": cleaned,
            "gaps": cleaned,
        }
        replicas = self.scale.brokers
        usual = {topic: count for topic, count in self.partitions.items() if topic not in special}
        topics(self.bootstrap, usual, replicas, **kept)
        for topic, config in special.items():
            topics(self.bootstrap, {topic: self.partitions[topic]}, replicas, **kept, **config)

    # Kafka's own clients

    def _java(self) -> None:
        scale = self.scale
        newest = scale.clients[-1]
        lines: dict[str, list[str]] = {version: [] for version in (*scale.clients, scale.old)}
        for at in range(self.partitions["plain"]):
            lines[newest].append(self._line("plain", at, scale.plain, 1000, "none", "linger.ms=50 batch.size=200000"))
        for at, version in enumerate(scale.clients):
            codec = (CODECS if at > 2 else OLD_CODECS)[at % 4]
            lines[version].append(self._line("clients", at, scale.each, 1000, codec))
        for at, codec in enumerate(CODECS):
            lines[newest].append(self._line("codecs", at, scale.codecs, 2000, codec, "batch.size=60000"))
            large = f"max.request.size={3 * LARGEST} batch.size=200000"
            lines[newest].append(self._line("large", at, scale.large, LARGEST, codec, large))
        lines[newest].append(self._line("stamped", 0, scale.each, 500, "lz4"))
        plain = "enable.idempotence=false"  # sequence numbers came with magic 2
        for topic in OLD:
            for at, codec in enumerate(OLD_CODECS):
                lines[scale.old].append(self._line(topic, at, scale.each, 600, codec, plain, headers="none"))
        for version, told in lines.items():
            self._told(version, told)

    def _line(
        self, topic: str, partition: int, count: int, largest: int, codec: str, more: str = "", headers: str = "headers"
    ) -> str:
        self.sent += count
        seed = self._seed * 1000 + len(topic) * 100 + partition
        return f"{topic} {partition} {count} {largest} {seed} {headers} compression.type={codec} {more}".strip()

    def _told(self, version: str, lines: Sequence[str]) -> None:
        done = subprocess.run(
            [*program(version, "Writer"), self.bootstrap], input="\n".join(lines), capture_output=True, text=True,
            timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, f"kafka-clients {version}: {done.stderr[-3000:]}"
        assert done.stdout.count("sent ") == len(lines), done.stdout

    # librdkafka

    def _keyed(self) -> None:
        chance = random.Random(self._seed + 1)
        pool = chance.randbytes(4000)
        headers = ([], [("a", b"1"), ("b", None), ("a", b"")], [("ключ", "знач".encode())], [("x", pool[:50])])
        with self._sending(**{"compression.type": "lz4", "linger.ms": 20, "partitioner": "murmur2_random"}) as send:
            now = time.time_ns() // 1_000_000
            for at in range(self.scale.keyed):
                value = None if at % 37 == 0 else pool[at % 3000 : at % 3000 + at % 400]
                send(
                    "keyed",
                    value,
                    b"key-%d" % chance.randrange(_KEYS),
                    headers=headers[at % 4],
                    timestamp=now - at % 900,
                )

    def _ones(self) -> None:
        """Write a batch for each record."""
        with self._sending(**{"batch.num.messages": 1, "linger.ms": 0, "enable.idempotence": False}) as send:
            for at in range(self.scale.ones):
                send("ones", b"%d" % at, b"k", at % self.partitions["ones"])

    def _transactional(self) -> None:
        """Write with two producers whose transactions are open at the same time; some are aborted."""
        chance = random.Random(self._seed + 2)
        producers = []
        for _ in range(2):
            one = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": unique("app"), "linger.ms": 1})
            one.init_transactions(60)
            producers.append(one)
        for _ in range(self.scale.transactions // 2):
            for one in producers:
                one.begin_transaction()
            counts = [0, 0]
            for at in range(chance.randrange(1, 200)):
                which = chance.randrange(2)
                producers[which].produce("transactional", b"%d" % at, b"t", chance.randrange(self.scale.partitions))
                counts[which] += 1
            for one, count in zip(producers, counts, strict=True):
                one.flush(60)
                if chance.random() < 0.3:
                    one.abort_transaction(60)
                else:
                    one.commit_transaction(60)
                    self.sent += count

    def _begun(self) -> None:
        """Write a partition whose log does not begin at 0."""
        with self._sending() as send:
            for at in range(200):
                send("begun", b"%d" % at, None, 0)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for deleted in admin.delete_records([TopicPartition("begun", 0, 77)]).values():
            deleted.result(60)
        self.sent -= 77

    def _spoilt(self) -> None:
        """Write a partition for each kind of damage, with the record to damage at a known place."""
        at, records = self.scale.spoilt_at, self.scale.spoilt
        ways = [way.record for way in self.spoils.values()]
        with self._sending(**{"linger.ms": 20}) as send:
            for partition in range(self.partitions["spoilt"]):
                for number, one in enumerate(made(records, partition)):
                    said = one
                    if number == at and partition <= len(ways):
                        said = ways[partition] if partition < len(ways) else STRAY
                    send(
                        "spoilt", said.value, said.key, partition, headers=list(said.headers), timestamp=said.timestamp
                    )

    def _compacted(self) -> None:
        """Write compacted topics with tombstones, and wait for the log cleaner, which then stops.

        One of the topics is no longer compacted afterwards: only its gaps remain.
        """
        chance = random.Random(self._seed + 3)
        before = self.sent
        for topic, partition in (("compacted", 0), ("compacted", 1), ("gaps", 0)):
            with self._sending(**{"batch.num.messages": 50}) as send:
                for at in range(self.scale.compacted):
                    value = None if at % 7 == 0 else b"v%d" % at
                    send(topic, value, b"k%d" % chance.randrange(_KEYS), partition)
            wait_until(lambda: self._cleaned(topic, partition), f"{topic}/{partition} is compacted")  # noqa: B023
        for topic in ("compacted", "gaps"):
            configured(self.bootstrap, topic, **{"min.cleanable.dirty.ratio": "1.0", "segment.ms": "604800000"})
        configured(self.bootstrap, "gaps", **{"cleanup.policy": "delete"})
        with self._sending() as send:
            for at in range(100):
                send("gaps", b"after-%d" % at, None, 0)
        self.sent = before + 100  # and what compaction has left

    def _cleaned(self, topic: str, partition: int) -> bool:
        with self._sending() as send:
            send(topic, b"roll", b"roll", partition)  # a record that comes later begins a new segment
        return len(rows(self.bootstrap, topic, partition)) < self.scale.compacted * 3 // 4

    @contextmanager
    def _sending(self, **more: Any) -> Iterator[Callable[..., None]]:
        """Yield a producer, and fail if a record is not acknowledged."""
        failed: list[Any] = []
        delivered = note_failures(failed)
        config = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, **more}
        producer = Producer(config)

        def send(topic: str, value: bytes | None, key: bytes | None, partition: int = -1, **what: Any) -> None:
            while True:
                try:
                    producer.produce(topic, value, key, partition, on_delivery=delivered, **what)
                    break
                except BufferError:
                    producer.poll(0.1)
            self.sent += 1

        yield send
        assert producer.flush(180) == 0
        assert not failed, failed[:3]


def configured(bootstrap: str, topic: str, **config: str) -> None:
    """Set configurations of a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name, value in config.items():
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(30)


def rewritten(bootstrap: str, topic: str, partitions: Sequence[Sequence[Sequence[Record]]], replicas: int) -> None:
    """Create a topic again with these records: the transactions of each partition, each of which leaves a marker."""
    delete_topics(bootstrap, topic)
    topics(bootstrap, {topic: len(partitions)}, replicas, **{"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("spoiler"), "linger.ms": 5})
    producer.init_transactions(60)
    for partition, transactions in enumerate(partitions):
        for records in transactions:
            producer.begin_transaction()
            for one in records:
                producer.produce(
                    topic, one.value, one.key, partition, headers=list(one.headers), timestamp=one.timestamp
                )
            producer.commit_transaction(120)
