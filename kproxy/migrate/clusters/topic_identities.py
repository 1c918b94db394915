"""Detection of topics that were deleted or recreated since the migration began.

A recreated topic has another id (KIP-516). `prepare` records the topic ids of both sides, and the copier stores them
with the copied records. Brokers before Kafka 2.8 have no topic ids: there, only a log that ends too early shows that
the topic was recreated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from kproxy.base.format import format_count
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient, retry
from kproxy.migrate.copier.requests import ClusterMetadata, TopicPartition
from kproxy.migrate.copier.state import (
    PartitionState,
    copy_again_advice,
    identities_differ,
    merge_identities,
    parse_key,
    state_key,
    topic_identity,
    truncation_text,
)
from kproxy.migrate.copier.statetopic import is_partition_key, parse_states, read_state
from kproxy.migrate.spec.migration import SOURCE, TARGET
from kproxy.protocol.wire.errorcodes import ErrorCode

_TOPIC = b'["topic",'

# How long a topic may be unknown until it counts as deleted, in seconds: brokers learn of topics one after the other.
_PROPAGATION, _RETRY_INTERVAL = 3.0, 0.2
# While a leader moves, in seconds.
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class MigratedTopic:
    """One topic of the source, as the state topic describes it."""

    topic: str
    target_topic: str
    origin: str = ""
    """The identity of the source topic (`copier.state.topic_identity`), "" if it is not known."""
    destination: str = ""
    """The identity of the target topic, "" if it is not known."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """By copied partition, the offset after the last record on the target."""
    records: int = 0
    """The number of copied records."""

    def name_on(self, side: str) -> str:
        """Return the name of the topic on the source or the target."""
        return self.topic if side == SOURCE else self.target_topic

    @property
    def identity(self) -> tuple[str, str, str]:
        """The target name and the identities of both topics."""
        return self.target_topic, self.origin, self.destination

    def to_record(self) -> dict[str, Any]:
        """Return the value of the record that `prepare` writes."""
        return {"v": 1, "target_topic": self.target_topic, "origin": self.origin, "destination": self.destination}


def topic_key(topic: str) -> bytes:
    """Return the key of the state record of this source topic."""
    return state_key("topic", topic)


def is_topic_record(name: bytes) -> bool:
    """Return True if `migrated_topics` reads the record with this key."""
    return name.startswith(_TOPIC) or is_partition_key(name)


def topic_of_copy(name: bytes) -> str | None:
    """Return the source topic if this is the key of a record about its copy, else None.

    These are what `prepare` wrote of it, and by partition its state, pieces of its offset map, and its verified range.
    """
    match parse_key(name):
        case ["topic" | "partition" | "map" | "verified", str(topic), *_]:
            return topic
        case _:
            return None


def migrated_topics(values: Mapping[bytes, bytes]) -> dict[str, MigratedTopic]:
    """Return the topics of a migration from the records of the state topic, by source topic."""
    return merge_topics(values, parse_states(values))


def merge_topics(
    values: Mapping[bytes, bytes], states: Mapping[TopicPartition, PartitionState]
) -> dict[str, MigratedTopic]:
    """Return the topics of a migration, where `states` are the partition states that `values` contain.

    What was copied takes precedence over what was prepared.
    """
    prepared: dict[str, MigratedTopic] = {}
    for name, value in values.items():
        if name.startswith(_TOPIC):
            match parse_key(name):
                case ["topic", str(topic)] if (topic_record := _prepared_topic(topic, value)) is not None:
                    prepared[topic] = topic_record
    copied: dict[str, dict[int, PartitionState]] = {}
    for (topic, partition), state in states.items():
        copied.setdefault(topic, {})[partition] = state
    return prepared | {
        topic: _copied_topic(topic, partitions, prepared.get(topic)) for topic, partitions in copied.items()
    }


def _copied_topic(
    topic: str, partitions: Mapping[int, PartitionState], prepared: MigratedTopic | None
) -> MigratedTopic:
    name = next(iter(partitions.values())).target_topic
    records = [*partitions.values(), *([prepared] if prepared is not None and prepared.target_topic == name else ())]
    origin = reduce(_complete_identity, (record.origin for record in records))
    destination = reduce(_complete_identity, (record.destination for record in records))
    ends = {partition: state.target_next for partition, state in partitions.items()}
    return MigratedTopic(
        topic=topic,
        target_topic=name,
        origin=origin,
        destination=destination,
        ends=ends,
        records=sum(state.records for state in partitions.values()),
    )


def _prepared_topic(topic: str, value: bytes) -> MigratedTopic | None:
    """Return the topic that `prepare` recorded; None if the record is not kproxy's."""
    try:
        record = json.loads(value)
        return MigratedTopic(topic, str(record["target_topic"]), str(record["origin"]), str(record["destination"]))
    except (ValueError, KeyError, TypeError):
        return None


def _complete_identity(identity_a: str, identity_b: str) -> str:
    """Return the first identity, completed by the second if both can be of the same topic."""
    return identity_a if identities_differ(identity_a, identity_b) else merge_identities(identity_a, identity_b)


def learn_topics(cluster: ClusterClient, topics: Iterable[str]) -> ClusterMetadata:
    """Return a cluster's metadata of these topics.

    Asks again for some seconds about unknown topics, since brokers learn of new topics one after the other.
    """
    wanted = sorted(set(topics))
    until = time.monotonic() + _PROPAGATION
    while True:
        layout = cluster.refresh_metadata(wanted)
        unknown = any(layout.topic_error(topic) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in wanted)
        if not unknown or time.monotonic() >= until:
            return layout
        time.sleep(_RETRY_INTERVAL)


def identity_in(layout: ClusterMetadata, topic: str) -> str:
    """Return the identity of the topic in this cluster."""
    return topic_identity(layout.cluster_id, layout.ids.get(topic, ""))


def prepared_topics(
    topics: Mapping[str, str], source: ClusterMetadata, target: ClusterMetadata
) -> dict[str, MigratedTopic]:
    """Return what `prepare` records, by source topic; `topics` maps source topics to target topics."""
    return {
        topic: MigratedTopic(topic, name, identity_in(source, topic), identity_in(target, name))
        for topic, name in topics.items()
        if _exists_or_leaderless(source, topic) and _exists_or_leaderless(target, name)
    }


def _exists_or_leaderless(layout: ClusterMetadata, topic: str) -> bool:
    return layout.topic_error(topic) in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)


def describe_change(topic: MigratedTopic, side: str, layout: ClusterMetadata) -> str:
    """Return a message if the topic was deleted or replaced since it was prepared or copied, else "" (pure)."""
    name = topic.name_on(side)
    error = layout.topic_error(name)
    if error not in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return ""
    before = topic.origin if side == SOURCE else topic.destination
    if not error and not identities_differ(before, identity_in(layout, name)):
        return ""
    if not topic.ends:
        change = "no longer exists" if error else "is not the topic that was prepared: its topic id has changed"
        return f"{name} on the {side} {change}: run kproxy migrate prepare"
    relation = f"{'to' if side == TARGET else 'from'} which {format_count(topic.records, 'record')} were copied"
    relation = relation if topic.records else "with which the copy began"
    if error:
        return f"{name}, {relation}, no longer exists on the {side}: it was deleted; {copy_again_advice(topic.topic)}"
    return (
        f"{name} on the {side} is not the topic {relation}: its topic id has changed, so it was deleted and"
        f" recreated, or the file names another cluster; {copy_again_advice(topic.topic)}"
    )


def describe_changes(side: str, topics: Mapping[str, MigratedTopic], layout: ClusterMetadata) -> dict[str, str]:
    """Return the messages of all deleted or replaced topics, by source topic (pure)."""
    return {
        topic: why for topic, migrated in sorted(topics.items()) if (why := describe_change(migrated, side, layout))
    }


def find_replaced(source: ClusterClient, topics: Mapping[str, MigratedTopic]) -> dict[str, str]:
    """Return messages for topics that were replaced on the source; topics that were deleted there are left out."""
    layout = source.refresh_metadata([migrated.topic for migrated in topics.values()])
    return describe_changes(
        SOURCE, {topic: migrated for topic, migrated in topics.items() if _exists(layout, topic)}, layout
    )


def _exists(layout: ClusterMetadata, topic: str) -> bool:
    return not layout.topic_error(topic)


def find_truncated(cluster: ClusterClient, topics: Mapping[str, MigratedTopic]) -> dict[TopicPartition, str]:
    """Return messages for target partitions that end before their last copied record, by source topic and partition.

    A partition whose leader does not return its end is left out.
    """
    copied = {
        (migrated.target_topic, partition): migrated for migrated in topics.values() for partition in migrated.ends
    }
    ends = cluster.list_offsets(copied, requests.LATEST, committed=False) if copied else {}
    messages = {}
    for (name, partition), end in sorted(ends.items()):
        migrated = copied[name, partition]
        if end < migrated.ends[partition]:
            messages[migrated.topic, partition] = truncation_text(
                migrated.topic, name, partition, end, migrated.ends[partition]
            )
    return messages


def find_lost(target: ClusterClient, topics: Mapping[str, MigratedTopic]) -> dict[str, str]:
    """Return messages, by source topic, for topics that have lost copied records on the target."""
    if not topics:
        return {}
    layout = learn_topics(target, [migrated.target_topic for migrated in topics.values()])
    messages = describe_changes(TARGET, topics, layout)
    remaining = {topic: migrated for topic, migrated in topics.items() if topic not in messages}
    for (topic, _), why in find_truncated(target, remaining).items():
        messages.setdefault(topic, why)
    return messages


def find_topic_problems(source: str, target: str, topics: Mapping[str, MigratedTopic]) -> dict[str, str]:
    """Return messages for copied topics that were deleted, replaced or truncated on either cluster, by source topic."""
    copied = {topic: migrated for topic, migrated in topics.items() if migrated.ends}
    if not copied:
        return {}
    with ClusterClient(source) as source_cluster, ClusterClient(target) as target_cluster:
        replaced = retry(source_cluster, lambda: find_replaced(source_cluster, copied), _TIMEOUT)
        return retry(target_cluster, lambda: find_lost(target_cluster, copied), _TIMEOUT) | replaced


def read_migrated_topics(target: str, name: str) -> dict[str, MigratedTopic]:
    """Read the topics of the migration with this name from the target. Raises ConfigError if nothing was prepared."""
    return migrated_topics(read_state(target, name, is_topic_record))


class TopicWatcher:
    """Repeated checks of the topics of a running copy; `topics` maps source topics to target topics."""

    def __init__(self, target: ClusterClient, topics: Mapping[str, str]) -> None:
        self._target, self._topics = target, topics
        self._lost: dict[str, str] = {}

    def check(
        self,
        values: Mapping[bytes, bytes],
        states: Mapping[TopicPartition, PartitionState],
        source: ClusterMetadata,
        target: ClusterMetadata,
    ) -> tuple[dict[str, str], dict[TopicPartition, str]]:
        """Return messages for changed topics, by source topic, and for truncated partitions, by source partition.

        A topic that was reported once is reported at every later check.
        """
        topics = {
            topic: migrated
            for topic, migrated in merge_topics(values, states).items()
            if self._topics.get(topic) == migrated.target_topic and topic not in self._lost
        }
        existing = {topic: migrated for topic, migrated in topics.items() if _exists(source, topic)}
        self._lost |= describe_changes(SOURCE, existing, source)
        if changed := describe_changes(TARGET, topics, target):
            suspects = {topic: topics[topic] for topic in changed}
            layout = learn_topics(self._target, [migrated.target_topic for migrated in suspects.values()])
            self._lost |= describe_changes(TARGET, suspects, layout)
        remaining = {topic: migrated for topic, migrated in topics.items() if topic not in self._lost}
        return dict(self._lost), find_truncated(self._target, remaining)
