"""What clients will see of a switch: those that cannot be switched as they are, by what is known of them (pure)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kproxy.migrate.clusters.inventory import GroupInventory, Inventory
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, MigrationFinding
from kproxy.migrate.spec.migration import INTERNAL_TOPICS, Migration
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.transactions import OpenTransaction
from kproxy.proxy.switching.caps import is_franz_go, is_kafka_python, is_librdkafka
from kproxy.proxy.switching.producers import ProducerKind

_MAX_NAMES = 3
# What Spark's Kafka source calls its groups, and from them Java its clients.
_SPARK = "spark-kafka-source-"
# The versions of librdkafka that take a leader without an epoch, which kproxy then shows them.
_ACCEPTS_NO_EPOCH = re.compile(r"rdkafka[- ]v?(?:2\.(?:[89]|\d\d)|[3-9]|\d\d)(?:\.|$)")
_CHANGELOG = "-changelog"
_CONNECT = "connect"
_LIBRDKAFKA, _KAFKA_PYTHON, _OTHERS = "librdkafka", "kafka-python", "producers"
# What an idempotent producer sees that is led back to where it has written before, and meets its own former sequence
# numbers; by library. Java's and franz-go's take a new epoch or id, and go on.
_SEQUENCE_CONFLICTS = {
    _LIBRDKAFKA: "an idempotent producer of librdkafka that has written to both sides ends with a fatal error where it"
    " is led back, since it meets its own former sequence numbers: start it again then. No record that it was told is"
    " written is lost",
    _KAFKA_PYTHON: "an idempotent producer of kafka-python that has written to both sides fails what it sends first"
    " where it is led back, with OutOfOrderSequenceNumberError, and goes on: these records are not written, so the"
    " application must send them again. No record that it was told is written is lost",
    _OTHERS: "an idempotent producer that has written to both sides meets its own former sequence numbers where it is"
    " led back; with this library nobody has tried what it does then: look after it, and start it again if it does not"
    " go on",
}
_RECOVERS_ITSELF = re.compile(r"(apache-kafka-java|kgo)\b")


def check_topics_and_groups(
    migration: Migration, source: Inventory, there: Collection[str]
) -> Iterator[MigrationFinding]:
    """What the file leaves out or renames. `there`: all topics of the source."""
    renamed = [
        topic for topic in sorted(there) if migration.selects_topic(topic) and migration.target_name(topic) != topic
    ]
    if renamed:
        yield MigrationFinding(
            STOP,
            "topics",
            f"{_abbreviate(renamed)} would have other names on the target, and clients ask for the old ones:"
            " migrate them without rename, or move their clients by hand",
        )
    left = [
        topic
        for topic in sorted(there)
        if not migration.selects_topic(topic)
        and topic not in INTERNAL_TOPICS
        and not topic.startswith("kproxy-migration-")
    ]
    if left:
        yield MigrationFinding(
            WARNING,
            "topics",
            f"{_abbreviate(left)} not migrated: their clients find nothing of them on the target",
        )
    for group in sorted(source.groups.values(), key=lambda one: one.name):
        if not migration.selects_group(group.name):
            yield MigrationFinding(
                WARNING, f"group {group.name}", "is left out by the file: it begins by auto.offset.reset"
            )
        elif (text := _group_effect(group, there)) is not None:
            yield MigrationFinding(WARNING, f"group {group.name}", text)


def _group_effect(group: GroupInventory, there: Collection[str]) -> str | None:
    """What its members will see that is not what they see at any rebalance."""
    if group.kind == "share":
        return (
            "is a share group: only its start offsets are kept, so what was acknowledged beyond them, or is in flight,"
            " is delivered again"
        )
    if group.kind == "streams" or any(
        topic.startswith(f"{group.name}-") and topic.endswith(_CHANGELOG) for topic in there
    ):
        return (
            "is a Kafka Streams application: instances that run take up their tasks again by themselves; of one that"
            " does not run during the switch, delete the state.dir before it starts: it has offsets of the old"
            " changelogs"
        )
    if group.protocol == _CONNECT:
        return (
            "are the workers of Kafka Connect: they read their three topics again; tasks that write in transactions"
            " begin them again"
        )
    return None


def check_transactions(found: Sequence[OpenTransaction] | None) -> Iterator[MigrationFinding]:
    """Those that are open now: not those that will be then, but applications that have some."""
    if found is None:
        yield MigrationFinding(
            WARNING,
            "transactions",
            "the source's brokers cannot list them (before Kafka 3.0): one that is open while"
            " writes are held ends the switch, which is then undone",
        )
        return
    if found:
        yield MigrationFinding(
            NOTE,
            "transactions",
            f"{len(found)} open now, of {_abbreviate([one.id for one in found])}: those that are open"
            " while writes are held are aborted; the application sees that, and begins it again",
        )


def check_transactional_ids(
    source: Collection[str] | None, target: Collection[str] | None
) -> Iterator[MigrationFinding]:
    """Those that a cluster knows. Which of them are in use, nobody can tell."""
    both = sorted(set(source or ()) & set(target or ()))
    if both:
        yield MigrationFinding(
            WARNING,
            "transactions",
            f"both sides know {_abbreviate(both)}, with other producer ids: an application that uses"
            " such a transactional id now ends with a fatal error at its next transaction (fenced): start it again"
            " after the switch",
        )


def check_producer_ids(there: Mapping[tuple[str, int], Collection[int]], floor: int) -> MigrationFinding | None:
    """What stands in the target's log. `there`: by topic and partition. `floor`: the source's ids are below it."""
    met = [(topic, partition, low) for (topic, partition), ids in sorted(there.items()) if (low := min(ids)) < floor]
    if not met:
        return None
    (topic, partition, low), *others = met
    more = f", and {len(others)} more partitions have such" if others else ""
    return MigrationFinding(
        STOP,
        "producer ids",
        f"partition {partition} of {topic} on the target has records of producer {low}{more}, and"
        f" the source's ids go up to {floor - 1}: records of a producer of the source that has the same id would be"
        " taken for repetitions, and be lost. Wait until the target has forgotten it (producer.id.expiration.ms after"
        " its last record, a day by default), or delete the topic there and copy it again",
    )


def check_clients(connected: Iterable[ConnectedClient], *, again: bool = False) -> Iterator[MigrationFinding]:
    """By what clients call themselves. `again`: they have been where they are led now."""
    by_software: dict[str, set[tuple[str, str]]] = {}
    spark, franz, librdkafka, writing = set[str](), set[str](), set[str](), dict[str, set[str]]()
    for one in connected:
        by_software.setdefault(one.software or "unknown software", set()).add((one.name, one.address))
        if _SPARK in one.name:
            spark.add(one.name)
        if is_franz_go(one.software):
            franz.add(one.name)
        if is_librdkafka(one.software) and not _ACCEPTS_NO_EPOCH.search(one.software):
            librdkafka.add(one.name)
        if again and one.writes and one.produces != ProducerKind.PLAIN:
            for library in _sequence_conflicts(one):
                # What no request has shown so far may be idempotent.
                sure = "" if one.produces else " (if it is idempotent)"
                writing.setdefault(library, set()).add(f"{one.name}{sure}")
    if by_software:
        said = ", ".join(f"{len(found)} {name}" for name, found in sorted(by_software.items()))
        yield MigrationFinding(NOTE, "clients", f"connected now: {said}")
    if spark:
        yield MigrationFinding(
            WARNING,
            "Spark",
            f"{_abbreviate(sorted(spark))}: a Spark query keeps positions in its checkpoint, not in a"
            " group: stop it before the switch, translate the checkpoint (kproxy migrate offsets --spark-checkpoint),"
            " start it after",
        )
    if franz:
        yield MigrationFinding(
            WARNING,
            "franz-go",
            f"{_abbreviate(sorted(franz))}: a franz-go consumer that was started before kproxy had both"
            " upstreams gets nothing after the switch: start such applications again before it",
        )
    if librdkafka:
        yield MigrationFinding(
            WARNING,
            "librdkafka",
            f"{_abbreviate(sorted(librdkafka))}: librdkafka before 2.8 takes no leader whose epoch is"
            " lower than one it knows. Where a partition has changed its leader more often on the side that"
            " clients leave, and another broker leads it where they go, they may never find that leader: start them"
            " again if they do not go on",
        )
    for library, names in sorted(writing.items()):
        yield MigrationFinding(WARNING, library, f"{_abbreviate(sorted(names))}: {_SEQUENCE_CONFLICTS[library]}")


def _sequence_conflicts(client: ConnectedClient) -> Iterator[str]:
    """Of `_MEETS_ITSELF`, what holds for this one. That of transactional producers stands elsewhere."""
    if client.produces == ProducerKind.TRANSACTIONAL or _RECOVERS_ITSELF.match(client.software):
        return
    if is_librdkafka(client.software):
        yield _LIBRDKAFKA
    else:
        yield _KAFKA_PYTHON if is_kafka_python(client.software) else _OTHERS


def kproxy_warnings(said: Mapping[str, Sequence[str]]) -> Iterator[MigrationFinding]:
    """What kproxies themselves say about clients: text → clients."""
    for text, names in sorted(said.items()):
        yield MigrationFinding(WARNING, f"clients {_abbreviate(sorted(set(names)))}", text)


def _abbreviate(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
