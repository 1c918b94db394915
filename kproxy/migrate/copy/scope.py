"""What a copy copies, from the file of the migration and from what both clusters have."""

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
    """From the file and from what both clusters have. A topic to which records were copied and that is not there any
    more is the copy's to judge. Raises ConfigError if another topic is not there on the target."""
    with Admin(source) as admin:
        there = read_inventory(admin, migration.selects_topic)
    topics = {topic: migration.target_name(topic) for topic in sorted(there.topics) if migration.selects_topic(topic)}
    wanted = set(topics.values())
    with Admin(target) as admin:
        here = read_inventory(admin, wanted.__contains__)
    if not topics:
        raise ConfigError("topics: the source has no topic that the file includes")
    missing = [topic for topic, name in topics.items() if _partitions(here, name) < _partitions(there, topic)]
    if missing:
        begun = _copied_to(target, migration.name)
        missing = [topic for topic in missing if topic not in begun]
    if missing:
        raise ConfigError(
            f"the target has not all partitions of {', '.join(missing[:5])}"
            + (f" and {len(missing) - 5} more topics" if len(missing) > 5 else "")
            + ": run kproxy migrate prepare"
        )
    rate = max_rate if max_rate is not None else migration.limits.max_rate
    compacted = [
        topic
        for topic in topics
        if "compact" in there.topics[topic].effective_configs.get("cleanup.policy", "")
        or migration.allows_offset_gaps(topic)
    ]
    repartition = (topic for topic in topics if is_repartition(topic, there.topics[topic].effective_configs))
    return CopySpec(
        migration.name,
        topics,
        allows_gaps=frozenset(compacted),
        repartition=frozenset(repartition),
        max_batch_sizes={name: size for name in wanted if (size := _max_batch_size(here, name))},
        skip=skip,
        max_rate=(rate or 0.0) * _MB,
        slice_size=migration.limits.slice_mb * _MB,
        follow=follow,
        take_over=take_over,
    )


def _copied_to(target: str, name: str) -> set[str]:
    """The topics of the source of which records were copied. Raises ConfigError if nothing was prepared; UpstreamError
    and WireError."""
    return {topic for topic, one in read_migrated_topics(target, name).items() if one.ends}


def _partitions(inventory: Inventory, topic: str) -> int:
    return len(inventory.topics[topic].partitions) if topic in inventory.topics else 0


def _max_batch_size(inventory: Inventory, topic: str) -> int:
    """What the topic takes as a batch; 0 if one may not see it."""
    return int(inventory.topics[topic].effective_configs.get("max.message.bytes", 0))
