"""What clients will see of a switch: those that cannot be switched as they are, by what is known of them (pure)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kproxy.migrate.clusters.inventory import Group, Inventory
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, Finding
from kproxy.migrate.spec.migration import INTERNAL, Migration
from kproxy.migrate.switch.answers import Client
from kproxy.migrate.switch.transactions import Open
from kproxy.proxy.switching.caps import is_franz_go, is_kafka_python, is_librdkafka
from kproxy.proxy.switching.producers import Produces

_NAMED = 3
# What Spark's Kafka source calls its groups, and from them Java its clients.
_SPARK = "spark-kafka-source-"
# The versions of librdkafka that take a leader without an epoch, which kproxy then shows them.
_TAKES_NO_EPOCH = re.compile(r"rdkafka[- ]v?(?:2\.(?:[89]|\d\d)|[3-9]|\d\d)(?:\.|$)")
_CHANGELOG = "-changelog"
_CONNECT = "connect"
_LIBRDKAFKA, _KAFKA_PYTHON, _OTHERS = "librdkafka", "kafka-python", "producers"
# What an idempotent producer sees that is led back to where it has written before, and meets its own former sequence
# numbers; by library. Java's and franz-go's take a new epoch or id, and go on.
_MEETS_ITSELF = {
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
_GOES_ON = re.compile(r"(apache-kafka-java|kgo)\b")


def topics_and_groups(migration: Migration, source: Inventory, there: Collection[str]) -> Iterator[Finding]:
    """What the file leaves out or renames. `there`: all topics of the source."""
    renamed = [topic for topic in sorted(there) if migration.wants(topic) and migration.target_of(topic) != topic]
    if renamed:
        yield Finding(
            STOP, "topics", f"{_some(renamed)} would have other names on the target, and clients ask for the old ones:"
            " migrate them without rename, or move their clients by hand",
        )  # fmt: skip
    left = [
        topic
        for topic in sorted(there)
        if not migration.wants(topic) and topic not in INTERNAL and not topic.startswith("kproxy-migration-")
    ]
    if left:
        yield Finding(
            WARNING, "topics", f"{_some(left)} not migrated: their clients find nothing of them on the target",
        )  # fmt: skip
    for group in sorted(source.groups.values(), key=lambda one: one.name):
        if not migration.wants_group(group.name):
            yield Finding(WARNING, f"group {group.name}", "is left out by the file: it begins by auto.offset.reset")
        elif (text := _of_group(group, there)) is not None:
            yield Finding(WARNING, f"group {group.name}", text)


def _of_group(group: Group, there: Collection[str]) -> str | None:
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


def transactions(found: Sequence[Open] | None) -> Iterator[Finding]:
    """Those that are open now: not those that will be then, but applications that have some."""
    if found is None:
        yield Finding(
            WARNING, "transactions", "the source's brokers cannot list them (before Kafka 3.0): one that is open while"
            " writes are held ends the switch, which is then undone",
        )  # fmt: skip
        return
    if found:
        yield Finding(
            NOTE, "transactions", f"{len(found)} open now, of {_some([one.id for one in found])}: those that are open"
            " while writes are held are aborted; the application sees that, and begins it again",
        )  # fmt: skip


def transactional_ids(source: Collection[str] | None, target: Collection[str] | None) -> Iterator[Finding]:
    """Those that a cluster knows. Which of them are in use, nobody can tell."""
    both = sorted(set(source or ()) & set(target or ()))
    if both:
        yield Finding(
            WARNING, "transactions", f"both sides know {_some(both)}, with other producer ids: an application that uses"
            " such a transactional id now ends with a fatal error at its next transaction (fenced): start it again"
            " after the switch",
        )  # fmt: skip


def producer_ids(there: Mapping[tuple[str, int], Collection[int]], floor: int) -> Finding | None:
    """What stands in the target's log. `there`: by topic and partition. `floor`: the source's ids are below it."""
    met = [(topic, partition, low) for (topic, partition), ids in sorted(there.items()) if (low := min(ids)) < floor]
    if not met:
        return None
    (topic, partition, low), *others = met
    more = f", and {len(others)} more partitions have such" if others else ""
    return Finding(
        STOP, "producer ids", f"partition {partition} of {topic} on the target has records of producer {low}{more}, and"
        f" the source's ids go up to {floor - 1}: records of a producer of the source that has the same id would be"
        " taken for repetitions, and be lost. Wait until the target has forgotten it (producer.id.expiration.ms after"
        " its last record, a day by default), or delete the topic there and copy it again",
    )  # fmt: skip


def clients(connected: Iterable[Client], *, again: bool = False) -> Iterator[Finding]:
    """By what clients call themselves. `again`: they have been where they are led now."""
    by_software: dict[str, set[tuple[str, str]]] = {}
    spark, franz, librdkafka, writing = set[str](), set[str](), set[str](), dict[str, set[str]]()
    for one in connected:
        by_software.setdefault(one.software or "unknown software", set()).add((one.name, one.address))
        if _SPARK in one.name:
            spark.add(one.name)
        if is_franz_go(one.software):
            franz.add(one.name)
        if is_librdkafka(one.software) and not _TAKES_NO_EPOCH.search(one.software):
            librdkafka.add(one.name)
        if again and one.writes and one.produces != Produces.PLAIN:
            for library in _met_again(one):
                # What no request has shown so far may be idempotent.
                sure = "" if one.produces else " (if it is idempotent)"
                writing.setdefault(library, set()).add(f"{one.name}{sure}")
    if by_software:
        said = ", ".join(f"{len(found)} {name}" for name, found in sorted(by_software.items()))
        yield Finding(NOTE, "clients", f"connected now: {said}")
    if spark:
        yield Finding(
            WARNING, "Spark", f"{_some(sorted(spark))}: a Spark query keeps positions in its checkpoint, not in a"
            " group: stop it before the switch, translate the checkpoint (kproxy migrate offsets --spark-checkpoint),"
            " start it after",
        )  # fmt: skip
    if franz:
        yield Finding(
            WARNING, "franz-go", f"{_some(sorted(franz))}: a franz-go consumer that was started before kproxy had both"
            " upstreams gets nothing after the switch: start such applications again before it",
        )  # fmt: skip
    if librdkafka:
        yield Finding(
            WARNING, "librdkafka", f"{_some(sorted(librdkafka))}: librdkafka before 2.8 takes no leader whose epoch is"
            " lower than one it knows. Where a partition has changed its leader more often on the side that"
            " clients leave, and another broker leads it where they go, they may never find that leader: start them"
            " again if they do not go on",
        )  # fmt: skip
    for library, names in sorted(writing.items()):
        yield Finding(WARNING, library, f"{_some(sorted(names))}: {_MEETS_ITSELF[library]}")


def _met_again(client: Client) -> Iterator[str]:
    """Of `_MEETS_ITSELF`, what holds for this one. That of transactional producers stands elsewhere."""
    if client.produces == Produces.TRANSACTIONAL or _GOES_ON.match(client.software):
        return
    if is_librdkafka(client.software):
        yield _LIBRDKAFKA
    else:
        yield _KAFKA_PYTHON if is_kafka_python(client.software) else _OTHERS


def told(said: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """What kproxies themselves say about clients: text → clients."""
    for text, names in sorted(said.items()):
        yield Finding(WARNING, f"clients {_some(sorted(set(names)))}", text)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
