"""What cannot be kept and what would be lost (pure). One function for each kind of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kproxy.migrate.clusters.inventory import TopicInventory
from kproxy.migrate.format import format_count
from kproxy.migrate.plan.changes import (
    HELD_CONFIGS,
    CreateTopic,
    cluster_acls,
    conflicting_quotas,
    describe_entity,
    idempotent_writers,
    translate_acls,
)
from kproxy.migrate.plan.estimate import copy_seconds
from kproxy.migrate.plan.finding import NOTE, SEVERITIES, STOP, WARNING, MigrationFinding, PlanInputs, round_duration
from kproxy.migrate.plan.rights import check_rights
from kproxy.migrate.spec.migration import SOURCE, TARGET

_OLDEST_VERSION = (0, 11)  # transactions, and record batches of magic 2
# Since then, Write on any topic is enough to produce idempotently (KIP-679).
_IDEMPOTENT_FOR_ALL = (2, 8)
_FOREVER = (1 << 63) - 1
_ACTIVE_STATES = frozenset({"stable", "preparingrebalance", "completingrebalance", "assigning", "reconciling"})


def evaluate_rules(seen: PlanInputs) -> list[MigrationFinding]:
    """All of them, the worst first."""
    found = [finding for rule in _RULES for finding in rule(seen)]
    return sorted(dict.fromkeys(found), key=lambda one: SEVERITIES.index(one.severity))


def _clusters(seen: PlanInputs) -> Iterator[MigrationFinding]:
    for side, inventory in ((SOURCE, seen.source), (TARGET, seen.target)):
        if inventory.version < _OLDEST_VERSION:
            shown = ".".join(map(str, inventory.version))
            yield MigrationFinding(STOP, side, f"is Kafka {shown}; allowed: 0.11 or later")
    if not any(True for _ in seen.topic_pairs()):
        text = "no topic of the source is wanted, or Describe on all of them is missing; allowed: other globs"
        yield MigrationFinding(STOP, "topics.include", text)
    for glob in seen.migration.topics.include:
        if not set("*?[") & set(glob) and glob not in seen.source.topics:
            yield MigrationFinding(
                WARNING, "topics.include", f"{glob} is no topic of the source, or Describe on it is missing"
            )
    state = seen.migration.state_topic
    if state in seen.refused_topics:
        yield MigrationFinding(STOP, state, f"the target would refuse to create it: {seen.refused_topics[state]}")
    for name, topics in seen.migration.name_clashes(seen.source.topics).items():
        text = f"{' and '.join(topics)} would all be {name} on the target; allowed: exclude, or another rename"
        yield MigrationFinding(STOP, "topics.rename", text)


def _rates(seen: PlanInputs) -> Iterator[MigrationFinding]:
    limit = seen.migration.limits.max_rate
    if limit is not None and seen.estimate.rate >= limit * 1e6:
        text = (
            f"{limit:g} MB/s is less than what is written on the source ({seen.estimate.rate / 1e6:.1f} MB/s): the copy"
        )
        yield MigrationFinding(STOP, "limits.max-rate", f"{text} would never catch up; allowed: a higher rate")


def _topics(seen: PlanInputs) -> Iterator[MigrationFinding]:
    for topic, there in seen.topic_pairs():
        name = seen.migration.target_name(topic.name)
        leaderless = [n for n, one in enumerate(topic.partitions) if one.end is None]
        if leaderless:
            shown = ", ".join(map(str, leaderless[:5]))
            yield MigrationFinding(STOP, topic.name, f"nobody leads partition {shown} on the source: repair it first")
        if name in seen.refused_topics:
            yield MigrationFinding(STOP, name, f"the target would refuse to create it: {seen.refused_topics[name]}")
        if there is None:
            continue
        if there.offsets and name not in seen.history.copied_topics:
            text = f"has {format_count(there.offsets, 'offset')} on the target that this migration has not written"
            yield MigrationFinding(STOP, name, f"{text}; allowed: an empty topic, another rename, or exclude")
        if len(there.partitions) > len(topic.partitions):
            text = f"has {format_count(len(there.partitions), 'partition')} on the target and {len(topic.partitions)}"
            text += (
                " on the source: after the switch, producers choose other partitions for the same keys, and the order"
            )
            text += " of records with one key is not kept"
            yield MigrationFinding(WARNING, name, text)


def _changed_topics(seen: PlanInputs) -> Iterator[MigrationFinding]:
    """Topics that were copied, and are not what they were."""
    for topic, why in seen.changed_topics.items():
        yield MigrationFinding(STOP, topic, why)


def _configs(seen: PlanInputs) -> Iterator[MigrationFinding]:
    """What becomes of configurations."""
    for topic, there in seen.topic_pairs():
        name = seen.migration.target_name(topic.name)
        source, target = topic.effective_configs, there.effective_configs if there is not None else {}
        if source.get("message.timestamp.type") == "LogAppendTime":
            text = "has LogAppendTime on the source: the timestamps are kept, and are of type CreateTime on the target"
            yield MigrationFinding(NOTE, topic.name, text)
        if target.get("message.timestamp.type") == "LogAppendTime":
            text = "has LogAppendTime on the target, which would replace timestamps: it has CreateTime until the switch"
            yield MigrationFinding(NOTE, name, text)
        if source.get("compression.type", "producer") != "producer":
            text = f"has compression.type={source['compression.type']} on the source: batches are copied as they are,"
            yield MigrationFinding(
                NOTE, topic.name, f"{text} and the target does not compress them again before the switch"
            )
        if topic.configs.get("remote.storage.enable") == "true":
            text = "is in remote storage on the source, which the sizes do not count; remote.storage.enable is not kept"
            yield MigrationFinding(WARNING, topic.name, text)
        yield from _compaction(topic, name, source, target)
        yield from _timestamp_bounds(name, target)


def _compaction(
    topic: TopicInventory, name: str, source: Mapping[str, str], target: Mapping[str, str]
) -> Iterator[MigrationFinding]:
    there, here = "compact" in target.get("cleanup.policy", ""), "compact" in source.get("cleanup.policy", "")
    if there and not here:
        text = "is compacted on the target and not on the source: records without a key cannot be kept there. It is"
        yield MigrationFinding(WARNING, name, f"{text} not compacted before the switch; then compaction removes them")
    elif here:
        text = "is compacted on the source, and on the target from the switch on: until then it needs the space of all"
        yield MigrationFinding(NOTE, topic.name, f"{text} records that are copied. Compaction keeps offsets")


def _timestamp_bounds(name: str, target: Mapping[str, str]) -> Iterator[MigrationFinding]:
    narrow = [
        key
        for key in HELD_CONFIGS
        if key.startswith("message.timestamp.") and key.endswith(".ms") and int(target.get(key, _FOREVER)) < _FOREVER
    ]
    if narrow:
        text = (
            f"refuses timestamps on the target ({', '.join(f'{key}={target[key]}' for key in sorted(narrow))}): these"
        )
        yield MigrationFinding(NOTE, name, f"{text} bounds are open until the switch")


def _sizes(seen: PlanInputs) -> Iterator[MigrationFinding]:
    limits = [int(broker.configs.get("message.max.bytes", _FOREVER)) for broker in seen.target.brokers]
    least = min(limits, default=_FOREVER)
    for topic, there in seen.topic_pairs():
        name = seen.migration.target_name(topic.name)
        largest = int(topic.effective_configs.get("max.message.bytes", 0))
        if (
            there is not None
            and there.effective_configs
            and largest > int(there.effective_configs.get("max.message.bytes", _FOREVER))
        ):
            now = there.effective_configs["max.message.bytes"]
            text = f"takes batches of {largest} bytes on the source and {now} on the target: raised there"
            yield MigrationFinding(NOTE, name, text)
        elif there is None and largest > least:
            text = f"takes batches of {largest} bytes on the source, the target's brokers {least}: max.message.bytes is"
            yield MigrationFinding(NOTE, name, f"{text} set for the topic. Consumers may need a larger fetch size")


def _replicas(seen: PlanInputs) -> Iterator[MigrationFinding]:
    brokers = len(seen.target.brokers)
    # Brokers that do not say what a new topic would have.
    given = [int(one.configs.get("default.replication.factor", 0)) for one in seen.target.brokers]
    default = seen.target.replication or max(given, default=0)
    for change in seen.changes:
        if isinstance(change, CreateTopic):
            replicas = change.replication or default
            in_sync = (seen.target.defaults or {}).get("min.insync.replicas", "1")
            least = int(change.configs.get("min.insync.replicas", in_sync))
            if replicas > brokers:
                text = f"is to have {format_count(replicas, 'replica')}, and the target has"
                text += f" {format_count(brokers, 'broker')}; allowed: topics.replication: {brokers}"
                yield MigrationFinding(STOP, change.topic, text)
            elif replicas and least > replicas:
                text = (
                    f"is to have {format_count(replicas, 'replica')} and min.insync.replicas={least}: nothing could be"
                )
                yield MigrationFinding(
                    STOP, change.topic, f"{text} written; allowed: topics.replication, topics.configs"
                )


def _retention(seen: PlanInputs) -> Iterator[MigrationFinding]:
    """Whether the source deletes records faster than they are copied. On the target nothing is deleted before the
    switch."""
    for topic, _ in seen.topic_pairs():
        seconds = copy_seconds(topic, seen.estimate)
        if (
            seconds is None
            or "delete" not in topic.effective_configs.get("cleanup.policy", "delete")
            or not topic.offsets
        ):
            continue
        ages = [("retention.ms", int(topic.effective_configs.get("retention.ms", -1)) / 1000)]
        rate, size = topic.bytes_a_second or 0.0, int(topic.effective_configs.get("retention.bytes", -1))
        if size >= 0 and rate > 0:
            ages.append(("retention.bytes", size * len(topic.partitions) / rate))
        for key, age in ages:
            if 0 <= age < 4 * seconds:
                text = f"keeps records for {round_duration(age)} on the source ({key}={topic.effective_configs[key]}),"
                text += f" and the copy takes about {round_duration(seconds)}: records could be deleted before they are"
                text += " copied"
                severity = STOP if age < seconds else WARNING
                yield MigrationFinding(
                    severity, topic.name, f"{text}; allowed: a higher {key} on the source until the switch"
                )


def _other_entities(seen: PlanInputs) -> Iterator[MigrationFinding]:
    """Users, transactional ids, groups, ACLs, quotas."""
    there = seen.target.users or {}
    for user, credentials in (seen.source.users or {}).items():
        lacking = [f"{mechanism}" for mechanism, _ in credentials if mechanism not in dict(there.get(user, ()))]
        if lacking:
            text = (
                f"is missing on the target ({', '.join(lacking)}), and Kafka gives no passwords: create it there with"
            )
            yield MigrationFinding(WARNING, f"user {user}", f"{text} kafka-configs --alter --entity-type users")
    text = "Kafka does not show them: applications keep their ids, transactions that are open at the switch are aborted"
    yield MigrationFinding(NOTE, "transactional ids", text)
    for name, group in seen.source.groups.items():
        if not seen.migration.selects_group(name):
            continue
        other = seen.target.groups.get(name)
        if other is not None and other.state.lower().replace("_", "") in _ACTIVE_STATES:
            yield MigrationFinding(
                WARNING, f"group {name}", "is in use on the target: positions go to empty groups only"
            )
        if group.kind in ("share", "streams"):
            yield MigrationFinding(
                NOTE, f"group {name}", f"is a {group.kind} group: what is kept of it, 'offsets' says"
            )
    left = cluster_acls(seen.migration, seen.source)
    if seen.migration.acls and left:
        text = f"not copied are rights over the cluster itself, {format_count(len(left), 'rule')}, such as: {left[0]}"
        yield MigrationFinding(NOTE, "ACLs", text)
    writers = idempotent_writers(seen.source)
    if seen.migration.acls and writers and seen.target.version < _IDEMPOTENT_FOR_ALL:
        shown = ", ".join(writers[:5]) + (f" and {len(writers) - 5} more" if len(writers) > 5 else "")
        text = "the target's brokers let only those produce idempotently who have IdempotentWrite on the cluster, as"
        text += f" {shown} on the source: create it there for those of them who write to these topics"
        yield MigrationFinding(WARNING, "ACLs", text)
    if seen.migration.acls and translate_acls(seen.migration, seen.source) and seen.target.has_authorizer is False:
        text = "the target has no authorizer: the source's rules cannot be created there; allowed: acls: false"
        yield MigrationFinding(WARNING, "ACLs", text)
    if seen.migration.quotas:
        for entity, key, here, other_value in conflicting_quotas(seen.source, seen.target):
            text = f"{key} is {here:g} on the source and {other_value:g} on the target, where it stays"
            yield MigrationFinding(WARNING, f"quota of {describe_entity(entity)}", text)


_RULES: tuple[Callable[[PlanInputs], Iterator[MigrationFinding]], ...] = (
    _clusters,
    _rates,
    _topics,
    _changed_topics,
    _configs,
    _sizes,
    _replicas,
    _retention,
    check_rights,
    _other_entities,
)
