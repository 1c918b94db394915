"""The differences between a cluster as seen directly and through kproxy. Only addresses should differ. Pure.

The controller of KRaft is left out of the brokers' answers, because each broker names any. It is asked for, and
compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kproxy.client.ask.contents import Broker, Topic
from kproxy.inspect.listing.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One compared item, in words; "" if it does not exist. `differs`: in a way that it must not."""

    what: str
    direct: str
    through: str
    differs: bool


@dataclass(frozen=True, slots=True)
class SnapshotPair:
    """A cluster as seen both ways. `rows`: the cluster, each broker, and the topics and partitions that differ."""

    direct: Snapshot
    through: Snapshot
    rows: tuple[ComparisonRow, ...]

    @property
    def differs(self) -> bool:
        """True if any item differs that must not."""
        return any(row.differs for row in self.rows)


def compare(direct: Snapshot, through: Snapshot) -> SnapshotPair:
    """Compare two snapshots."""
    rows = (*_cluster(direct, through), *_brokers(direct, through), *_topics(direct, through))
    return SnapshotPair(direct, through, rows)


def _cluster(direct: Snapshot, through: Snapshot) -> Iterator[ComparisonRow]:
    for what, value, other_value in (
        ("cluster id", direct.cluster_id or "none", through.cluster_id or "none"),
        ("controller", _number(direct.controller), _number(through.controller)),
    ):
        yield ComparisonRow(what, value, other_value, value != other_value)


def _brokers(direct: Snapshot, through: Snapshot) -> Iterator[ComparisonRow]:
    brokers, other_brokers = ({broker.id: broker for broker in snapshot.brokers} for snapshot in (direct, through))
    for node_id in sorted(brokers.keys() | other_brokers.keys()):
        broker, other_broker = brokers.get(node_id), other_brokers.get(node_id)
        differs = broker is None or other_broker is None or broker.rack != other_broker.rack
        yield ComparisonRow(f"broker {node_id}", _broker(broker), _broker(other_broker), differs)


def _topics(direct: Snapshot, through: Snapshot) -> Iterator[ComparisonRow]:
    topics, other_topics = ({topic.name: topic for topic in snapshot.topics} for snapshot in (direct, through))
    for name in sorted(topics.keys() | other_topics.keys()):
        topic, other_topic = topics.get(name), other_topics.get(name)
        if topic == other_topic:
            continue
        if (
            topic is None
            or other_topic is None
            or len(topic.partitions) != len(other_topic.partitions)
            or topic.error != other_topic.error
        ):
            yield ComparisonRow(f"topic {name}", _topic(topic), _topic(other_topic), True)
            continue
        for left, right in zip(topic.partitions, other_topic.partitions, strict=True):
            for part in ("leader", "replicas", "isr", "offline", "error"):
                value, other_value = getattr(left, part), getattr(right, part)
                if value != other_value:
                    yield ComparisonRow(f"{name}-{left.index} {part}", _number(value), _number(other_value), True)


def _broker(broker: Broker | None) -> str:
    if broker is None:
        return ""
    return f"{broker.advertised}{f' ({broker.rack})' if broker.rack else ''}"


def _topic(topic: Topic | None) -> str:
    if topic is None:
        return ""
    return f"error {topic.error}" if topic.error else f"{len(topic.partitions)} partitions"


def _number(value: int | tuple[int, ...] | None) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "unknown" if value is None else str(value)
