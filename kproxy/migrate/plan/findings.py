"""What cannot be kept and what would be lost (pure). One function for each kind of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kproxy.migrate.clusters.inventory import Topic
from kproxy.migrate.figures import counted
from kproxy.migrate.plan.changes import (
    HELD,
    CreateTopic,
    entity_text,
    idempotent_writers,
    left_acls,
    other_quotas,
    wanted_acls,
)
from kproxy.migrate.plan.estimate import copying
from kproxy.migrate.plan.finding import NOTE, SEVERITIES, STOP, WARNING, Finding, Seen, duration
from kproxy.migrate.plan.rights import rights
from kproxy.migrate.spec.migration import SOURCE, TARGET

_OLDEST = (0, 11)  # transactions, and record batches of magic 2
# Since then, Write on any topic is enough to produce idempotently (KIP-679).
_IDEMPOTENT_FOR_ALL = (2, 8)
_FOREVER = (1 << 63) - 1
_ACTIVE = frozenset({"stable", "preparingrebalance", "completingrebalance", "assigning", "reconciling"})


def findings(seen: Seen) -> list[Finding]:
    """All of them, the worst first."""
    found = [finding for rule in _RULES for finding in rule(seen)]
    return sorted(dict.fromkeys(found), key=lambda one: SEVERITIES.index(one.severity))


def _clusters(seen: Seen) -> Iterator[Finding]:
    for side, inventory in ((SOURCE, seen.source), (TARGET, seen.target)):
        if inventory.version < _OLDEST:
            shown = ".".join(map(str, inventory.version))
            yield Finding(STOP, side, f"is Kafka {shown}; allowed: 0.11 or later")
    if not any(True for _ in seen.pairs()):
        text = "no topic of the source is wanted, or Describe on all of them is missing; allowed: other globs"
        yield Finding(STOP, "topics.include", text)
    for glob in seen.migration.topics.include:
        if not set("*?[") & set(glob) and glob not in seen.source.topics:
            yield Finding(WARNING, "topics.include", f"{glob} is no topic of the source, or Describe on it is missing")
    state = seen.migration.state_topic
    if state in seen.refused:
        yield Finding(STOP, state, f"the target would refuse to create it: {seen.refused[state]}")
    for name, topics in seen.migration.clashes(seen.source.topics).items():
        text = f"{' and '.join(topics)} would all be {name} on the target; allowed: exclude, or another rename"
        yield Finding(STOP, "topics.rename", text)


def _rates(seen: Seen) -> Iterator[Finding]:
    limit = seen.migration.limits.max_rate
    if limit is not None and seen.whole.rate >= limit * 1e6:
        text = f"{limit:g} MB/s is less than what is written on the source ({seen.whole.rate / 1e6:.1f} MB/s): the copy"
        yield Finding(STOP, "limits.max-rate", f"{text} would never catch up; allowed: a higher rate")


def _topics(seen: Seen) -> Iterator[Finding]:
    for topic, there in seen.pairs():
        name = seen.migration.target_of(topic.name)
        leaderless = [n for n, one in enumerate(topic.partitions) if one.end is None]
        if leaderless:
            shown = ", ".join(map(str, leaderless[:5]))
            yield Finding(STOP, topic.name, f"nobody leads partition {shown} on the source: repair it first")
        if name in seen.refused:
            yield Finding(STOP, name, f"the target would refuse to create it: {seen.refused[name]}")
        if there is None:
            continue
        if there.offsets and name not in seen.past.copied:
            text = f"has {counted(there.offsets, 'offset')} on the target that this migration has not written"
            yield Finding(STOP, name, f"{text}; allowed: an empty topic, another rename, or exclude")
        if len(there.partitions) > len(topic.partitions):
            text = f"has {counted(len(there.partitions), 'partition')} on the target and {len(topic.partitions)} on the"
            text += " source: after the switch, producers choose others for the same keys, and their order is not kept"
            yield Finding(WARNING, name, text)


def _lost(seen: Seen) -> Iterator[Finding]:
    """Topics that were copied, and are not what they were."""
    for topic, why in seen.lost.items():
        yield Finding(STOP, topic, why)


def _kept(seen: Seen) -> Iterator[Finding]:
    """What becomes of configurations."""
    for topic, there in seen.pairs():
        name = seen.migration.target_of(topic.name)
        source, target = topic.effective, there.effective if there is not None else {}
        if source.get("message.timestamp.type") == "LogAppendTime":
            text = "has LogAppendTime on the source: the timestamps are kept, and are of type CreateTime on the target"
            yield Finding(NOTE, topic.name, text)
        if target.get("message.timestamp.type") == "LogAppendTime":
            text = "has LogAppendTime on the target, which would replace timestamps: it has CreateTime until the switch"
            yield Finding(NOTE, name, text)
        if source.get("compression.type", "producer") != "producer":
            text = f"has compression.type={source['compression.type']} on the source: batches are copied as they are,"
            yield Finding(NOTE, topic.name, f"{text} and the target does not compress them again before the switch")
        if topic.configs.get("remote.storage.enable") == "true":
            text = "is in remote storage on the source, which the sizes do not count; remote.storage.enable is not kept"
            yield Finding(WARNING, topic.name, text)
        yield from _compaction(topic, name, source, target)
        yield from _bounds(name, target)


def _compaction(topic: Topic, name: str, source: Mapping[str, str], target: Mapping[str, str]) -> Iterator[Finding]:
    there, here = "compact" in target.get("cleanup.policy", ""), "compact" in source.get("cleanup.policy", "")
    if there and not here:
        text = "is compacted on the target and not on the source: records without a key cannot be kept there. It is"
        yield Finding(WARNING, name, f"{text} not compacted before the switch; then compaction removes them")
    elif here:
        text = "is compacted on the source, and on the target from the switch on: until then it needs the space of all"
        yield Finding(NOTE, topic.name, f"{text} records that are copied. Compaction keeps offsets")


def _bounds(name: str, target: Mapping[str, str]) -> Iterator[Finding]:
    narrow = [
        key
        for key in HELD
        if key.startswith("message.timestamp.") and key.endswith(".ms") and int(target.get(key, _FOREVER)) < _FOREVER
    ]
    if narrow:
        text = (
            f"refuses timestamps on the target ({', '.join(f'{key}={target[key]}' for key in sorted(narrow))}): these"
        )
        yield Finding(NOTE, name, f"{text} bounds are open until the switch")


def _sizes(seen: Seen) -> Iterator[Finding]:
    limits = [int(broker.configs.get("message.max.bytes", _FOREVER)) for broker in seen.target.brokers]
    least = min(limits, default=_FOREVER)
    for topic, there in seen.pairs():
        name = seen.migration.target_of(topic.name)
        largest = int(topic.effective.get("max.message.bytes", 0))
        if there is not None and there.effective and largest > int(there.effective.get("max.message.bytes", _FOREVER)):
            now = there.effective["max.message.bytes"]
            text = f"takes batches of {largest} bytes on the source and {now} on the target: raised there"
            yield Finding(NOTE, name, text)
        elif there is None and largest > least:
            text = f"takes batches of {largest} bytes on the source, the target's brokers {least}: max.message.bytes is"
            yield Finding(NOTE, name, f"{text} set for the topic. Consumers may need a larger fetch size")


def _replicas(seen: Seen) -> Iterator[Finding]:
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
                text = f"is to have {counted(replicas, 'replica')}, and the target has {counted(brokers, 'broker')}"
                yield Finding(STOP, change.topic, f"{text}; allowed: topics.replication: {brokers}")
            elif replicas and least > replicas:
                text = f"is to have {counted(replicas, 'replica')} and min.insync.replicas={least}: nothing could be"
                yield Finding(STOP, change.topic, f"{text} written; allowed: topics.replication, topics.configs")


def _retention(seen: Seen) -> Iterator[Finding]:
    """Whether the source deletes records faster than they are copied. On the target nothing is deleted before the
    switch."""
    for topic, _ in seen.pairs():
        seconds = copying(topic, seen.whole)
        if seconds is None or "delete" not in topic.effective.get("cleanup.policy", "delete") or not topic.offsets:
            continue
        ages = [("retention.ms", int(topic.effective.get("retention.ms", -1)) / 1000)]
        rate, size = topic.bytes_a_second or 0.0, int(topic.effective.get("retention.bytes", -1))
        if size >= 0 and rate > 0:
            ages.append(("retention.bytes", size * len(topic.partitions) / rate))
        for key, age in ages:
            if 0 <= age < 4 * seconds:
                text = f"keeps records for {duration(age)} on the source ({key}={topic.effective[key]}), and the copy"
                text += f" takes about {duration(seconds)}: records could be deleted before they are copied"
                severity = STOP if age < seconds else WARNING
                yield Finding(severity, topic.name, f"{text}; allowed: a higher {key} on the source until the switch")


def _others(seen: Seen) -> Iterator[Finding]:
    """Users, transactional ids, groups, ACLs, quotas."""
    there = seen.target.users or {}
    for user, credentials in (seen.source.users or {}).items():
        lacking = [f"{mechanism}" for mechanism, _ in credentials if mechanism not in dict(there.get(user, ()))]
        if lacking:
            text = (
                f"is missing on the target ({', '.join(lacking)}), and Kafka gives no passwords: create it there with"
            )
            yield Finding(WARNING, f"user {user}", f"{text} kafka-configs --alter --entity-type users")
    text = "Kafka does not show them: applications keep their ids, transactions that are open at the switch are aborted"
    yield Finding(NOTE, "transactional ids", text)
    for name, group in seen.source.groups.items():
        if not seen.migration.wants_group(name):
            continue
        other = seen.target.groups.get(name)
        if other is not None and other.state.lower().replace("_", "") in _ACTIVE:
            yield Finding(WARNING, f"group {name}", "is in use on the target: positions go to empty groups only")
        if group.kind in ("share", "streams"):
            yield Finding(NOTE, f"group {name}", f"is a {group.kind} group: what is kept of it, 'offsets' says")
    left = left_acls(seen.migration, seen.source)
    if seen.migration.acls and left:
        text = f"not copied are rights over the cluster itself, {counted(len(left), 'rule')}, such as: {left[0]}"
        yield Finding(NOTE, "ACLs", text)
    writers = idempotent_writers(seen.source)
    if seen.migration.acls and writers and seen.target.version < _IDEMPOTENT_FOR_ALL:
        shown = ", ".join(writers[:5]) + (f" and {len(writers) - 5} more" if len(writers) > 5 else "")
        text = "the target's brokers let only those produce idempotently who have IdempotentWrite on the cluster, as"
        text += f" {shown} on the source: create it there for those of them who write to these topics"
        yield Finding(WARNING, "ACLs", text)
    if seen.migration.acls and wanted_acls(seen.migration, seen.source) and seen.target.authorizes is False:
        text = "the target has no authorizer: the source's rules cannot be created there; allowed: acls: false"
        yield Finding(WARNING, "ACLs", text)
    if seen.migration.quotas:
        for entity, key, here, other_value in other_quotas(seen.source, seen.target):
            text = f"{key} is {here:g} on the source and {other_value:g} on the target, where it stays"
            yield Finding(WARNING, f"quota of {entity_text(entity)}", text)


_RULES: tuple[Callable[[Seen], Iterator[Finding]], ...] = (
    _clusters, _rates, _topics, _lost, _kept, _sizes, _replicas, _retention, rights, _others,
)  # fmt: skip
