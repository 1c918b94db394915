"""The effects of a switch on clients: findings about clients that cannot be switched without help (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic
from kproxy.base.format import abbreviate
from kproxy.base.messages.message import Message
from kproxy.base.messages.migrations import (
    CONNECT_GROUP,
    FRANZ_GO_CONSUMER,
    GROUP_EXCLUDED,
    LEADER_EPOCH_LOWER,
    PRODUCER_IDS_DIFFER,
    SHARE_GROUP,
    SPARK_QUERY,
    STREAMS_GROUP,
    TOPICS_NOT_MIGRATED,
    TOPICS_RENAMED,
)
from kproxy.migrate.clusters.inventory import GroupInventory, Inventory
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.spec.migration import INTERNAL_TOPICS, Migration
from kproxy.migrate.switch.kproxy_replies import ConnectedClient
from kproxy.migrate.switch.transactions import OpenTransaction
from kproxy.proxy.switching.clientsoftware import is_franz_go, is_kafka_python, is_librdkafka
from kproxy.proxy.switching.producers import ProducerKind

# What Spark's Kafka source calls its groups, and from them Java its clients.
_SPARK = "spark-kafka-source-"
# The versions of librdkafka that take a leader without an epoch, which kproxy then shows them.
_ACCEPTS_NO_EPOCH = re.compile(r"rdkafka[- ]v?(?:2\.(?:[89]|\d\d)|[3-9]|\d\d)(?:\.|$)")
_CHANGELOG = "-changelog"
# How Kafka Streams ends a transactional id with exactly_once_v2: APPLICATION-PROCESS-THREAD.
_STREAMS_THREAD = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")
_CONNECT = "connect"
_LIBRDKAFKA, _KAFKA_PYTHON, _OTHERS = "librdkafka", "kafka-python", "producers"
# By library, the effect on an idempotent producer that is moved back to a cluster where it has written before, and
# meets its own former sequence numbers. Java's and franz-go's take a new epoch or id, and continue.
_SEQUENCE_CONFLICTS = {
    _LIBRDKAFKA: "an idempotent librdkafka producer that has written to both sides fails with a fatal error after it is"
    " moved back, since the brokers know its former sequence numbers: restart it then. No acknowledged record is lost",
    _KAFKA_PYTHON: "an idempotent kafka-python producer that has written to both sides fails its first sends after it"
    " is moved back, with OutOfOrderSequenceNumberError, and then continues: these records are not written, so the"
    " application must send them again. No acknowledged record is lost",
    _OTHERS: "an idempotent producer that has written to both sides meets its own former sequence numbers after it is"
    " moved back; the reaction of this library was not tested: watch it, and restart it if it does not continue",
}
_RECOVERS_ITSELF = re.compile(r"(apache-kafka-java|kgo)\b")
# By software, which clients cannot be switched without help.
_SOFTWARE_WARNINGS: Sequence[tuple[str, Callable[[ConnectedClient], bool], Message]] = (
    ("Spark", lambda client: _SPARK in client.name, SPARK_QUERY),
    ("franz-go", lambda client: is_franz_go(client.software), FRANZ_GO_CONSUMER),
    (
        "librdkafka",
        lambda client: is_librdkafka(client.software) and not _ACCEPTS_NO_EPOCH.search(client.software),
        LEADER_EPOCH_LOWER,
    ),
)


def check_topics_and_groups(
    migration: Migration, source: Inventory, topics: Collection[str], groups: Collection[str] | None = None
) -> Iterator[Diagnostic]:
    """Yield topics and groups that the file leaves out or renames; `topics` are all topics of the source.

    `groups`: those that are moved; None for all.
    """
    renamed = [
        topic for topic in sorted(topics) if migration.selects_topic(topic) and migration.target_name(topic) != topic
    ]
    if renamed:
        yield Diagnostic(
            ERROR,
            "topics",
            TOPICS_RENAMED(topics=abbreviate(renamed)),
        )
    omitted = [
        topic
        for topic in sorted(topics)
        if not migration.selects_topic(topic)
        and not migration.has_moved(topic)
        and topic not in INTERNAL_TOPICS
        and not topic.startswith("kproxy-migration-")
    ]
    if omitted and not migration.wave:
        yield Diagnostic(
            WARNING,
            "topics",
            TOPICS_NOT_MIGRATED(topics=abbreviate(omitted)),
        )
    for group in sorted(source.groups.values(), key=lambda group: group.name):
        if groups is not None and group.name not in groups:
            continue
        if not migration.selects_group(group.name):
            yield Diagnostic(WARNING, f"group {group.name}", GROUP_EXCLUDED())
        elif (text := _group_effect(group, topics)) is not None:
            yield Diagnostic(WARNING, f"group {group.name}", text)


def _group_effect(group: GroupInventory, topics: Collection[str]) -> str | None:
    """Return what members of the group observe beyond a rebalance; None if nothing."""
    if group.kind == "share":
        return SHARE_GROUP()
    if _is_streams(group, topics):
        return STREAMS_GROUP()
    if group.protocol == _CONNECT:
        return CONNECT_GROUP()
    return None


def _is_streams(group: GroupInventory, topics: Collection[str]) -> bool:
    """Return True if the group is that of a Kafka Streams application, of either protocol."""
    return group.kind == "streams" or any(
        topic.startswith(f"{group.name}-") and topic.endswith(_CHANGELOG) for topic in topics
    )


def streams_applications(source: Inventory, topics: Collection[str]) -> frozenset[str]:
    """Return the ids of the Kafka Streams applications that have a group; `topics` are all topics of the source."""
    return frozenset(group.name for group in source.groups.values() if _is_streams(group, topics))


def check_transactions(transactions: Sequence[OpenTransaction] | None) -> Iterator[Diagnostic]:
    """Yield a finding about the applications that have open transactions now.

    The transactions that are open during the hold will be others.
    """
    if transactions is None:
        yield Diagnostic(
            WARNING,
            "transactions",
            "the source's brokers cannot list them (before Kafka 3.0): the switch is undone if one is open while"
            " writes are held",
        )
        return
    if transactions:
        yield Diagnostic(
            NOTE,
            "transactions",
            f"{len(transactions)} open now, of {abbreviate([transaction.id for transaction in transactions])}:"
            " transactions that are open while writes are held are aborted; the application observes the abort, and"
            " starts its transaction again",
        )


def check_transactional_ids(
    source: Collection[str] | None, target: Collection[str] | None, streams: Collection[str] = ()
) -> Iterator[Diagnostic]:
    """Yield a finding about transactional ids that both clusters know. Which of them are in use is not known.

    `streams`: ids of Kafka Streams applications. These replace a producer that was fenced by themselves.
    """
    shared = sorted(id_ for id_ in set(source or ()) & set(target or ()) if not _is_of_streams(id_, streams))
    if shared:
        yield Diagnostic(
            WARNING,
            "transactions",
            PRODUCER_IDS_DIFFER(ids=abbreviate(shared)),
        )


def _is_of_streams(transactional_id: str, streams: Collection[str]) -> bool:
    return any(
        transactional_id.startswith(application)
        and _STREAMS_THREAD.fullmatch(transactional_id, len(application)) is not None
        for application in streams
    )


def check_producer_ids(producer_ids: Mapping[TopicPartition, Collection[int]], floor: int) -> Diagnostic | None:
    """Return a finding if logs on the target have producer ids that the source may assign.

    `producer_ids` is by topic and partition. `floor` is above all ids of the source.
    """
    met = [
        (topic, partition, low) for (topic, partition), ids in sorted(producer_ids.items()) if (low := min(ids)) < floor
    ]
    if not met:
        return None
    (topic, partition, low), *others = met
    others_text = f", and {len(others)} more partitions have such" if others else ""
    return Diagnostic(
        ERROR,
        "producer ids",
        f"partition {partition} of {topic} on the target has records of producer {low}{others_text}, and the source's"
        f" ids go up to {floor - 1}: records of a source producer with the same id would be taken for duplicates, and"
        " be lost. Wait until the target has forgotten the id (producer.id.expiration.ms after its last record, a"
        " day by default), or delete the topic there and copy it again",
    )


def check_clients(connected: Sequence[ConnectedClient], *, switched_before: bool = False) -> Iterator[Diagnostic]:
    """Yield what clients will observe: by their software, and what kproxies warn of.

    `switched_before`: clients have been where they are moved now.
    """
    by_software: dict[str, set[tuple[str, str]]] = {}
    writing: dict[str, set[str]] = {}
    for client in connected:
        by_software.setdefault(client.software or "unknown software", set()).add((client.name, client.address))
        if switched_before and (library := _sequence_conflict(client)):
            # What no request has shown so far may be idempotent.
            sure = "" if client.produces else " (if it is idempotent)"
            writing.setdefault(library, set()).add(f"{client.name}{sure}")
    if by_software:
        counts = ", ".join(f"{len(names)} {name}" for name, names in sorted(by_software.items()))
        yield Diagnostic(NOTE, "clients", f"connected now: {counts}")
    for subject, is_affected, message in _SOFTWARE_WARNINGS:
        if names := {client.name for client in connected if is_affected(client)}:
            yield Diagnostic(WARNING, subject, message(clients=abbreviate(sorted(names))))
    for library, names in sorted(writing.items()):
        yield Diagnostic(WARNING, library, f"{abbreviate(sorted(names))}: {_SEQUENCE_CONFLICTS[library]}")
    for text in sorted({text for client in connected for text in client.warnings}):
        names = {client.name or client.address for client in connected if text in client.warnings}
        yield Diagnostic(WARNING, f"clients {abbreviate(sorted(names))}", text)


def _sequence_conflict(client: ConnectedClient) -> str:
    """Return the key of `_SEQUENCE_CONFLICTS` that applies to this client, or "".

    Transactional producers have their own finding.
    """
    is_safe = client.produces in (ProducerKind.PLAIN, ProducerKind.TRANSACTIONAL)
    if not client.writes or is_safe or _RECOVERS_ITSELF.match(client.software):
        return ""
    if is_librdkafka(client.software):
        return _LIBRDKAFKA
    return _KAFKA_PYTHON if is_kafka_python(client.software) else _OTHERS
