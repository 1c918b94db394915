"""`kproxy migrate plan`, `prepare` and `undo`: two real clusters that know rights, behind names that resolve nowhere.

What the commands say is compared with what other clients see: confluent-kafka and Kafka's own tools.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kproxy.dev.devcluster import DEFAULT_VERSION, INTERNAL, DevCluster
from kproxy.migrate.clusters import producerids, topic_identities
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.copier import Copier
from kproxy.migrate.copier.state import Job, Slice
from kproxy.migrate.format import describe_action
from kproxy.migrate.journal.driver import write_once
from kproxy.migrate.journal.switch_journal import SWITCH_KEY, SWITCHING, SwitchEntry
from kproxy.migrate.spec import document
from tests.harness import acls as rights
from tests.harness.clusters.steady import STEADY
from tests.harness.process import wait_until
from tests.harness.topics import unique

pytestmark = pytest.mark.integration

PASSWORD = "hidden-word"
ADMIN, MOVER = "admin", "mover"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{ADMIN}",
}


def guarded(brokers: int = 1, version: str = DEFAULT_VERSION) -> DevCluster:
    """Clients have to log in; the tests' own clients are on an open listener."""
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in (ADMIN, MOVER))
    login = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f"{PLAIN} {users};",
    }
    return DevCluster(
        brokers,
        version=version,
        client_protocol="SASL_PLAINTEXT",
        properties={**RIGHTS, **login, **STEADY, "auto.create.topics.enable": "false"},
        controller_properties=RIGHTS,
        heap="160m",
    )


@pytest.fixture(scope="module")
def old() -> Iterator[DevCluster]:
    with guarded() as made:
        yield made
        _admin.cache_clear()


@pytest.fixture(scope="module")
def new() -> Iterator[DevCluster]:
    with guarded(2) as made:
        yield made
        _admin.cache_clear()


Write = Callable[..., Path]


@pytest.fixture
def written(old: DevCluster, new: DevCluster, tmp_path: Path) -> Write:
    """Writes the file of a migration of these topics, under a name of its own. `by`: who it is on the target."""

    def write(topics: Mapping[str, Any], by: str = ADMIN, **more: Any) -> Path:
        password = tmp_path / "password"
        password.write_text(PASSWORD)
        login = {"sasl": "PLAIN", "sasl-password-file": str(password)}
        # Who may do nothing cannot ask a broker which one it is.
        known = [f"node:{node}={address}" for node, address in new.dial.items()]
        document = {
            "name": unique("move").lower(),
            "source": {"bootstrap-servers": old.bootstrap, **login, "sasl-username": by},
            "target": {"bootstrap-servers": new.bootstrap, "map": known, **login, "sasl-username": by},
            "topics": topics,
            **more,
        }
        file = tmp_path / "move.yaml"
        file.write_text(yaml.safe_dump(document))
        return file

    return write


def migrate(*words: str | Path, code: int = 0) -> str:
    """What the command prints, stderr behind it."""
    command = [sys.executable, "-m", "kproxy", "migrate", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    return done.stdout + done.stderr


def planned(file: Path, code: int = 0) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(migrate("plan", file, "--json", "--sample", "0", code=code))
    return made


def admin(cluster: DevCluster) -> AdminClient:
    """One for each cluster: what it has begun ends with it."""
    return _admin(cluster.direct_bootstrap)


@cache
def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(cluster: DevCluster, topic: str, partitions: int = 1, **config: str) -> None:
    new_topic = NewTopic(topic, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
    admin(cluster).create_topics([new_topic])[topic].result(30)
    wait_until(lambda: topic in admin(cluster).list_topics(timeout=30).topics, f"topic {topic}")


def produce(cluster: DevCluster, topic: str, count: int = 10) -> None:
    producer = Producer({"bootstrap.servers": cluster.direct_bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, str(number).encode(), key=str(number).encode())
    assert producer.flush(30) == 0


def config_of(cluster: DevCluster, topic: str) -> dict[str, tuple[str, bool]]:
    """Each configuration, and whether it was set for the topic."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin(cluster).describe_configs([resource])[resource].result(30)
    return {name: (entry.value, entry.source == 1) for name, entry in found.items()}


def acls(cluster: DevCluster) -> set[str]:
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return {
        f"{one.principal} {one.operation.name} {one.restype.name} {one.name} {one.resource_pattern_type.name}"
        for one in admin(cluster).describe_acls(everything).result(30)
    }


def allow(cluster: DevCluster, kind: ResourceType, name: str, operation: AclOperation, user: str = MOVER) -> None:
    rights.allow(cluster.direct_bootstrap, [rights.right(user, kind, name, operation)])


def as_seen(cluster: DevCluster) -> dict[str, Any]:
    """What prepare could change, but quotas and producer ids."""
    topics = admin(cluster).list_topics(timeout=30).topics
    named = [name for name in topics if not name.startswith("__")]
    return {
        "topics": {name: (len(topics[name].partitions), config_of(cluster, name)) for name in named},
        "acls": acls(cluster),
    }


def quotas(cluster: DevCluster) -> str:
    done = cluster.tool("kafka-configs", "--bootstrap-server", cluster.direct_bootstrap, "--describe", "--entity-type",
                        "users")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def producer_ids(cluster: DevCluster, topic: str) -> list[int]:
    """In the log, as Kafka's own tool shows them."""
    done = cluster.tool("kafka-transactions", "--bootstrap-server", cluster.direct_bootstrap, "describe-producers",
                        "--topic", topic, "--partition", "0")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [int(line.split()[0]) for line in done.stdout.splitlines()[1:]]


def test_prepared_as_planned_once_and_undone(old: DevCluster, new: DevCluster, written: Write) -> None:
    orders, accounts, stamped = (unique(name) for name in ("orders", "accounts", "stamped"))
    create(old, orders, 3, retention_ms="86400000", compression_type="gzip", segment_bytes="2097152")
    create(old, accounts, 2, cleanup_policy="compact", max_message_bytes="3000000")
    create(old, stamped, message_timestamp_type="LogAppendTime")
    produce(old, stamped)
    group, user = unique("group"), unique("user")
    allow(old, ResourceType.TOPIC, orders, AclOperation.READ, user)
    allow(old, ResourceType.GROUP, group, AclOperation.READ, user)
    allow(old, ResourceType.TOPIC, unique("other"), AclOperation.READ, user)
    allow(old, ResourceType.BROKER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE, unique("other"))
    for added in ("producer_byte_rate=1048576", "SCRAM-SHA-256=[password=secret]"):
        done = old.tool("kafka-configs", "--bootstrap-server", old.direct_bootstrap, "--alter", "--entity-type",
                        "users", "--entity-name", user, "--add-config", added)  # fmt: skip
        assert done.returncode == 0, done.stderr
    file = written({"include": [orders, accounts, stamped], "rename": {orders: f"eu.{orders}"}})
    before = as_seen(new)

    plan = planned(file)
    assert as_seen(new) == before
    assert [change["kind"] for change in plan["changes"]] == ["state", *["topic"] * 3, *["acl"] * 2, "quota"]
    (warning,) = (one for one in plan["findings"] if one["severity"] == "warning")
    assert (warning["subject"], warning["fault"], warning["place"]) == (f"user {user}", None, None)
    assert "Kafka does not return passwords" in warning["text"]
    dry = migrate("prepare", file, "--dry-run")
    assert as_seen(new) == before

    said = migrate("prepare", file)
    for change in plan["changes"]:
        assert f"would {change['text']}\n" in dry
        assert f"{describe_action(change['text'])}\n" in said
    topics = admin(new).list_topics(timeout=30).topics
    assert [len(topics[name].partitions) for name in (f"eu.{orders}", accounts, stamped)] == [3, 2, 1]
    held = config_of(new, f"eu.{orders}")
    assert held["retention.ms"] == ("-1", True)
    assert held["compression.type"] == ("producer", True)
    assert held["segment.bytes"] == ("2097152", True)
    assert held["message.timestamp.after.max.ms"] == ("9223372036854775807", True)
    assert config_of(new, accounts)["cleanup.policy"] == ("delete", True)
    assert config_of(new, accounts)["max.message.bytes"] == ("3000000", True)
    assert config_of(new, stamped)["message.timestamp.type"] == ("CreateTime", True)
    assert acls(new) - before["acls"] == {
        f"User:{user} READ TOPIC eu.{orders} LITERAL", f"User:{user} READ GROUP {group} LITERAL",
    }  # fmt: skip
    assert f"user-principal '{user}' are producer_byte_rate=1048576" in quotas(new)

    (floor,) = re.findall(r"the target assigns (\d+) and higher", said)
    once = as_seen(new)
    again = migrate("prepare", file)
    assert "Nothing to do: the target is prepared" in again
    assert not re.search("^(added|altered|created|raised|set) ", again, re.MULTILINE)
    assert as_seen(new) == once

    produce(new, stamped)
    assert min(producer_ids(new, stamped)) > int(floor) > max(producer_ids(old, stamped)) + 10_000
    # The records there are somebody else's.
    assert "10 offsets on the target that this migration has not written" in str(planned(file, code=1))

    kept = migrate("undo", file, code=1)
    assert f"stays: topic {stamped} has at least 10 records that kproxy did not copy: --force deletes it" in kept
    assert set(as_seen(new)["topics"]) - set(before["topics"]) == {
        stamped, f"kproxy-migration-{yaml.safe_load(file.read_text())['name']}",
    }  # fmt: skip
    migrate("undo", file, "--force")
    assert as_seen(new) == before
    assert user not in quotas(new)
    assert "nothing was prepared, or it was undone" in migrate("undo", file, code=2)


def test_a_topic_that_is_there_is_held_open_and_restored(old: DevCluster, new: DevCluster, written: Write) -> None:
    topic = unique("there")
    create(old, topic, 2, retention_ms="1000000", max_message_bytes="2000000")
    create(new, topic, 1, retention_ms="2000000", message_timestamp_type="LogAppendTime", cleanup_policy="compact")
    file = written({"include": [topic]})
    before = config_of(new, topic)
    lines = migrate("plan", file, "--sample", "0").splitlines()
    assert max(len(line) for line in lines if not re.match("(error|warning|note): ", line)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "has LogAppendTime on the target, which would replace timestamps" in text
    assert "is compacted on the target and not on the source" in text
    assert f"added partitions to topic {topic}: 1 to 2" in migrate("prepare", file)
    held = {key: value for key, (value, set_) in config_of(new, topic).items() if set_}
    assert held == {
        "cleanup.policy": "delete", "max.message.bytes": "2000000", "message.timestamp.type": "CreateTime",
        "message.timestamp.after.max.ms": "9223372036854775807", "retention.ms": "-1",
    }  # fmt: skip
    entry = ConfigEntry("retention.ms", "5000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin(new).incremental_alter_configs([resource])[resource].result(30)
    text = migrate("undo", file)
    assert f"stays: topic {topic}: retention.ms was changed since" in text
    assert "Kafka cannot remove partitions" in text
    assert config_of(new, topic) == {**before, "retention.ms": ("5000000", True)}
    assert len(admin(new).list_topics(topic, timeout=30).topics[topic].partitions) == 2


@pytest.mark.matrix
def test_copied_records_hinder_nobody_and_go_with_their_topic(old: DevCluster, new: DevCluster, written: Write) -> None:
    topic, there = unique("copied"), unique("there")
    for name in (topic, there):
        create(old, name)
        produce(old, name)
    create(new, there)
    file = written({"include": [topic, there]})
    before = as_seen(new)
    migrate("prepare", file)
    migration = document.read_migration(file)
    copy_ten(old, new, migration.name, topic, there)
    assert "Nothing to do: the target is prepared" in migrate("prepare", file)
    produce(new, topic, 1)
    text = migrate("undo", file, code=1)
    assert f"stays: topic {topic} has at least 1 record that kproxy did not copy: --force deletes it" in text
    assert f"stays: topic {there} existed before, and has records that kproxy copied: they stay" in text
    assert "the journal of the remaining changes" in text
    assert set(as_seen(new)["topics"]) >= {topic, there, migration.state_topic}
    text = migrate("undo", file, "--force")
    assert f"deleted topic {topic}\n" in text
    assert as_seen(new) == before


def test_only_the_copy_of_a_topic_is_undone(old: DevCluster, new: DevCluster, written: Write) -> None:
    """A topic that others write, one that was there before, one that is deleted already, and one that is kept."""
    topic, there, gone, other = (unique(name) for name in ("again", "there", "gone", "other"))
    for name in (topic, there, gone, other):
        create(old, name)
        produce(old, name)
    create(new, there)
    file = written({"include": [topic, there, gone, other]})
    before = as_seen(new)
    migrate("prepare", file)
    migration = document.read_migration(file)
    copy_ten(old, new, migration.name, topic, there, gone, other)
    produce(new, topic, 1)
    delete(new, gone)

    assert f"nearest: {topic}" in migrate("undo", file, "--topic", topic + "x", code=2)
    prepared = as_seen(new)
    text = migrate("undo", file, "--topic", topic, "--topic", there, code=1)
    assert f"stays: topic {topic} has at least 1 record that kproxy did not copy: --force deletes it" in text
    assert f"stays: topic {there} existed before kproxy prepared it: delete it, then repeat this command" in text
    assert "forgot" not in text
    assert as_seen(new) == prepared
    assert copied_records(new, migration.name) == dict.fromkeys((topic, there, gone, other), 10)

    moved = SwitchEntry("s", SWITCHING, "c", "blue", "green", ("k",), (("1", "released"),), ended=True, host="h1")
    for entry, why in (
        (moved, "clients are on green now, and use the topics there: run kproxy migrate rollback first"),
        (replace(moved, ended=False), "switch s was started on h1 and has not finished"),
    ):
        write_once(new.direct_bootstrap, migration.name, {SWITCH_KEY: entry.to_record()}, "test")
        assert why in migrate("undo", file, "--topic", topic, code=2)
        assert why in migrate("undo", file, code=2)
    write_once(new.direct_bootstrap, migration.name, {SWITCH_KEY: None}, "test")

    text = migrate("undo", file, "--topic", topic, "--topic", there, "--topic", gone, "--force", code=1)
    assert f"deleted topic {topic}\n" in text
    assert f"forgot the copy of {gone}: 10 records" in text
    assert f"stays: topic {there} existed before" in text
    assert copied_records(new, migration.name) == {there: 10, other: 10}
    text = migrate("prepare", file)
    assert f"created topic {topic}" in text
    assert f"created topic {gone}" in text
    assert other not in text
    copy_ten(old, new, migration.name, topic, gone)
    assert copied_records(new, migration.name) == dict.fromkeys((topic, there, gone, other), 10)
    migrate("undo", file, "--force")
    assert as_seen(new) == before


def copied_records(cluster: DevCluster, name: str) -> dict[str, int]:
    topics = topic_identities.read_migrated_topics(cluster.direct_bootstrap, name)
    return {topic: migrated.records for topic, migrated in topics.items()}


def copy_ten(old: DevCluster, new: DevCluster, name: str, *topics: str) -> None:
    """Copy ten records of each topic, without Spark."""
    with ClusterClient(old.direct_bootstrap) as source, ClusterClient(new.direct_bootstrap) as target:
        copier = Copier(source, target, Job(name, 16))
        for topic in topics:
            [outcome] = copier.copy([Slice(topic, 0, topic, begin=0, upto=10, size=1 << 20, seconds=60)])
            assert outcome.records == 10, outcome


@pytest.mark.matrix
def test_a_topic_deleted_after_its_copy_is_not_created_again(old: DevCluster, new: DevCluster, written: Write) -> None:
    """Before the first record is copied, `prepare` makes it again; later, only after its copy was undone."""
    topic, other = unique("lost"), unique("kept")
    for name in (topic, other):
        create(old, name)
        produce(old, name)
    file = written({"include": [topic, other]})
    migrate("prepare", file)
    migration = document.read_migration(file)
    first = topic_identities.read_migrated_topics(new.direct_bootstrap, migration.name)
    assert first.keys() == {topic, other}
    assert all(len(one.origin.split("/")[1]) == len(one.destination.split("/")[1]) == 32 for one in first.values())
    delete(new, topic)
    assert f"created topic {topic}" in migrate("prepare", file)
    second = topic_identities.read_migrated_topics(new.direct_bootstrap, migration.name)
    assert second[other] == first[other]
    assert second[topic].origin == first[topic].origin
    assert second[topic].destination not in ("", first[topic].destination)

    copy_ten(old, new, migration.name, topic)
    delete(new, topic)
    why = f"{topic}, to which 10 records were copied, no longer exists on the target: it was deleted; to copy it again"
    assert [line.partition(":")[0] for line in found(planned(file, code=1))] == [topic]
    said = migrate("prepare", file, code=1)
    assert f"error: {topic}: {why}" in said
    assert "Nothing was changed" in said
    assert why in migrate("status", file, code=1)
    create(new, topic)
    assert f"error: {topic}: {topic} on the target is not the topic to which 10 records" in migrate(
        "prepare", file, code=1
    )
    migrate("undo", file, "--force")


def found(plan: dict[str, Any], severity: str = "error") -> list[str]:
    """Return the findings of a plan in JSON."""
    return [f"{one['subject']}: {one['text']}" for one in plan["findings"] if one["severity"] == severity]


def delete(cluster: DevCluster, topic: str) -> None:
    admin(cluster).delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in admin(cluster).list_topics(timeout=30).topics, f"{topic} is gone")


def test_missing_rights_are_named_before_anything_is_written(old: DevCluster, new: DevCluster, written: Write) -> None:
    topic, there = unique("rights"), unique("rights")
    for name in (topic, there):
        create(old, name)
    create(new, there)
    allow(old, ResourceType.TOPIC, there, AclOperation.DESCRIBE)
    allow(old, ResourceType.TOPIC, topic, AclOperation.READ)
    allow(old, ResourceType.TOPIC, topic, AclOperation.DESCRIBE_CONFIGS)
    allow(new, ResourceType.TOPIC, there, AclOperation.DESCRIBE)
    file = written({"include": [topic, there]}, by=MOVER)
    before = as_seen(new)
    plan = planned(file, code=1)
    errors = set(found(plan))
    name = yaml.safe_load(file.read_text())["name"]
    assert errors == {
        f"right on the source: User:mover is not allowed Read on topic {there}",
        f"right on the target: User:mover is not allowed Write on topic {there}",
        f"right on the target: User:mover is not allowed DescribeConfigs on topic {there}, needed to hold its"
        " retention open",
        f"right on the target: User:mover is not allowed Create on topic {topic}, needed to create it",
        f"right on the target: User:mover is not allowed Create on topic kproxy-migration-{name}, needed to create it",
        f"right on the target: User:mover is not allowed Write on TransactionalId kproxy-migration-{name}, needed to"
        " copy in transactions",
        "right on the target: User:mover is not allowed IdempotentWrite on the cluster, needed to raise producer ids",
    }
    warnings = str(found(plan, "warning"))
    for missing in ("Describe on the cluster, needed to read the ACLs", "needed to read the SCRAM users",
                    "DescribeConfigs on the cluster, needed to read the quotas"):  # fmt: skip
        assert missing in warnings
    assert "Nothing was changed" in migrate("prepare", file, code=1)
    assert as_seen(new) == before


def test_what_the_target_would_refuse_stops_it(old: DevCluster, new: DevCluster, written: Write) -> None:
    topic = unique("refused")
    create(old, topic)
    file = written({"include": [topic], "replication": 3, "configs": {"retention.ms": "soon"}})
    errors = str(found(planned(file, code=1)))
    assert "would have 3 replicas, and the target has 2 brokers; allowed: topics.replication: 2" in errors
    assert "the target would refuse to create it: " in errors
    file = written({"include": [topic], "configs": {"no.such.config": "1"}})
    assert "no.such.config" in str(found(planned(file, code=1)))


def test_producer_ids_are_raised_on_every_broker(new: DevCluster, figures: list[str]) -> None:
    nodes = {node: str(address) for node, address in new.listener(INTERNAL).items()}
    before = producerids.take_one_id_each(nodes)
    floor = max(before.values()) + 3500  # blocks of both brokers are used up
    raised = producerids.raise_to(nodes, floor, before)
    assert min(producerids.take_one_id_each(nodes).values()) >= floor
    assert raised.ids_used < 3500 + 2 * 1000 + 2 * 400
    assert producerids.raise_to(nodes, floor, raised.lowest).ids_used == 0
    figures.append(f"producer ids: {raised.ids_used / raised.seconds:,.0f} a second, from two brokers")


def test_bad_files_and_clusters(old: DevCluster, written: Write) -> None:
    file = written({"include": ["a b"]})
    assert re.search(r"^kproxy: .*move.yaml:\d+: topics.include: 'a b' is not a topic", migrate("plan", file, code=2))
    document = yaml.safe_load(written({}).read_text())
    document["target"] = document["source"]
    file.write_text(yaml.safe_dump(document))
    assert "source and target are the same cluster" in migrate("prepare", file, code=2)
    assert "does not exist" in migrate("undo", file.with_name("none.yaml"), code=2)


def test_the_same_commands_as_a_module(written: Write) -> None:
    command = [sys.executable, "-m", "kproxy.migrate", "plan", str(written({"include": ["a b"]}))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "is not a topic or a glob" in done.stderr


@pytest.mark.matrix
def test_an_older_source(new: DevCluster, written: Write) -> None:
    topic = unique("older")
    with guarded(version="3.9.2") as older:
        create(older, topic, 2, message_timestamp_difference_max_ms="1000000")
        produce(older, topic)
        document = yaml.safe_load(written({"include": [topic]}).read_text())
        document["source"]["bootstrap-servers"] = older.bootstrap
        file = written({})
        file.write_text(yaml.safe_dump(document))
        plan = planned(file)
        assert plan["source"]["version"] == "3.9"
        assert plan["target"]["version"] == DEFAULT_VERSION.rpartition(".")[0]
        assert "message.timestamp.before.max.ms=unlimited (then 1000000)" in str(plan["changes"])
        migrate("prepare", file)
        assert "nothing to do" in migrate("prepare", file)
        migrate("undo", file)
