"""A migration as a user does it: one file, the commands of docs/migration.md, and two clusters whose brokers' names
resolve nowhere. One of them wants a login."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.spark import PASSWORD, PLAIN, needs_spark, spark_home
from tests.harness.clusters.steady import RESTARTED, STEADY
from tests.harness.migration.migrating import Commands
from tests.harness.migration.moving import rows, topics, until
from tests.harness.topics import commit_as, unique

pytestmark = [pytest.mark.integration, needs_spark, pytest.mark.timeout(600)]

_LOGIN = {
    "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": f'{PLAIN} user_spark="{PASSWORD}";',
}
_RECORDS = 3000


@dataclass(frozen=True)
class Move:
    source: DevCluster
    target: DevCluster
    directory: Path
    commands: Commands

    def run(self, *words: str, code: int = 0) -> str:
        """A command of `kproxy migrate`; what it prints."""
        return self.commands.run(*words, code=code)


@pytest.fixture
def move(tmp_path: Path) -> Iterator[Move]:
    """The source has a topic with records, and one that is left out."""
    directory = tmp_path / "move"
    directory.mkdir()
    file = directory / "move.yaml"
    with (
        DevCluster(1, properties=STEADY) as source,
        DevCluster(1, properties=STEADY | RESTARTED | _LOGIN, client_protocol="SASL_PLAINTEXT") as target,
    ):
        secret = directory / "secret"
        secret.write_text(PASSWORD)
        os.chmod(secret, 0o600)
        login = {"sasl": "PLAIN", "sasl-username": "spark", "sasl-password-file": str(secret)}
        file.write_text(
            yaml.safe_dump(
                {
                    "name": "eu-move",
                    "source": {"bootstrap-servers": source.bootstrap},
                    "target": {"bootstrap-servers": target.bootstrap, **login},
                    "topics": {"exclude": ["*-tmp"], "rename": {"orders": "eu.orders"}},
                }
            )
        )
        made = Move(source, target, directory, Commands(file, spark_home(directory), PASSWORD))
        topics(source.direct_bootstrap, {"orders": 2, "left-tmp": 1}, 1, **{"retention.ms": "864000000"})
        fill(made, _RECORDS)
        yield made


def fill(move: Move, count: int) -> None:
    producer = Producer({"bootstrap.servers": move.source.direct_bootstrap, "linger.ms": 20})
    chance = random.Random(count)
    for at in range(count):
        producer.produce("orders", chance.randbytes(chance.randrange(500)), b"%d" % (at % 50), at % 2)
    assert producer.flush(60) == 0


def test_the_whole_way(move: Move) -> None:
    group = unique("billing")
    commit(move, group, 700)

    assert "run kproxy migrate prepare first" in refused(move, "status")
    planned = move.run("plan")
    assert "eu.orders" in planned
    wrapped = [line for line in planned.splitlines() if not line.startswith(("error: ", "warning: ", "note: "))]
    assert max(map(len, wrapped)) <= 80
    assert "created topic eu.orders" in move.run("prepare")
    assert "not copied yet" in move.run("status")

    assert "100.0%" in move.run("copy")
    verified = json.loads(move.run("verify", "--json", "--report", "report.html"))
    assert verified
    assert "<svg" in (move.directory / "report.html").read_text()
    move.run("offsets")

    said = json.loads(move.run("status", "--json"))
    assert [one["records"] for one in said["partitions"]] == [_RECORDS // 2, _RECORDS // 2]
    assert [one["verified_upto"] for one in said["partitions"]] == [_RECORDS // 2, _RECORDS // 2]
    assert said["groups"] == [group]

    for partition in range(2):
        source = [row[1:] for row in rows(move.source.direct_bootstrap, "orders", partition)]
        target = [row[1:] for row in rows(move.target.direct_bootstrap, "eu.orders", partition)]
        assert source == target
    assert next_record(move.target.direct_bootstrap, "eu.orders", group) == next_record(
        move.source.direct_bootstrap, "orders", group
    )
    assert "left-tmp" not in AdminClient({"bootstrap.servers": move.target.direct_bootstrap}).list_topics().topics


@pytest.mark.matrix
def test_it_goes_on_and_is_taken_back(move: Move) -> None:
    move.run("prepare")
    assert "100.0%" in move.run("copy")
    fill(move, 500)
    until(lambda: "100.0%" in move.run("copy"), "copied")
    move.run("verify")
    said = move.run("status")
    assert "orders -> eu.orders: 2 partitions, 3,500 records" in said
    assert "verified up to all that is copied" in said
    move.run("undo", "--force")
    admin = AdminClient({"bootstrap.servers": move.target.direct_bootstrap})
    until(lambda: "eu.orders" not in admin.list_topics().topics, "the topic is gone")


def test_a_topic_whose_copy_lost_records_is_copied_again(move: Move) -> None:
    """The target's broker loses its disk's directory of one partition. The other topic stays as it is."""
    source, target = move.source.direct_bootstrap, move.target.direct_bootstrap
    topics(source, {"payments": 1}, 1)
    producer = Producer({"bootstrap.servers": source})
    for number in range(100):
        producer.produce("payments", b"%d" % number)
    assert producer.flush(60) == 0
    group = unique("billing")
    commit(move, group, 700)
    for command in ("prepare", "copy", "verify", "offsets"):
        move.run(command)
    before, kept = topic_ids(target), rows(target, "payments", 0)

    move.target.kill(move.target.node_ids[0])
    [lost] = move.target.directory.rglob("eu.orders-0")
    shutil.rmtree(lost)
    move.target.restart(move.target.node_ids[0])
    advice = "kproxy migrate undo FILE --topic orders, then prepare and copy"
    assert advice in " ".join(move.run("verify", "--full", code=1).split())
    assert advice in " ".join(move.run("status", code=1).split())
    fill(move, 500)
    assert advice in " ".join(move.commands.said("copy", code=1)[1].split())

    would = move.run("undo", "--topic", "orders", "--dry-run")
    assert "would delete topic eu.orders\nwould forget the copy of orders: " in would
    assert topic_ids(target) == before
    assert "deleted topic eu.orders\nforgot the copy of orders: " in move.run("undo", "--topic", "orders")
    prepared = move.run("prepare")
    assert "created topic eu.orders" in prepared
    assert "payments" not in prepared
    move.run("copy")
    move.run("verify", "--full")
    move.run("offsets")
    for partition in range(2):
        assert [row[1:] for row in rows(target, "eu.orders", partition)] == [
            row[1:] for row in rows(source, "orders", partition)
        ]
    assert next_record(target, "eu.orders", group) == next_record(source, "orders", group)
    after = topic_ids(target)
    assert after["eu.orders"] != before["eu.orders"]
    assert (after["payments"], rows(target, "payments", 0)) == (before["payments"], kept)


def topic_ids(bootstrap: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [name for name in admin.list_topics(timeout=30).topics if not name.startswith("_")]
    described = admin.describe_topics(TopicCollection(names))
    return {name: str(answer.result(30).topic_id) for name, answer in described.items()}


def refused(move: Move, command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "migrate", command, str(move.commands.file)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    return done.stderr


def commit(move: Move, group: str, offset: int) -> None:
    commit_as(move.source.direct_bootstrap, group, [TopicPartition("orders", at, offset + at) for at in range(2)])


def next_record(bootstrap: str, topic: str, group: str) -> dict[int, bytes]:
    """By partition, where the group goes on."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "error", "enable.auto.commit": False}
    )
    found: dict[int, bytes] = {}
    consumer.subscribe([topic])
    ends = time.monotonic() + 60
    while len(found) < 2 and time.monotonic() < ends:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None, message.error()
            found.setdefault(message.partition(), message.value())
    consumer.close()
    return found
