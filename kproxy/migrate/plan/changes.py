"""The changes to make on the target before records can be copied (pure): `plan` shows them, `prepare` applies them.

While records are copied, target topics have other configurations (*held*) than in the end (*final*): no record is
deleted or compacted, no timestamp replaced or refused, no batch recompressed. The journal keeps the final
configurations for the end of the migration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.base.format import format_count
from kproxy.migrate.clusters.inventory import RELEVANT_CONFIGS, Acl, Inventory, QuotaEntity, TopicInventory
from kproxy.migrate.copier.state import STATE_PARTITIONS
from kproxy.migrate.plan.principals import describe_entity, missing_quotas, selected_topics, translate_acls
from kproxy.migrate.spec.migration import Migration

_FOREVER = "9223372036854775807"
# As long as records are copied. Compaction keeps offsets, so the offset map would stay exact; but brokers compact
# whenever they like, and what one side has removed and the other not could not be told from a loss.
HELD_CONFIGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "message.timestamp.after.max.ms": _FOREVER,
    "message.timestamp.before.max.ms": _FOREVER,
    "message.timestamp.difference.max.ms": _FOREVER,
    "message.timestamp.type": "CreateTime",
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
# Of one cluster only: its brokers' numbers, its remote storage, and what new brokers ignore.
_CLUSTER_SPECIFIC_CONFIGS = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "message.downconversion.enable",
        "message.format.version",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)


@dataclass(frozen=True, slots=True)
class MigrationHistory:
    """The changes and copies that were made before for this migration."""

    final_configs: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """By target topic, the configurations that it gets in the end, from the journal."""
    copied_topics: frozenset[str] = frozenset()
    """Target topics to which records were copied."""
    created_topics: frozenset[str] = frozenset()
    """Target topics that `prepare` created."""
    has_state_topic: bool = False
    """True if the state topic exists."""


@dataclass(frozen=True, slots=True)
class CreateState:
    """The creation of the state topic."""

    topic: str
    replication: int | None = None
    kind = "state"

    def __str__(self) -> str:
        return f"create topic {self.topic}: the state of the migration, {STATE_PARTITIONS} partitions, compacted"


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """The creation of a topic."""

    topic: str
    partitions: int
    replication: int | None
    configs: Mapping[str, str]
    """Configurations while records are copied."""
    final_configs: Mapping[str, str | None]
    """Configurations that change in the end; None removes one."""
    kind = "topic"

    def __str__(self) -> str:
        copies = format_count(self.replication, "replica") if self.replication else "the brokers' number of replicas"
        text = f"create topic {self.topic}: {format_count(self.partitions, 'partition')}, {copies}"
        return text + _describe_configs(self.configs, self.final_configs)


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """The addition of partitions to an existing topic."""

    topic: str
    before: int
    after: int
    kind = "partitions"

    def __str__(self) -> str:
        return f"add partitions to topic {self.topic}: {self.before} to {self.after}"


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """A change of configurations of an existing topic; None removes one."""

    topic: str
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]
    """The new values; if it is empty, only `final_configs` is recorded."""
    final_configs: Mapping[str, str | None]
    kind = "configs"

    def __str__(self) -> str:
        if not self.after:
            return f"record for topic {self.topic}{_describe_configs({}, self.final_configs)}"
        return f"alter topic {self.topic}{_describe_configs(self.after, self.final_configs)}"


@dataclass(frozen=True, slots=True)
class CreateAcl:
    """The creation of an ACL."""

    acl: Acl
    kind = "acl"

    def __str__(self) -> str:
        return f"create ACL: {self.acl}"


@dataclass(frozen=True, slots=True)
class SetQuota:
    """A change of quotas of one entity."""

    entity: QuotaEntity
    before: Mapping[str, float | None]
    """The former values; None where there was no quota."""
    after: Mapping[str, float]
    kind = "quota"

    def __str__(self) -> str:
        values = _join_values({key: f"{value:.15g}" for key, value in self.after.items()})
        return f"set quota of {describe_entity(self.entity)}: {values}"


Change = CreateState | CreateTopic | AddPartitions | AlterTopic | CreateAcl | SetQuota


def _join_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_display_value(value)}" for key, value in sorted(values.items()))


def _describe_configs(configs: Mapping[str, str | None], final: Mapping[str, str | None]) -> str:
    lasting = {key: value for key, value in configs.items() if key not in final}
    text = f"; {_join_values(lasting)}" if lasting else ""
    held = [
        f"{key}{'=' + _display_value(configs[key]) if key in configs else ''} (then {_display_value(value)})"
        for key, value in sorted(final.items())
    ]
    return text + (f"; until the switch {', '.join(held)}" if held else "")


def _display_value(value: str | None) -> str:
    return "default" if value is None else "unlimited" if value == _FOREVER else value


def plan_changes(migration: Migration, source: Inventory, target: Inventory, history: MigrationHistory) -> list[Change]:
    """Return the changes in the order in which they must be applied; empty if nothing is left to do."""
    changes: list[Change] = []
    if not history.has_state_topic:
        changes.append(CreateState(migration.state_topic, migration.topics.replication))
    for topic in selected_topics(migration, source):
        changes += _topic_changes(migration, source, target, history, topic)
    if migration.acls and target.acls is not None and target.has_authorizer:
        existing = set(target.acls)
        changes += [CreateAcl(acl) for acl in translate_acls(migration, source) if acl not in existing]
    if migration.quotas and source.quotas is not None and target.quotas is not None:
        for entity, values in missing_quotas(migration, source, target):
            changes.append(SetQuota(entity, {key: None for key in values}, values))
    return changes


def _topic_changes(
    migration: Migration, source: Inventory, target: Inventory, history: MigrationHistory, topic: TopicInventory
) -> Iterator[Change]:
    name = migration.target_name(topic.name)
    final = final_configs(migration, topic, source, target)
    held = held_configs(final, topic, target)
    existing = target.topics.get(name)
    restored: dict[str, str | None] = {key: final.get(key) for key in held if final.get(key) != held[key]}
    if existing is None:
        yield CreateTopic(name, len(topic.partitions), migration.topics.replication, held, restored)
        return
    if len(existing.partitions) < len(topic.partitions):
        yield AddPartitions(name, len(existing.partitions), len(topic.partitions))
    if not existing.effective_configs:
        return  # one may not see them: then one may not change them either
    open_now = {key: value for key, value in HELD_CONFIGS.items() if key in existing.effective_configs}
    if name in history.created_topics:
        # What the source has now, as if it were created now.
        held |= open_now
        restored |= {
            key: final.get(key) for key in _differing_configs(open_now, existing) if final.get(key) != open_now[key]
        }
    else:
        # Configurations of an existing topic are restored after the switch.
        held = open_now | _batch_size_config(topic, existing.effective_configs)
        restored = dict(
            history.final_configs.get(
                name, {key: existing.configs.get(key) for key in _differing_configs(held, existing)}
            )
        )
    after = _differing_configs(held, existing)
    if after or restored != history.final_configs.get(name, {}):
        yield AlterTopic(name, {key: existing.configs.get(key) for key in after}, after, restored)


def _differing_configs(held: Mapping[str, str], existing: TopicInventory) -> dict[str, str]:
    current = {**existing.effective_configs, **existing.configs}
    return {key: value for key, value in held.items() if current.get(key) != value}


def _batch_size_config(topic: TopicInventory, target_configs: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration that admits the largest batches of the source; never lower than the current value."""
    largest, allowed = topic.effective_configs.get("max.message.bytes"), target_configs.get("max.message.bytes")
    if largest and allowed and int(largest) > int(allowed):
        return {"max.message.bytes": largest}
    return {}


def final_configs(migration: Migration, topic: TopicInventory, source: Inventory, target: Inventory) -> dict[str, str]:
    """Return the configurations that a created topic gets in the end.

    These are the values that were set on the source, and relevant values in which the brokers' defaults differ. The
    file's `topics.configs` takes precedence.
    """
    configs = {key: value for key, value in topic.configs.items() if key not in _CLUSTER_SPECIFIC_CONFIGS}
    for key in RELEVANT_CONFIGS:
        value = topic.effective_configs.get(key)
        if value is not None and (target.defaults is None or target.defaults.get(key) not in (None, value)):
            configs.setdefault(key, value)
    if target.defaults is not None:
        if "message.timestamp.difference.max.ms" not in target.defaults:
            bound = configs.pop("message.timestamp.difference.max.ms", None)  # Kafka 4.0 has two in its place (KIP-937)
            if bound is not None and bound != _FOREVER:
                configs.setdefault("message.timestamp.before.max.ms", bound)
                configs.setdefault("message.timestamp.after.max.ms", bound)
        configs = {key: value for key, value in configs.items() if key in target.defaults}
        configs = {
            key: value for key, value in configs.items() if key in topic.configs or target.defaults[key] != value
        }
    return {**configs, **migration.topics.configs}


def held_configs(final: Mapping[str, str], topic: TopicInventory, target: Inventory) -> dict[str, str]:
    """Return the configurations of a topic while records are copied."""
    held = dict(final)
    for key, value in HELD_CONFIGS.items():
        default = None if target.defaults is None else target.defaults.get(key)
        is_supported = target.defaults is None or key in target.defaults
        if target.defaults is None and key.startswith("message.timestamp.") and key not in topic.effective_configs:
            continue  # brokers that do not have it refuse it
        if is_supported and (key in final or default != value):
            held[key] = value
    return held | _batch_size_config(topic, {**(target.defaults or {}), **held})
