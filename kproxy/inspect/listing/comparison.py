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
    for what, one, other in (
        ("cluster id", direct.cluster_id or "none", through.cluster_id or "none"),
        ("controller", _number(direct.controller), _number(through.controller)),
    ):
        yield ComparisonRow(what, one, other, one != other)


def _brokers(direct: Snapshot, through: Snapshot) -> Iterator[ComparisonRow]:
    brokers, other_brokers = ({broker.id: broker for broker in one.brokers} for one in (direct, through))
    for node_id in sorted(brokers.keys() | other_brokers.keys()):
        one, other = brokers.get(node_id), other_brokers.get(node_id)
        differs = one is None or other is None or one.rack != other.rack
        yield ComparisonRow(f"broker {node_id}", _broker(one), _broker(other), differs)


def _topics(direct: Snapshot, through: Snapshot) -> Iterator[ComparisonRow]:
    topics, other_topics = ({topic.name: topic for topic in one.topics} for one in (direct, through))
    for name in sorted(topics.keys() | other_topics.keys()):
        one, other = topics.get(name), other_topics.get(name)
        if one == other:
            continue
        if one is None or other is None or len(one.partitions) != len(other.partitions) or one.error != other.error:
            yield ComparisonRow(f"topic {name}", _topic(one), _topic(other), True)
            continue
        for left, right in zip(one.partitions, other.partitions, strict=True):
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
