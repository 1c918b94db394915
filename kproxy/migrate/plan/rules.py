"""The rules that find what cannot be kept and what would be lost (pure), one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic, Severity
from kproxy.base.format import abbreviate, format_count, format_duration
from kproxy.migrate.clusters.inventory import Inventory, InventoryGap, TopicInventory
from kproxy.migrate.plan.changes import (
    HELD_CONFIGS,
    AddPartitions,
    AlterTopic,
    Change,
    CreateAcl,
    CreateTopic,
    MigrationHistory,
    SetQuota,
    cluster_acls,
    conflicting_quotas,
    describe_entity,
    idempotent_writers,
    selected_topics,
    translate_acls,
)
from kproxy.migrate.plan.estimate import Estimate, copy_seconds
from kproxy.migrate.spec.migration import SOURCE, TARGET, Migration

_OLDEST_VERSION = (0, 11)  # transactions, and record batches of magic 2
# Since then, Write on any topic is enough to produce idempotently (KIP-679).
_IDEMPOTENT_FOR_ALL = (2, 8)
_FOREVER = (1 << 63) - 1
_ACTIVE_STATES = frozenset({"stable", "preparingrebalance", "completingrebalance", "assigning", "reconciling"})


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The inputs of all rules."""

    migration: Migration
    source: Inventory
    target: Inventory
    history: MigrationHistory
    changes: tuple[Change, ...]
    estimate: Estimate
    refused_topics: Mapping[str, str] = field(default_factory=dict)
    """By target topic, why it could not be created."""
    missing_rights: tuple[InventoryGap, ...] = ()
    """Rights on the target that are missing, found by trying."""
    principals: Mapping[str, str] = field(default_factory=dict)
    """By side, the principal of the connection, as far as it is known."""
    changed_topics: Mapping[str, str] = field(default_factory=dict)
    """By source topic with copied records, how the topic was changed since."""

    def topic_pairs(self) -> Iterator[tuple[TopicInventory, TopicInventory | None]]:
        """Yield each selected topic with the target's topic, None if it does not exist."""
        for topic in selected_topics(self.migration, self.source):
            yield topic, self.target.topics.get(self.migration.target_name(topic.name))


def evaluate_rules(inputs: PlanInputs) -> list[Diagnostic]:
    """Return the findings of all rules, the worst first."""
    findings = [finding for rule in _RULES for finding in rule(inputs)]
    return sorted(dict.fromkeys(findings), key=lambda finding: list(Severity).index(finding.severity))


def _clusters(inputs: PlanInputs) -> Iterator[Diagnostic]:
    for side, inventory in ((SOURCE, inputs.source), (TARGET, inputs.target)):
        if inventory.version < _OLDEST_VERSION:
            shown = ".".join(map(str, inventory.version))
            yield Diagnostic(ERROR, side, f"is Kafka {shown}; allowed: 0.11 or later")
    if not any(True for _ in inputs.topic_pairs()):
        text = (
            "no topic of the source is selected, or the right Describe on all of them is missing; allowed: other globs"
        )
        yield Diagnostic(ERROR, "topics.include", text)
    for glob in inputs.migration.topics.include:
        if not set("*?[") & set(glob) and glob not in inputs.source.topics:
            yield Diagnostic(
                WARNING, "topics.include", f"{glob} is no topic of the source, or Describe on it is missing"
            )
    state = inputs.migration.state_topic
    if state in inputs.refused_topics:
        yield Diagnostic(ERROR, state, f"the target would refuse to create it: {inputs.refused_topics[state]}")
    for name, topics in inputs.migration.name_clashes(inputs.source.topics).items():
        text = f"{' and '.join(topics)} would all be {name} on the target; allowed: exclude, or another rename"
        yield Diagnostic(ERROR, "topics.rename", text)


def _rates(inputs: PlanInputs) -> Iterator[Diagnostic]:
    limit = inputs.migration.limits.max_rate
    if limit is not None and inputs.estimate.rate >= limit * 1e6:
        text = (
            f"{limit:g} MB/s is less than what is written on the source ({inputs.estimate.rate / 1e6:.1f} MB/s): the"
            " copy"
        )
        yield Diagnostic(ERROR, "limits.max-rate", f"{text} would never catch up; allowed: a higher rate")


def _topics(inputs: PlanInputs) -> Iterator[Diagnostic]:
    for topic, existing in inputs.topic_pairs():
        name = inputs.migration.target_name(topic.name)
        leaderless = [n for n, partition in enumerate(topic.partitions) if partition.end is None]
        if leaderless:
            shown = ", ".join(map(str, leaderless[:5]))
            yield Diagnostic(ERROR, topic.name, f"partition {shown} has no leader on the source: repair it first")
        if name in inputs.refused_topics:
            yield Diagnostic(ERROR, name, f"the target would refuse to create it: {inputs.refused_topics[name]}")
        if existing is None:
            continue
        if existing.offsets and name not in inputs.history.copied_topics:
            text = f"has {format_count(existing.offsets, 'offset')} on the target that this migration has not written"
            yield Diagnostic(ERROR, name, f"{text}; allowed: an empty topic, another rename, or exclude")
        if len(existing.partitions) > len(topic.partitions):
            text = (
                f"has {format_count(len(existing.partitions), 'partition')} on the target and {len(topic.partitions)}"
            )
            text += (
                " on the source: after the switch, producers choose other partitions for the same keys, and the order"
            )
            text += " of records with one key is not kept"
            yield Diagnostic(WARNING, name, text)


def _changed_topics(inputs: PlanInputs) -> Iterator[Diagnostic]:
    """Yield copied topics that were deleted, replaced or truncated since."""
    for topic, why in inputs.changed_topics.items():
        yield Diagnostic(ERROR, topic, why)


def _configs(inputs: PlanInputs) -> Iterator[Diagnostic]:
    """Yield configurations that differ, or change until the switch."""
    for topic, existing in inputs.topic_pairs():
        name = inputs.migration.target_name(topic.name)
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
    narrow = [
        key
        for key in HELD_CONFIGS
        if key.startswith("message.timestamp.") and key.endswith(".ms") and int(target.get(key, _FOREVER)) < _FOREVER
    ]
    if narrow:
        text = (
            f"refuses timestamps on the target ({', '.join(f'{key}={target[key]}' for key in sorted(narrow))}): these"
        )
        yield Diagnostic(NOTE, name, f"{text} bounds are open until the switch")


def _sizes(inputs: PlanInputs) -> Iterator[Diagnostic]:
    limits = [int(broker.configs.get("message.max.bytes", _FOREVER)) for broker in inputs.target.brokers]
    least = min(limits, default=_FOREVER)
    for topic, existing in inputs.topic_pairs():
        name = inputs.migration.target_name(topic.name)
        largest = int(topic.effective_configs.get("max.message.bytes", 0))
        if (
            existing is not None
            and existing.effective_configs
            and largest > int(existing.effective_configs.get("max.message.bytes", _FOREVER))
        ):
            current = existing.effective_configs["max.message.bytes"]
            text = f"takes batches of {largest} bytes on the source and {current} on the target: raised there"
            yield Diagnostic(NOTE, name, text)
        elif existing is None and largest > least:
            text = f"takes batches of {largest} bytes on the source, the target's brokers {least}: max.message.bytes is"
            yield Diagnostic(NOTE, name, f"{text} set for the topic. Consumers may need a larger fetch size")


def _replicas(inputs: PlanInputs) -> Iterator[Diagnostic]:
    brokers = len(inputs.target.brokers)
    # For brokers that do not return the defaults of a new topic.
    factors = [int(broker.configs.get("default.replication.factor", 0)) for broker in inputs.target.brokers]
    default = inputs.target.replication or max(factors, default=0)
    for change in inputs.changes:
        if isinstance(change, CreateTopic):
            replicas = change.replication or default
            in_sync = (inputs.target.defaults or {}).get("min.insync.replicas", "1")
            least = int(change.configs.get("min.insync.replicas", in_sync))
            if replicas > brokers:
                text = f"would have {format_count(replicas, 'replica')}, and the target has"
                text += f" {format_count(brokers, 'broker')}; allowed: topics.replication: {brokers}"
                yield Diagnostic(ERROR, change.topic, text)
            elif replicas and least > replicas:
                text = (
                    f"would have {format_count(replicas, 'replica')} and min.insync.replicas={least}: no record could"
                    " be"
                )
                yield Diagnostic(ERROR, change.topic, f"{text} written; allowed: topics.replication, topics.configs")


def _retention(inputs: PlanInputs) -> Iterator[Diagnostic]:
    """Yield topics whose records the source deletes faster than they are copied.

    On the target, no record is deleted before the switch.
    """
    for topic, _ in inputs.topic_pairs():
        seconds = copy_seconds(topic, inputs.estimate)
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
                text = f"keeps records for {format_duration(age)} on the source ({key}={topic.effective_configs[key]}),"
                text += f" and the copy takes about {format_duration(seconds)}: records could be deleted before they"
                text += " are copied"
                severity = ERROR if age < seconds else WARNING
                yield Diagnostic(
                    severity, topic.name, f"{text}; allowed: a higher {key} on the source until the switch"
                )


def _other_entities(inputs: PlanInputs) -> Iterator[Diagnostic]:
    """Yield findings about users, transactional ids, groups, ACLs and quotas."""
    target_users = inputs.target.users or {}
    for user, credentials in (inputs.source.users or {}).items():
        lacking = [f"{mechanism}" for mechanism, _ in credentials if mechanism not in dict(target_users.get(user, ()))]
        if lacking:
            text = (
                f"is missing on the target ({', '.join(lacking)}), and Kafka does not return passwords: create it"
                " there with"
            )
            yield Diagnostic(WARNING, f"user {user}", f"{text} kafka-configs --alter --entity-type users")
    text = "Kafka does not show them: applications keep their ids, transactions that are open at the switch are aborted"
    yield Diagnostic(NOTE, "transactional ids", text)
    for name, group in inputs.source.groups.items():
        if not inputs.migration.selects_group(name):
            continue
        target_group = inputs.target.groups.get(name)
        if target_group is not None and target_group.state.lower().replace("_", "") in _ACTIVE_STATES:
            yield Diagnostic(
                WARNING,
                f"group {name}",
                "is in use on the target: positions can only be written to groups without members",
            )
        if group.kind in ("share", "streams"):
            yield Diagnostic(
                NOTE,
                f"group {name}",
                f"is a {group.kind} group: 'kproxy migrate offsets' shows which positions are kept",
            )
    uncopied = cluster_acls(inputs.migration, inputs.source)
    if inputs.migration.acls and uncopied:
        text = (
            f"rights over the cluster itself are not copied: {format_count(len(uncopied), 'rule')}, such as:"
            f" {uncopied[0]}"
        )
        yield Diagnostic(NOTE, "ACLs", text)
    writers = idempotent_writers(inputs.source)
    if inputs.migration.acls and writers and inputs.target.version < _IDEMPOTENT_FOR_ALL:
        text = "the target's brokers require IdempotentWrite on the cluster from idempotent producers, a right of"
        text += f" {abbreviate(writers)} on the source: create it on the target for those that write to these topics"
        yield Diagnostic(WARNING, "ACLs", text)
    if (
        inputs.migration.acls
        and translate_acls(inputs.migration, inputs.source)
        and inputs.target.has_authorizer is False
    ):
        text = "the target has no authorizer: the source's ACLs cannot be created there; allowed: acls: false"
        yield Diagnostic(WARNING, "ACLs", text)
    if inputs.migration.quotas:
        for entity, key, source_value, target_value in conflicting_quotas(inputs.source, inputs.target):
            text = (
                f"{key} is {source_value:g} on the source and {target_value:g} on the target: the target's value stays"
            )
            yield Diagnostic(WARNING, f"quota of {describe_entity(entity)}", text)


# Missing rights: which principal lacks which operation on which resource


def _rights(inputs: PlanInputs) -> Iterator[Diagnostic]:
    """Yield a finding for each missing right."""
    for topic, existing in inputs.topic_pairs():
        yield from _topic_rights(inputs, topic, existing)
    yield from _change_rights(inputs)
    for missing in inputs.missing_rights:
        yield _missing_right(inputs, ERROR, TARGET, missing.operation, missing.resource, missing.subject)
    for side, inventory in ((SOURCE, inputs.source), (TARGET, inputs.target)):
        if inventory.operations is not None and "Describe" not in inventory.operations:
            text = "brokers leave out topics and groups that this user may not describe"
            yield Diagnostic(NOTE, f"right on the {side}", text)
        for gap in inventory.gaps:
            if gap.operation:
                yield _missing_right(inputs, WARNING, side, gap.operation, gap.resource, f"to read {gap.subject}")
            else:
                yield Diagnostic(NOTE, f"{side}: {gap.subject}", f"could not be read: {gap.reason}")


def _topic_rights(inputs: PlanInputs, topic: TopicInventory, existing: TopicInventory | None) -> Iterator[Diagnostic]:
    yield from _check_operation(inputs, SOURCE, topic.operations, "Read", f"topic {topic.name}")
    if existing is not None:
        yield from _check_operation(inputs, TARGET, existing.operations, "Write", f"topic {existing.name}")
        if not existing.effective_configs:
            purpose = "to hold its retention open"
            yield _missing_right(inputs, ERROR, TARGET, "DescribeConfigs", f"topic {existing.name}", purpose)
    if not topic.effective_configs:
        text = "its configurations cannot be read on the source: the target's defaults apply"
        yield Diagnostic(WARNING, topic.name, text)


def _change_rights(inputs: PlanInputs) -> Iterator[Diagnostic]:
    for change in inputs.changes:
        if isinstance(change, (AlterTopic, AddPartitions)):
            operation = "AlterConfigs" if isinstance(change, AlterTopic) else "Alter"
            operations = inputs.target.topics[change.topic].operations
            yield from _check_operation(inputs, TARGET, operations, operation, f"topic {change.topic}")
    required = {"Alter": CreateAcl, "AlterConfigs": SetQuota}
    for operation, kind in required.items():
        if any(isinstance(change, kind) for change in inputs.changes):
            yield from _check_operation(inputs, TARGET, inputs.target.operations, operation, "the cluster")


def _check_operation(
    inputs: PlanInputs, side: str, operations: Iterable[str] | None, operation: str, resource: str
) -> Iterator[Diagnostic]:
    if operations is not None and operation not in operations:
        yield _missing_right(inputs, ERROR, side, operation, resource, "")


def _missing_right(
    inputs: PlanInputs, severity: Severity, side: str, operation: str, resource: str, purpose: str
) -> Diagnostic:
    principal = inputs.principals.get(side, "this user")
    text = f"{principal} is not allowed {operation} on {resource}" + (f", needed {purpose}" if purpose else "")
    return Diagnostic(severity, f"right on the {side}", text)


_RULES: tuple[Callable[[PlanInputs], Iterator[Diagnostic]], ...] = (
    _clusters,
    _rates,
    _topics,
    _changed_topics,
    _configs,
    _sizes,
    _replicas,
    _retention,
    _rights,
    _other_entities,
)
