"""The rules that find what cannot be kept and what would be lost (pure), one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic, Severity
from kproxy.base.format import format_count, format_duration
from kproxy.migrate.clusters.inventory import TopicInventory
from kproxy.migrate.plan.changes import (
    HELD_CONFIGS,
    AddPartitions,
    AlterTopic,
    CreateAcl,
    CreateTopic,
    SetQuota,
)
from kproxy.migrate.plan.estimate import copy_seconds
from kproxy.migrate.plan.principal_rules import PRINCIPAL_RULES
from kproxy.migrate.spec.migration import SOURCE, TARGET
from kproxy.migrate.usage.coverage import coverage_findings
from kproxy.migrate.usage.unseen import check_unseen
from kproxy.migrate.usage.wavecuts import check_waves

if TYPE_CHECKING:
    from kproxy.migrate.plan.plan import MigrationPlan

_OLDEST_VERSION = (0, 11)  # transactions, and record batches of magic 2
_FOREVER = (1 << 63) - 1
_ACTIVE_STATES = frozenset({"stable", "preparingrebalance", "completingrebalance", "assigning", "reconciling"})


def evaluate_rules(plan: MigrationPlan) -> list[Diagnostic]:
    """Return the findings of all rules, the worst first."""
    findings = [finding for rule in _RULES for finding in rule(plan)]
    findings += [Diagnostic(ERROR, topic, why) for topic, why in plan.changed_topics.items()]
    findings += plan.other_findings
    return sorted(dict.fromkeys(findings), key=lambda finding: list(Severity).index(finding.severity))


def _clusters(plan: MigrationPlan) -> Iterator[Diagnostic]:
    for side, inventory in ((SOURCE, plan.source), (TARGET, plan.target)):
        if inventory.version < _OLDEST_VERSION:
            shown = ".".join(map(str, inventory.version))
            yield Diagnostic(ERROR, side, f"is Kafka {shown}; allowed: 0.11 or later")
    if not any(True for _ in plan.topic_pairs()):
        text = "no topic of the source is selected, or the right Describe on all of them is missing"
        yield Diagnostic(ERROR, "topics.include", f"{text}; allowed: other globs")
    for glob in plan.migration.topics.include:
        if not set("*?[") & set(glob) and glob not in plan.source.topics:
            text = f"{glob} is no topic of the source, or Describe on it is missing"
            yield Diagnostic(WARNING, "topics.include", text)
    state = plan.migration.state_topic
    if state in plan.refused_topics:
        yield Diagnostic(ERROR, state, f"the target would refuse to create it: {plan.refused_topics[state]}")
    for name, topics in plan.migration.name_clashes(plan.source.topics).items():
        text = f"{' and '.join(topics)} would all be {name} on the target; allowed: exclude, or another rename"
        yield Diagnostic(ERROR, "topics.rename", text)
    limit = plan.migration.limits.max_rate
    if limit is not None and plan.estimate.rate >= limit * 1e6:
        text = f"{limit:g} MB/s is less than what is written on the source ({plan.estimate.rate / 1e6:.1f} MB/s)"
        yield Diagnostic(ERROR, "limits.max-rate", f"{text}: the copy would never catch up; allowed: a higher rate")


def _topics(plan: MigrationPlan) -> Iterator[Diagnostic]:
    for topic, existing in plan.topic_pairs():
        name = plan.migration.target_name(topic.name)
        leaderless = [n for n, partition in enumerate(topic.partitions) if partition.end is None]
        if leaderless:
            shown = ", ".join(map(str, leaderless[:5]))
            yield Diagnostic(ERROR, topic.name, f"partition {shown} has no leader on the source: repair it first")
        if name in plan.refused_topics:
            yield Diagnostic(ERROR, name, f"the target would refuse to create it: {plan.refused_topics[name]}")
        if existing is None:
            continue
        if existing.offsets and name not in plan.history.copied_topics:
            text = f"has {format_count(existing.offsets, 'offset')} on the target that this migration has not written"
            yield Diagnostic(ERROR, name, f"{text}; allowed: an empty topic, another rename, or exclude")
        if len(existing.partitions) > len(topic.partitions):
            count = format_count(len(existing.partitions), "partition")
            text = f"has {count} on the target and {len(topic.partitions)} on the source: after the switch, producers"
            text += " choose other partitions for the same keys, and the order of records with one key is not kept"
            yield Diagnostic(WARNING, name, text)


def _configs(plan: MigrationPlan) -> Iterator[Diagnostic]:
    """Yield configurations that differ, or change until the switch."""
    for topic, existing in plan.topic_pairs():
        name = plan.migration.target_name(topic.name)
        source, target = topic.effective_configs, existing.effective_configs if existing is not None else {}
        if source.get("message.timestamp.type") == "LogAppendTime":
            text = "has LogAppendTime on the source: the timestamps are kept, and are of type CreateTime on the target"
            yield Diagnostic(NOTE, topic.name, text)
        if target.get("message.timestamp.type") == "LogAppendTime":
            text = "has LogAppendTime on the target, which would replace timestamps: it has CreateTime until the switch"
            yield Diagnostic(NOTE, name, text)
        if source.get("compression.type", "producer") != "producer":
            text = f"has compression.type={source['compression.type']} on the source: batches are copied as they are,"
            yield Diagnostic(NOTE, topic.name, f"{text} and the target does not compress them again before the switch")
        if topic.configs.get("remote.storage.enable") == "true":
            text = "is in remote storage on the source, which the sizes do not count; remote.storage.enable is not kept"
            yield Diagnostic(WARNING, topic.name, text)
        yield from _compaction(topic, name, source, target)
        yield from _timestamp_bounds(name, target)


def _compaction(
    topic: TopicInventory, name: str, source: Mapping[str, str], target: Mapping[str, str]
) -> Iterator[Diagnostic]:
    on_target, on_source = "compact" in target.get("cleanup.policy", ""), "compact" in source.get("cleanup.policy", "")
    if on_target and not on_source:
        text = "is compacted on the target and not on the source: records without a key cannot be kept there. It is"
        yield Diagnostic(WARNING, name, f"{text} not compacted before the switch; then compaction removes them")
    elif on_source:
        text = "is compacted on the source, and on the target from the switch on: until then it needs the space of all"
        yield Diagnostic(NOTE, topic.name, f"{text} records that are copied. Compaction keeps offsets")


def _timestamp_bounds(name: str, target: Mapping[str, str]) -> Iterator[Diagnostic]:
    bounds = sorted(key for key in HELD_CONFIGS if key.startswith("message.timestamp.") and key.endswith(".ms"))
    narrow = [f"{key}={target[key]}" for key in bounds if int(target.get(key, _FOREVER)) < _FOREVER]
    if narrow:
        text = f"refuses timestamps on the target ({', '.join(narrow)}): these bounds are open until the switch"
        yield Diagnostic(NOTE, name, text)


def _sizes(plan: MigrationPlan) -> Iterator[Diagnostic]:
    limits = [int(broker.configs.get("message.max.bytes", _FOREVER)) for broker in plan.target.brokers]
    least = min(limits, default=_FOREVER)
    for topic, existing in plan.topic_pairs():
        name = plan.migration.target_name(topic.name)
        largest = int(topic.effective_configs.get("max.message.bytes", 0))
        current = None if existing is None else int(existing.effective_configs.get("max.message.bytes", _FOREVER))
        if current is not None and largest > current:
            text = f"takes batches of {largest} bytes on the source and {current} on the target: raised there"
            yield Diagnostic(NOTE, name, text)
        elif current is None and largest > least:
            text = f"takes batches of {largest} bytes on the source, the target's brokers {least}: max.message.bytes is"
            yield Diagnostic(NOTE, name, f"{text} set for the topic. Consumers may need a larger fetch size")


def _replicas(plan: MigrationPlan) -> Iterator[Diagnostic]:
    brokers = len(plan.target.brokers)
    # For brokers that do not return the defaults of a new topic.
    factors = [int(broker.configs.get("default.replication.factor", 0)) for broker in plan.target.brokers]
    default = plan.target.replication or max(factors, default=0)
    for change in plan.changes:
        if isinstance(change, CreateTopic):
            replicas = change.replication or default
            in_sync = (plan.target.defaults or {}).get("min.insync.replicas", "1")
            least = int(change.configs.get("min.insync.replicas", in_sync))
            if replicas > brokers:
                text = f"would have {format_count(replicas, 'replica')}, and the target has"
                text += f" {format_count(brokers, 'broker')}; allowed: topics.replication: {brokers}"
                yield Diagnostic(ERROR, change.topic, text)
            elif replicas and least > replicas:
                text = f"would have {format_count(replicas, 'replica')} and min.insync.replicas={least}: no record"
                text += " could be written; allowed: topics.replication, topics.configs"
                yield Diagnostic(ERROR, change.topic, text)


def _retention(plan: MigrationPlan) -> Iterator[Diagnostic]:
    """Yield topics whose records the source deletes faster than they are copied.

    On the target, no record is deleted before the switch.
    """
    for topic, _ in plan.topic_pairs():
        seconds = copy_seconds(topic, plan.estimate)
        is_deleted = "delete" in topic.effective_configs.get("cleanup.policy", "delete")
        if seconds is None or not is_deleted or not topic.offsets:
            continue
        ages = [("retention.ms", int(topic.effective_configs.get("retention.ms", -1)) / 1000)]
        rate, size = topic.bytes_a_second or 0.0, int(topic.effective_configs.get("retention.bytes", -1))
        if size >= 0 and rate > 0:
            ages.append(("retention.bytes", size * len(topic.partitions) / rate))
        for key, age in ages:
            if 0 <= age < 4 * seconds:
                text = f"keeps records for {format_duration(age)} on the source ({key}={topic.effective_configs[key]}),"
                text += f" and the copy takes about {format_duration(seconds)}: records could be deleted before they"
                text += f" are copied; allowed: a higher {key} on the source until the switch"
                yield Diagnostic(ERROR if age < seconds else WARNING, topic.name, text)


def _groups(plan: MigrationPlan) -> Iterator[Diagnostic]:
    """Yield findings about transactional ids and groups."""
    why = "Applications keep their ids; transactions that are open at the switch are aborted."
    yield Diagnostic(NOTE, "transactional ids", "Kafka does not show them", why=why)
    for name, group in plan.source.groups.items():
        if not plan.migration.selects_group(name):
            continue
        target_group = plan.target.groups.get(name)
        if target_group is not None and target_group.state.lower().replace("_", "") in _ACTIVE_STATES:
            text = "is in use on the target: positions can only be written to groups without members"
            yield Diagnostic(WARNING, f"group {name}", text)
        if group.kind in ("share", "streams"):
            text = f"is a {group.kind} group: 'kproxy migrate offsets' shows which positions are kept"
            yield Diagnostic(NOTE, f"group {name}", text)


# Missing rights: which principal lacks which operation on which resource


def _rights(plan: MigrationPlan) -> Iterator[Diagnostic]:
    """Yield a finding for each missing right."""
    for topic, existing in plan.topic_pairs():
        yield from _topic_rights(plan, topic, existing)
    yield from _change_rights(plan)
    for missing in plan.missing_rights:
        yield _missing_right(plan, ERROR, TARGET, missing.operation, missing.resource, missing.subject)
    for side, inventory in ((SOURCE, plan.source), (TARGET, plan.target)):
        if inventory.operations is not None and "Describe" not in inventory.operations:
            text = "brokers leave out topics and groups that this user may not describe"
            yield Diagnostic(NOTE, f"right on the {side}", text)
        for gap in inventory.gaps:
            if gap.operation:
                yield _missing_right(plan, WARNING, side, gap.operation, gap.resource, f"to read {gap.subject}")
            else:
                yield Diagnostic(NOTE, f"{side}: {gap.subject}", f"could not be read: {gap.reason}")


def _topic_rights(plan: MigrationPlan, topic: TopicInventory, existing: TopicInventory | None) -> Iterator[Diagnostic]:
    yield from _check_operation(plan, SOURCE, topic.operations, "Read", f"topic {topic.name}")
    if existing is not None:
        yield from _check_operation(plan, TARGET, existing.operations, "Write", f"topic {existing.name}")
        if not existing.effective_configs:
            purpose = "to hold its retention open"
            yield _missing_right(plan, ERROR, TARGET, "DescribeConfigs", f"topic {existing.name}", purpose)
    if not topic.effective_configs:
        text = "its configurations cannot be read on the source: the target's defaults apply"
        yield Diagnostic(WARNING, topic.name, text)


def _change_rights(plan: MigrationPlan) -> Iterator[Diagnostic]:
    for change in plan.changes:
        if isinstance(change, (AlterTopic, AddPartitions)):
            operation = "AlterConfigs" if isinstance(change, AlterTopic) else "Alter"
            operations = plan.target.topics[change.topic].operations
            yield from _check_operation(plan, TARGET, operations, operation, f"topic {change.topic}")
    required = {"Alter": CreateAcl, "AlterConfigs": SetQuota}
    for operation, kind in required.items():
        if any(isinstance(change, kind) for change in plan.changes):
            yield from _check_operation(plan, TARGET, plan.target.operations, operation, "the cluster")


def _check_operation(
    plan: MigrationPlan, side: str, operations: Iterable[str] | None, operation: str, resource: str
) -> Iterator[Diagnostic]:
    if operations is not None and operation not in operations:
        yield _missing_right(plan, ERROR, side, operation, resource, "")


def _missing_right(
    plan: MigrationPlan, severity: Severity, side: str, operation: str, resource: str, purpose: str
) -> Diagnostic:
    text = f"{principal(getattr(plan.migration, side))} is not allowed {operation} on {resource}"
    text += f", needed {purpose}" if purpose else ""
    return Diagnostic(severity, f"right on the {side}", text)


def principal(options: Mapping[str, Any]) -> str:
    """Return the principal of a connection with these options.

    Brokers do not return it, and may map names to others.
    """
    user = options.get("sasl-username")
    if isinstance(user, str):
        return f"User:{user}"
    for key in ("sasl", "client-config", "tls-cert"):
        if options.get(key):
            return f"the user of {key} {options[key]}"
    return "User:ANONYMOUS"


def _observed(plan: MigrationPlan) -> Iterator[Diagnostic]:
    yield from check_waves(plan.migration.waves, plan.usage)
    if plan.usage is not None:
        yield from coverage_findings(plan.usage)
        # Only the switch stops.
        yield from check_unseen(plan.usage, selects_topic=plan.migration.selects_topic, severity=WARNING)


_RULES: tuple[Callable[[MigrationPlan], Iterator[Diagnostic]], ...] = (
    _clusters,
    _topics,
    _configs,
    _sizes,
    _replicas,
    _retention,
    _rights,
    *PRINCIPAL_RULES,
    _groups,
    _observed,
)
