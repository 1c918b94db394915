"""The topics and settings of a copy, from the migration file and the topics of both clusters.

Repartition topics of Kafka Streams are special: the application deletes the records that it has read from them
(DeleteRecords, KIP-204). So records may be deleted before they are copied, which is harmless: these topics have no
other readers. Streams calls such a topic APPLICATION-NAME-repartition, and sets its retention.ms to -1, so nothing else
deletes from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.endpoints import ClusterEndpoints
from kproxy.migrate.clusters.groups import GroupOffsetsClient
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.inventory_reader import read_inventory
from kproxy.migrate.clusters.topic_identities import read_migrated_topics
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copy.retention import retention_of
from kproxy.migrate.spec.migration import Migration

_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class CopySpec:
    """The topics and settings of one run of the copy."""

    name: str
    topics: Mapping[str, str]
    """Target topic of each source topic."""
    allows_gaps: frozenset[str] = frozenset()
    """Source topics in which offsets may be missing."""
    max_batch_sizes: Mapping[str, int] = field(default_factory=dict)
    """Maximum size of a batch of each target topic, in bytes."""
    skip: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offset of a partition up to which the copy may leave out records that the source has deleted."""
    repartition: frozenset[str] = frozenset()
    """Source topics whose records the copy leaves out if the application has read and deleted them."""
    retention_ms: Mapping[str, int] = field(default_factory=dict)
    """Retention time of each source topic whose records are deleted by time, in milliseconds."""
    max_rate: float = 0.0
    """Maximum rate of the copy, in bytes a second; 0 is no limit."""
    slice_size: int = 256 * 1024 * 1024
    """Size of a slice, in bytes."""
    slice_seconds: float = 30.0
    follow: bool = False
    """True to copy new records until the run is ended."""
    stall_timeout: float = 120.0
    """Without `follow`, the run ends after this many seconds without progress."""
    take_over: bool = False
    """True to end another driver that copies this migration."""
    small_rounds_in_driver: bool = False
    """True to copy small rounds without a Spark job."""
    grace: float = 40.0
    """Maximum time for which the other driver may continue its round, in seconds."""


def build_copy_spec(
    migration: Migration,
    endpoints: ClusterEndpoints,
    *,
    follow: bool = False,
    max_rate: float | None = None,
    take_over: bool = False,
    skip: Mapping[TopicPartition, int] | None = None,
) -> CopySpec:
    """Build the spec of a copy.

    A topic that was copied and does not exist on the target any more is left to the copy, which reports it. Raises
    ConfigError if another topic does not exist on the target.
    """
    with Admin(endpoints.source) as admin:
        sources = read_inventory(admin, migration.selects_topic).topics
    topics = {topic: migration.target_name(topic) for topic in sorted(sources) if migration.selects_topic(topic)}
    if not topics:
        raise ConfigError(f"topics: the source has no topic that {_selection_text(migration)}")
    target_names = set(topics.values())
    with Admin(endpoints.target) as admin:
        target_inventory = read_inventory(admin, target_names.__contains__)
    _check_target_topics(
        migration,
        endpoints.target,
        target_inventory,
        topics,
        {topic: len(sources[topic].partitions) for topic in topics},
    )
    configs = {topic: sources[topic].effective_configs for topic in topics}
    batch_sizes = {
        name: int(topic.effective_configs.get("max.message.bytes", 0))
        for name, topic in target_inventory.topics.items()
    }
    rate = max_rate if max_rate is not None else migration.limits.max_rate
    return CopySpec(
        migration.name,
        topics,
        allows_gaps=frozenset(
            topic
            for topic in topics
            if "compact" in configs[topic].get("cleanup.policy", "") or migration.allows_offset_gaps(topic)
        ),
        repartition=frozenset(topic for topic in topics if is_repartition(topic, configs[topic])),
        retention_ms={
            topic: retention
            for topic in topics
            if (retention := retention_of(configs[topic])) is not None and not is_repartition(topic, configs[topic])
        },
        max_batch_sizes={name: size for name, size in batch_sizes.items() if name in target_names and size},
        skip=skip or {},
        max_rate=(rate or 0.0) * _MB,
        slice_size=migration.limits.slice_mb * _MB,
        follow=follow,
        take_over=take_over,
    )


def _selection_text(migration: Migration) -> str:
    if migration.wave:
        return f"wave {migration.wave} of the file includes"
    return "the file includes" + (", but those of waves that are on the target" if migration.topics.moved else "")


def _check_target_topics(
    migration: Migration,
    target: str,
    inventory: Inventory,
    topics: Mapping[str, str],
    partition_counts: Mapping[str, int],
) -> None:
    """Raise ConfigError if the target lacks partitions of a topic that was not copied so far."""
    existing = {name: len(topic.partitions) for name, topic in inventory.topics.items()}
    missing = [topic for topic, name in topics.items() if existing.get(name, 0) < partition_counts[topic]]
    if missing:
        migrated = read_migrated_topics(target, migration.name)
        missing = [topic for topic in missing if topic not in migrated or not migrated[topic].ends]
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more topics" if len(missing) > 5 else "")
        raise ConfigError(f"the target lacks partitions of {shown}: run kproxy migrate prepare")


def is_repartition(topic: str, settings: Mapping[str, str | None]) -> bool:
    """Return True if name and effective settings of a topic are those of a repartition topic (pure)."""
    policy, retention = settings.get("cleanup.policy"), settings.get("retention.ms")
    return topic.endswith("-repartition") and policy == "delete" and retention == "-1"


def application_has_committed(bootstrap: str, topic: str, partition: int, end: int) -> bool:
    """Return True if the application of a repartition topic has committed `end` or a later offset.

    Its group has the application's name. If several groups match the topic's name, each that reads the topic must have.
    """
    with Admin(bootstrap) as admin:
        groups = GroupOffsetsClient(admin).read(lambda name: topic.startswith(f"{name}-"))
    committed = [group.positions[topic, partition].offset for group in groups if (topic, partition) in group.positions]
    return bool(committed) and min(committed) >= end and not any(group.unreadable for group in groups)
