"""The plan of a migration: changes, findings and estimate (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from kproxy.base.diagnostic import ERROR, Diagnostic, severities, to_json
from kproxy.migrate.clusters.inventory import Inventory, InventoryGap, TopicInventory
from kproxy.migrate.plan.changes import Change, MigrationHistory, plan_changes
from kproxy.migrate.plan.estimate import (
    COPY_CPU_SECONDS_PER_GB,
    CORES_PER_EXECUTOR,
    VERIFY_CPU_SECONDS_PER_GB,
    Estimate,
    estimate_migration,
)
from kproxy.migrate.plan.principals import selected_topics, users_with_rights
from kproxy.migrate.plan.rules import evaluate_rules
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.waves import Kind, Wave, find_waves, waves_to_json


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """One topic of a plan; None stands for values that are not known or do not exist."""

    topic: str
    target: str
    partitions: int
    target_partitions: int | None
    offsets: int
    """Offsets on the source: an upper bound of the number of records."""
    size: int | None
    rate: float | None


@dataclass(frozen=True)
class MigrationPlan:
    """The plan of a migration; `prepare` applies its `changes`."""

    migration: Migration
    source: Inventory
    target: Inventory
    history: MigrationHistory = MigrationHistory()  # noqa: RUF009 - frozen
    refused_topics: Mapping[str, str] = field(default_factory=dict)
    """By target topic, why it could not be created."""
    missing_rights: Sequence[InventoryGap] = ()
    """Rights on the target that are missing, found by trying."""
    changed_topics: Mapping[str, str] = field(default_factory=dict)
    """By source topic with copied records, how the topic was changed since."""
    usage: ObservedUsage | None = None
    """The result of `kproxy migrate observe`; None without one."""
    other_findings: Sequence[Diagnostic] = ()
    """The findings of checks that `prepare` does not need: users' logins, schemas in records, hanging transactions."""

    @cached_property
    def _selected(self) -> Mapping[str, TopicInventory]:
        """The selected topics of the source, sorted by name."""
        return {topic.name: topic for topic in selected_topics(self.migration, self.source)}

    @cached_property
    def changes(self) -> list[Change]:
        return plan_changes(self.migration, self.source, self.target, self.history)

    @cached_property
    def estimate(self) -> Estimate:
        return estimate_migration(self._selected.values(), self.migration.limits.max_rate)

    @cached_property
    def waves(self) -> list[Wave]:
        """The waves that the observed clients form: each may move without the others."""
        return [] if self.usage is None else find_waves(self.usage)

    def wave_estimate(self, wave: Wave) -> Estimate:
        """Return the estimate for the copied topics of a wave alone."""
        topics = [self._selected[name] for name in wave.names(Kind.TOPIC) if name in self._selected]
        return estimate_migration(topics, self.migration.limits.max_rate)

    @cached_property
    def findings(self) -> list[Diagnostic]:
        """The findings of all rules, the worst first."""
        return evaluate_rules(self)

    @property
    def is_blocked(self) -> bool:
        """True if a finding stops the migration."""
        return ERROR in severities(self.findings)

    def topic_pairs(self) -> Iterator[tuple[TopicInventory, TopicInventory | None]]:
        """Yield each selected topic with the target's topic, None if it does not exist."""
        for topic in self._selected.values():
            yield topic, self.target.topics.get(self.migration.target_name(topic.name))

    def topics(self) -> list[PlannedTopic]:
        return [
            PlannedTopic(
                topic.name,
                self.migration.target_name(topic.name),
                len(topic.partitions),
                None if existing is None else len(existing.partitions),
                topic.offsets,
                topic.size,
                topic.bytes_a_second,
            )
            for topic, existing in self.topic_pairs()
        ]


def plan_to_json(plan: MigrationPlan) -> dict[str, Any]:
    """Return the plan as JSON values."""
    return {
        "name": plan.migration.name,
        "can-go-on": not plan.is_blocked,
        "source": _cluster_to_json(plan.source),
        "target": _cluster_to_json(plan.target),
        "topics": [asdict(row) for row in plan.topics()],
        "users": {
            user: {"target": plan.migration.target_user(user), "has": has}
            for user, has in users_with_rights(plan.source).items()
        },
        "changes": [{"kind": change.kind, "text": str(change)} for change in plan.changes],
        "waves": None
        if plan.usage is None
        else [
            {**value, "estimate": _estimate_to_json(plan.wave_estimate(wave))}
            for wave, value in zip(plan.waves, waves_to_json(plan.waves), strict=True)
        ],
        "findings": [to_json(finding) for finding in plan.findings],
        "estimate": {
            **_estimate_to_json(plan.estimate),
            "assumed": {
                "cores": CORES_PER_EXECUTOR,
                "copy-cpu-seconds-per-gb": COPY_CPU_SECONDS_PER_GB,
                "verify-cpu-seconds-per-gb-and-side": VERIFY_CPU_SECONDS_PER_GB,
            },
        },
    }


def _estimate_to_json(estimate: Estimate) -> dict[str, Any]:
    return {
        "bytes": estimate.size,
        "bytes-a-second": estimate.rate,
        "partitions": estimate.partitions,
        "cpu-seconds": estimate.cpu_seconds,
        "executors": [{"executors": count, "seconds": seconds} for count, seconds in estimate.seconds_by_executors],
        "advised-executors": estimate.advised_executors,
    }


def _cluster_to_json(inventory: Inventory) -> dict[str, Any]:
    return {
        "cluster-id": inventory.cluster_id,
        "version": ".".join(map(str, inventory.version)),
        "brokers": len(inventory.brokers),
        "topics": len(inventory.topics),
        "groups": {name: {"kind": group.kind, "state": group.state} for name, group in inventory.groups.items()},
        "acls": None if inventory.acls is None else [str(acl) for acl in inventory.acls],
        "quotas": None if inventory.quotas is None else len(inventory.quotas),
        "users": None if inventory.users is None else sorted(inventory.users),
        "unseen": [{"what": gap.subject, "why": gap.reason} for gap in inventory.gaps],
    }
