"""Whether the topics of both sides are those with which a migration began.

A topic that was deleted and made anew has another id (KIP-516). `prepare` writes the ids of both sides down, and the
copier keeps them with what it has copied. Brokers before Kafka 2.8 tell no ids: there, only a log that ends too early
shows it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.errorcodes import UNKNOWN_TOPIC_OR_PARTITION
from kproxy.migrate.copier.requests import ClusterMetadata
from kproxy.migrate.copier.retries import retry
from kproxy.migrate.copier.state import (
    PartitionState,
    identities_differ,
    merge_identities,
    parse_key,
    state_key,
    topic_identity,
    truncation_text,
)
from kproxy.migrate.copier.statetopic import read_state_topic
from kproxy.migrate.format import format_count
from kproxy.migrate.spec.migration import SOURCE, TARGET

TopicPartition = tuple[str, int]

_TOPIC, _PARTITION = b'["topic",', b'["partition",'

# How long a topic may be unknown until it counts as deleted, in seconds: brokers learn of topics one after the other.
_PROPAGATION, _RETRY_INTERVAL = 3.0, 0.2
# While a leader moves, in seconds.
_TIMEOUT = 30.0
_LEADER_NOT_AVAILABLE = 5
_RENAME_ADVICE = "give the migration another name to begin again"


@dataclass(frozen=True, slots=True)
class MigratedTopic:
    """One topic of the source, as the state topic knows it. `origin`, `destination`: which topics these are
    (`copier.state.identity`), "" if that is not known. `ends`: of each partition that was copied, one beyond the last
    record on the target. `records`: copied."""

    topic: str
    target_topic: str
    origin: str = ""
    destination: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)
    records: int = 0

    def name_on(self, side: str) -> str:
        """How the topic is called on the source or the target."""
        return self.topic if side == SOURCE else self.target_topic

    @property
    def identity(self) -> tuple[str, str, str]:
        """Which topics these are, and which name the target's has."""
        return self.target_topic, self.origin, self.destination

    def to_record(self) -> dict[str, Any]:
        """The value of the record that `prepare` writes."""
        return {"v": 1, "target_topic": self.target_topic, "origin": self.origin, "destination": self.destination}


def topic_key(topic: str) -> bytes:
    """The key of what is known of this topic of the source."""
    return state_key("topic", topic)


def is_topic_record(name: bytes) -> bool:
    """Whether `begun` reads the record with this key."""
    return name.startswith((_TOPIC, _PARTITION))


def migrated_topics(values: Mapping[bytes, bytes]) -> dict[str, MigratedTopic]:
    """The topics of a migration, by their names on the source, from what the state topic has. Raises WireError."""
    return merge_topics(values, partition_states(values))


def partition_states(values: Mapping[bytes, bytes]) -> dict[TopicPartition, PartitionState]:
    """How far each partition was copied, from what the state topic has. Raises WireError."""
    found = {}
    for name, value in values.items():
        if name.startswith(_PARTITION):
            match parse_key(name):
                case ["partition", str(topic), int(partition)]:
                    found[topic, partition] = PartitionState.from_json(value)
    return found


def merge_topics(
    values: Mapping[bytes, bytes], states: Mapping[TopicPartition, PartitionState]
) -> dict[str, MigratedTopic]:
    """The same with the states that are in `values`. What was copied says more than what was prepared."""
    prepared: dict[str, MigratedTopic] = {}
    for name, value in values.items():
        if name.startswith(_TOPIC):
            match parse_key(name):
                case ["topic", str(topic)] if (one := _prepared_topic(topic, value)) is not None:
                    prepared[topic] = one
    copied: dict[str, dict[int, PartitionState]] = {}
    for (topic, partition), state in states.items():
        copied.setdefault(topic, {})[partition] = state
    return prepared | {topic: _copied_topic(topic, parts, prepared.get(topic)) for topic, parts in copied.items()}


def _copied_topic(topic: str, parts: Mapping[int, PartitionState], prepared: MigratedTopic | None) -> MigratedTopic:
    name, origin, destination = next(iter(parts.values())).target_topic, "", ""
    for state in parts.values():
        origin, destination = (
            _complete_identity(origin, state.origin),
            _complete_identity(destination, state.destination),
        )
    if prepared is not None and prepared.target_topic == name:
        origin, destination = (
            _complete_identity(origin, prepared.origin),
            _complete_identity(destination, prepared.destination),
        )
    ends = {partition: state.target_next for partition, state in parts.items()}
    return MigratedTopic(topic, name, origin, destination, ends, sum(state.records for state in parts.values()))


def _prepared_topic(topic: str, value: bytes) -> MigratedTopic | None:
    """None for what kproxy did not write: then nothing is known."""
    try:
        said = json.loads(value)
        return MigratedTopic(topic, str(said["target_topic"]), str(said["origin"]), str(said["destination"]))
    except (ValueError, KeyError, TypeError):
        return None


def _complete_identity(one: str, other: str) -> str:
    """The first, completed by the other if that is of the same topic."""
    return one if identities_differ(one, other) else merge_identities(one, other)


def learn_topics(cluster: ClusterClient, topics: Iterable[str]) -> ClusterMetadata:
    """What a cluster says of these topics. One that it does not know is asked for again, for some seconds. Raises
    UpstreamError and WireError."""
    wanted = sorted(set(topics))
    until = time.monotonic() + _PROPAGATION
    while True:
        layout = cluster.refresh_metadata(wanted)
        unknown = any(
            layout.topics.get(topic, (UNKNOWN_TOPIC_OR_PARTITION, ()))[0] == UNKNOWN_TOPIC_OR_PARTITION
            for topic in wanted
        )
        if not unknown or time.monotonic() >= until:
            return layout
        time.sleep(_RETRY_INTERVAL)


def identity_in(layout: ClusterMetadata, topic: str) -> str:
    """The topic's identity, as this cluster tells it."""
    return topic_identity(layout.cluster_id, layout.ids.get(topic, ""))


def prepared_topics(
    topics: Mapping[str, str], source: ClusterMetadata, target: ClusterMetadata
) -> dict[str, MigratedTopic]:
    """What `prepare` writes down, by topic of the source. `topics`: source topic → target topic."""
    return {
        topic: MigratedTopic(topic, name, identity_in(source, topic), identity_in(target, name))
        for topic, name in topics.items()
        if _exists_or_leaderless(source, topic) and _exists_or_leaderless(target, name)
    }


def _exists_or_leaderless(layout: ClusterMetadata, topic: str) -> bool:
    """With or without a leader."""
    return layout.topics.get(topic, (UNKNOWN_TOPIC_OR_PARTITION, ()))[0] in (0, _LEADER_NOT_AVAILABLE)


def describe_change(one: MigratedTopic, side: str, layout: ClusterMetadata) -> str:
    """Words for a topic that is not there any more, or is another one than before; "" for all others (pure)."""
    name = one.name_on(side)
    error = layout.topics.get(name, (UNKNOWN_TOPIC_OR_PARTITION, ()))[0]
    if error not in (0, UNKNOWN_TOPIC_OR_PARTITION):
        return ""
    before = one.origin if side == SOURCE else one.destination
    if not error and not identities_differ(before, identity_in(layout, name)):
        return ""
    if not one.ends:
        what = "is not there any more" if error else "is not the topic that was prepared: its topic id is another"
        return f"{name} on the {side} {what}: run kproxy migrate prepare"
    which = f"{'to' if side == TARGET else 'from'} which {format_count(one.records, 'record')} were copied"
    which = which if one.records else "with which the copy began"
    if error:
        return f"{name}, {which}, is not on the {side} any more: it was deleted; {_RENAME_ADVICE}"
    return (
        f"{name} on the {side} is not the topic {which}: its topic id is another, so it was deleted and made anew, or"
        f" the file names another cluster; {_RENAME_ADVICE}"
    )


def describe_changes(side: str, those: Mapping[str, MigratedTopic], layout: ClusterMetadata) -> dict[str, str]:
    """The same for several topics, by their names on the source; those that are as they were are left out (pure)."""
    return {topic: why for topic, one in sorted(those.items()) if (why := describe_change(one, side, layout))}


def find_replaced(source: ClusterClient, those: Mapping[str, MigratedTopic]) -> dict[str, str]:
    """The topics that are others on the source now, in words; those that were deleted there are left out. Raises
    UpstreamError and WireError."""
    layout = source.refresh_metadata([one.topic for one in those.values()])
    return describe_changes(SOURCE, {topic: one for topic, one in those.items() if _exists(layout, topic)}, layout)


def _exists(layout: ClusterMetadata, topic: str) -> bool:
    return not layout.topics.get(topic, (UNKNOWN_TOPIC_OR_PARTITION, ()))[0]


def find_truncated(cluster: ClusterClient, those: Mapping[str, MigratedTopic]) -> dict[TopicPartition, str]:
    """By topic and partition of the source: partitions of the target that end before the last record that was copied
    there, in words. One of which its leader does not tell is left out. Raises UpstreamError and WireError."""
    wanted = {(one.target_topic, partition): one for one in those.values() for partition in one.ends}
    ends = cluster.list_offsets(wanted, requests.LATEST, committed=False)
    found = {}
    for (name, partition), end in sorted(ends.items()):
        one = wanted[name, partition]
        if end < one.ends[partition]:
            found[one.topic, partition] = truncation_text(name, partition, end, one.ends[partition])
    return found


def find_lost(target: ClusterClient, those: Mapping[str, MigratedTopic]) -> dict[str, str]:
    """By topic of the source, why the target has not what was copied any more. Raises UpstreamError and WireError."""
    found = (
        describe_changes(TARGET, those, learn_topics(target, [one.target_topic for one in those.values()]))
        if those
        else {}
    )
    rest = {topic: one for topic, one in those.items() if topic not in found}
    if rest:
        for (topic, _), why in find_truncated(target, rest).items():
            found.setdefault(topic, why)
    return found


def find_topic_problems(source: str, target: str, those: Mapping[str, MigratedTopic]) -> dict[str, str]:
    """Of topics that were copied, by topic of the source: what has become of them on one of these two clusters. Raises
    UpstreamError and WireError."""
    copied = {topic: one for topic, one in those.items() if one.ends}
    if not copied:
        return {}
    here, there = ClusterClient(source), ClusterClient(target)
    try:
        anew = retry(here, lambda: find_replaced(here, copied), _TIMEOUT)
        return retry(there, lambda: find_lost(there, copied), _TIMEOUT) | anew
    finally:
        here.close()
        there.close()


def read_migrated_topics(target: str, name: str) -> dict[str, MigratedTopic]:
    """The topics of the migration with this name. Raises ConfigError if nothing was prepared; UpstreamError and
    WireError."""
    cluster = ClusterClient(target)
    try:
        return migrated_topics(read_state_topic(cluster, name, is_topic_record).values)
    finally:
        cluster.close()


class TopicWatcher:
    """The topics of a copy while it goes on. `topics`: source topic → target topic."""

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
        """By topic and by partition of the source: what is not as it was, in words. What was said once is said again.
        Raises UpstreamError and WireError."""
        those = {
            topic: one
            for topic, one in merge_topics(values, states).items()
            if self._topics.get(topic) == one.target_topic and topic not in self._lost
        }
        there = {topic: one for topic, one in those.items() if _exists(source, topic)}
        self._lost |= describe_changes(SOURCE, there, source)
        if new := describe_changes(TARGET, those, target):
            suspects = {topic: those[topic] for topic in new}
            self._lost |= describe_changes(
                TARGET, suspects, learn_topics(self._target, [one.target_topic for one in suspects.values()])
            )
        rest = {topic: one for topic, one in those.items() if topic not in self._lost}
        return dict(self._lost), find_truncated(self._target, rest) if rest else {}
