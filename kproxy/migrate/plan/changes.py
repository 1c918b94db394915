"""What has to be done on the target before records can be copied (pure): `plan` shows it, `prepare` does it.

While records are copied, a topic of the target has other configurations than it is to have in the end (`held`):
nothing is deleted, nothing is compacted, no timestamp is replaced or refused, no batch is recompressed. What it is to
have is *wanted*; the journal keeps it for the switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.migrate.clusters.inventory import RELEVANT_CONFIGS, Acl, Inventory, QuotaEntity, TopicInventory
from kproxy.migrate.copier.state import STATE_PARTITIONS
from kproxy.migrate.format import format_count
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
_LITERAL, _PREFIXED = 3, 4
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5
_IDEMPOTENT_WRITE = 12
_ALLOW = 3


@dataclass(frozen=True, slots=True)
class MigrationHistory:
    """What has been done for this migration. `wanted`: by topic of the target, from the journal. `copied`: topics of
    the target to which records have been copied. `created`: those that `prepare` made. `state`: the state topic is
    there."""

    final_configs: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    copied_topics: frozenset[str] = frozenset()
    created_topics: frozenset[str] = frozenset()
    has_state_topic: bool = False


@dataclass(frozen=True, slots=True)
class CreateState:
    """The state topic."""

    topic: str
    replication: int | None = None
    kind = "state"

    def __str__(self) -> str:
        return f"create topic {self.topic}: the state of the migration, {STATE_PARTITIONS} partitions, compacted"


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """`configs`: while records are copied. `wanted`: those of them that are to change then; None removes one."""

    topic: str
    partitions: int
    replication: int | None
    configs: Mapping[str, str]
    final_configs: Mapping[str, str | None]
    kind = "topic"

    def __str__(self) -> str:
        copies = format_count(self.replication, "replica") if self.replication else "the brokers' number of replicas"
        text = f"create topic {self.topic}: {format_count(self.partitions, 'partition')}, {copies}"
        return text + _describe_configs(self.configs, self.final_configs)


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """To a topic that is there."""

    topic: str
    before: int
    after: int
    kind = "partitions"

    def __str__(self) -> str:
        return f"add partitions to topic {self.topic}: {self.before} to {self.after}"


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """Configurations of a topic that is there; None removes one. Nothing in `after`: only `wanted` is to be kept."""

    topic: str
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]
    final_configs: Mapping[str, str | None]
    kind = "configs"

    def __str__(self) -> str:
        if not self.after:
            return f"note for topic {self.topic}{_describe_configs({}, self.final_configs)}"
        return f"alter topic {self.topic}{_describe_configs(self.after, self.final_configs)}"


@dataclass(frozen=True, slots=True)
class CreateAcl:
    """A rule."""

    acl: Acl
    kind = "acl"

    def __str__(self) -> str:
        return f"create ACL: {self.acl}"


@dataclass(frozen=True, slots=True)
class SetQuota:
    """Of one entity. `before`: None where there was none."""

    entity: QuotaEntity
    before: Mapping[str, float | None]
    after: Mapping[str, float]
    kind = "quota"

    def __str__(self) -> str:
        values = _join_values({key: f"{value:.15g}" for key, value in self.after.items()})
        return f"set quota of {describe_entity(self.entity)}: {values}"


Change = CreateState | CreateTopic | AddPartitions | AlterTopic | CreateAcl | SetQuota


def describe_entity(entity: QuotaEntity) -> str:
    """Of whom a quota is."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


def _join_values(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_display_value(value)}" for key, value in sorted(given.items()))


def _describe_configs(now: Mapping[str, str | None], wanted: Mapping[str, str | None]) -> str:
    lasting = {key: value for key, value in now.items() if key not in wanted}
    text = f"; {_join_values(lasting)}" if lasting else ""
    held = [
        f"{key}{'=' + _display_value(now[key]) if key in now else ''} (then {_display_value(value)})"
        for key, value in sorted(wanted.items())
    ]
    return text + (f"; until the switch {', '.join(held)}" if held else "")


def _display_value(value: str | None) -> str:
    return "default" if value is None else "unlimited" if value == _FOREVER else value


def plan_changes(migration: Migration, source: Inventory, target: Inventory, past: MigrationHistory) -> list[Change]:
    """All of them, in the order in which they are to be done. Empty if there is nothing to do."""
    found: list[Change] = []
    if not past.has_state_topic:
        found.append(CreateState(migration.state_topic, migration.topics.replication))
    for topic in selected_topics(migration, source):
        found += _topic_changes(migration, source, target, past, topic)
    if migration.acls and target.acls is not None and target.has_authorizer:
        there = set(target.acls)
        found += [CreateAcl(acl) for acl in translate_acls(migration, source) if acl not in there]
    if migration.quotas and source.quotas is not None and target.quotas is not None:
        found += _missing_quotas(source.quotas, target.quotas)
    return found


def selected_topics(migration: Migration, source: Inventory) -> list[TopicInventory]:
    """The topics of the source that this migration is about."""
    return [topic for name, topic in sorted(source.topics.items()) if migration.selects_topic(name)]


def _topic_changes(
    migration: Migration, source: Inventory, target: Inventory, past: MigrationHistory, topic: TopicInventory
) -> Iterator[Change]:
    name = migration.target_name(topic.name)
    final = final_configs(migration, topic, source, target)
    held = held_configs(final, topic, target)
    there = target.topics.get(name)
    wanted: dict[str, str | None] = {key: final.get(key) for key in held if final.get(key) != held[key]}
    if there is None:
        yield CreateTopic(name, len(topic.partitions), migration.topics.replication, held, wanted)
        return
    if len(there.partitions) < len(topic.partitions):
        yield AddPartitions(name, len(there.partitions), len(topic.partitions))
    if not there.effective_configs:
        return  # one may not see them: then one may not change them either
    open_now = {key: value for key, value in HELD_CONFIGS.items() if key in there.effective_configs}
    if name in past.created_topics:
        # What the source has now, as if it were created now.
        held |= open_now
        wanted |= {
            key: final.get(key) for key in _differing_configs(open_now, there) if final.get(key) != open_now[key]
        }
    else:
        # What somebody has given to it stays, and is there again after the switch.
        held = open_now | _batch_size_config(topic, there.effective_configs)
        wanted = dict(
            past.final_configs.get(name, {key: there.configs.get(key) for key in _differing_configs(held, there)})
        )
    after = _differing_configs(held, there)
    if after or wanted != past.final_configs.get(name, {}):
        yield AlterTopic(name, {key: there.configs.get(key) for key in after}, after, wanted)


def _differing_configs(held: Mapping[str, str], there: TopicInventory) -> dict[str, str]:
    now = {**there.effective_configs, **there.configs}
    return {key: value for key, value in held.items() if now.get(key) != value}


def _batch_size_config(topic: TopicInventory, there: Mapping[str, str]) -> dict[str, str]:
    """For the largest batches that the source takes. Never less than there is."""
    largest, allowed = topic.effective_configs.get("max.message.bytes"), there.get("max.message.bytes")
    if largest and allowed and int(largest) > int(allowed):
        return {"max.message.bytes": largest}
    return {}


def final_configs(migration: Migration, topic: TopicInventory, source: Inventory, target: Inventory) -> dict[str, str]:
    """What a topic that is created is to have in the end: what was set for it on the source, and what its brokers'
    defaults differ in where that matters. The document has the last word."""
    wanted = {key: value for key, value in topic.configs.items() if key not in _CLUSTER_SPECIFIC_CONFIGS}
    for key in RELEVANT_CONFIGS:
        value = topic.effective_configs.get(key)
        if value is not None and (target.defaults is None or target.defaults.get(key) not in (None, value)):
            wanted.setdefault(key, value)
    if target.defaults is not None:
        if "message.timestamp.difference.max.ms" not in target.defaults:
            old = wanted.pop("message.timestamp.difference.max.ms", None)  # Kafka 4.0 has two in its place (KIP-937)
            if old is not None and old != _FOREVER:
                wanted.setdefault("message.timestamp.before.max.ms", old)
                wanted.setdefault("message.timestamp.after.max.ms", old)
        wanted = {key: value for key, value in wanted.items() if key in target.defaults}
        wanted = {key: value for key, value in wanted.items() if key in topic.configs or target.defaults[key] != value}
    return {**wanted, **migration.topics.configs}


def held_configs(final: Mapping[str, str], topic: TopicInventory, target: Inventory) -> dict[str, str]:
    """What it has while records are copied."""
    held = dict(final)
    for key, value in HELD_CONFIGS.items():
        default = None if target.defaults is None else target.defaults.get(key)
        known = target.defaults is None or key in target.defaults
        if target.defaults is None and key.startswith("message.timestamp.") and key not in topic.effective_configs:
            continue  # brokers that do not have it refuse it
        if known and (key in final or default != value):
            held[key] = value
    return held | _batch_size_config(topic, {**(target.defaults or {}), **held})


# ACLs and quotas


def translate_acls(migration: Migration, source: Inventory) -> list[Acl]:
    """The rules of the source that make sense on the target: for topics and groups of the migration, under their names
    there, and for transactional ids. Each once. None of them gives a right over the cluster."""
    found: dict[Acl, None] = {}
    names = [topic.name for topic in selected_topics(migration, source)]
    for acl in source.acls or ():
        if acl.resource == _TOPIC:
            for one in _translate_topic_acl(migration, acl, names):
                found.setdefault(one)
        elif acl.resource == _GROUP:
            if acl.pattern == _PREFIXED or acl.name == "*" or migration.selects_group(acl.name):
                found.setdefault(acl)
        elif acl.resource == _TRANSACTIONAL_ID:
            found.setdefault(acl)
    return sorted(found)


def cluster_acls(migration: Migration, source: Inventory) -> list[Acl]:
    """The rules of the source that are not copied, as they give rights over the cluster itself."""
    return [acl for acl in source.acls or () if acl.resource not in (_TOPIC, _GROUP, _TRANSACTIONAL_ID)]


def idempotent_writers(source: Inventory) -> list[str]:
    """The principals that may produce idempotently whatever else they may."""
    found = (one for one in source.acls or () if (one.resource, one.operation) == (_CLUSTER, _IDEMPOTENT_WRITE))
    return sorted({one.principal for one in found if one.permission == _ALLOW})


def _translate_topic_acl(migration: Migration, acl: Acl, names: Iterable[str]) -> Iterator[Acl]:
    if acl.name == "*":
        yield acl
        return
    matched = [n for n in names if (n.startswith(acl.name) if acl.pattern == _PREFIXED else n == acl.name)]
    renamed = {name: migration.target_name(name) for name in matched}
    if acl.pattern == _PREFIXED and all(new.startswith(acl.name) for new in renamed.values()):
        if matched:
            yield acl
        return
    for name, new in renamed.items():
        # A prefix does not fit names that are others now: one rule for each.
        if acl.pattern == _LITERAL or not new.startswith(acl.name):
            yield Acl(acl.resource, new, _LITERAL, acl.principal, acl.host, acl.operation, acl.permission)
        else:
            yield Acl(acl.resource, name, _LITERAL, acl.principal, acl.host, acl.operation, acl.permission)


def _missing_quotas(
    source: Mapping[QuotaEntity, Mapping[str, float]], target: Mapping[QuotaEntity, Mapping[str, float]]
) -> Iterator[SetQuota]:
    """What the target has not. What it has stays: `other_quotas`."""
    for entity, values in sorted(source.items(), key=lambda one: str(one[0])):
        there = target.get(entity, {})
        after = {key: value for key, value in values.items() if key not in there}
        if after and not _is_ip_entity(entity):
            yield SetQuota(entity, {key: None for key in after}, after)


def conflicting_quotas(source: Inventory, target: Inventory) -> Iterator[tuple[QuotaEntity, str, float, float]]:
    """Whose, which, on the source, on the target: those that differ."""
    for entity, values in sorted((source.quotas or {}).items(), key=lambda one: str(one[0])):
        there = (target.quotas or {}).get(entity, {})
        for key, value in sorted(values.items()):
            if there.get(key, value) != value and not _is_ip_entity(entity):
                yield entity, key, value, there[key]


def _is_ip_entity(entity: QuotaEntity) -> bool:
    return any(kind == "ip" for kind, _ in entity)  # of the network of one cluster
