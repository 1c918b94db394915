"""The topics and settings of a copy, from the migration file and the topics of both clusters."""

from __future__ import annotations

from kproxy.base.errors import ConfigError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.inventory import Inventory
from kproxy.migrate.clusters.inventory_reader import read_inventory
from kproxy.migrate.clusters.topic_identities import read_migrated_topics
from kproxy.migrate.copy.copyrun import CopySpec
from kproxy.migrate.copy.repartition import is_repartition
from kproxy.migrate.spec.migration import Migration

_MB = 1_000_000


def build_copy_spec(
    migration: Migration,
    source: str,
    target: str,
    follow: bool,
    max_rate: float | None,
    take_over: bool,
    skip: dict[tuple[str, int], int],
) -> CopySpec:
    """Build the spec of a copy.

    A topic that was copied and does not exist on the target any more is left to the copy, which reports it. Raises
    ConfigError if another topic does not exist on the target.
    """
    with Admin(source) as admin:
        source_inventory = read_inventory(admin, migration.selects_topic)
    topics = {
        topic: migration.target_name(topic)
        for topic in sorted(source_inventory.topics)
        if migration.selects_topic(topic)
    }
    target_topics = set(topics.values())
    with Admin(target) as admin:
        target_inventory = read_inventory(admin, target_topics.__contains__)
    if not topics:
        raise ConfigError("topics: the source has no topic that the file includes")
    missing = [
        topic
        for topic, name in topics.items()
        if _partition_count(target_inventory, name) < _partition_count(source_inventory, topic)
    ]
    if missing:
        copied_topics = _read_copied_topics(target, migration.name)
        missing = [topic for topic in missing if topic not in copied_topics]
    if missing:
        raise ConfigError(
            f"the target lacks partitions of {', '.join(missing[:5])}"
            + (f" and {len(missing) - 5} more topics" if len(missing) > 5 else "")
            + ": run kproxy migrate prepare"
        )
    rate = max_rate if max_rate is not None else migration.limits.max_rate
    allows_gaps = [
        topic
        for topic in topics
        if "compact" in source_inventory.topics[topic].effective_configs.get("cleanup.policy", "")
        or migration.allows_offset_gaps(topic)
    ]
    repartition = (topic for topic in topics if is_repartition(topic, source_inventory.topics[topic].effective_configs))
    return CopySpec(
        migration.name,
        topics,
        allows_gaps=frozenset(allows_gaps),
        repartition=frozenset(repartition),
        max_batch_sizes={name: size for name in target_topics if (size := _max_batch_size(target_inventory, name))},
        skip=skip,
        max_rate=(rate or 0.0) * _MB,
        slice_size=migration.limits.slice_mb * _MB,
        follow=follow,
        take_over=take_over,
    )


def _read_copied_topics(target: str, name: str) -> set[str]:
    """Return the source topics of which records were copied. Raises ConfigError if the migration was not prepared."""
    return {topic for topic, migrated_topic in read_migrated_topics(target, name).items() if migrated_topic.ends}


def _partition_count(inventory: Inventory, topic: str) -> int:
    return len(inventory.topics[topic].partitions) if topic in inventory.topics else 0


def _max_batch_size(inventory: Inventory, topic: str) -> int:
    """Return the maximum batch size of a topic, 0 if it is not visible."""
    return int(inventory.topics[topic].effective_configs.get("max.message.bytes", 0))
