"""The plan of a migration: changes, findings and estimate (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kproxy.base.diagnostic import ERROR, Diagnostic, severities, to_json
from kproxy.migrate.clusters.inventory import Inventory, InventoryGap
from kproxy.migrate.plan.changes import (
    Change,
    CreateState,
    CreateTopic,
    MigrationHistory,
    plan_changes,
    selected_topics,
)
from kproxy.migrate.plan.estimate import (
    COPY_CPU_SECONDS_PER_GB,
    CORES_PER_EXECUTOR,
    VERIFY_CPU_SECONDS_PER_GB,
    Estimate,
    estimate_migration,
)
from kproxy.migrate.plan.rules import PlanInputs, evaluate_rules
from kproxy.migrate.spec.migration import SIDES, Migration


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


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The plan of a migration; `prepare` applies its `changes`."""

    migration: Migration
    source: Inventory
    target: Inventory
    topics: tuple[PlannedTopic, ...]
    changes: tuple[Change, ...]
    findings: tuple[Diagnostic, ...]
    estimate: Estimate

    @property
    def is_blocked(self) -> bool:
        """True if a finding stops the migration."""
        return ERROR in severities(self.findings)


def make_plan(
    migration: Migration,
    source: Inventory,
    target: Inventory,
    history: MigrationHistory = MigrationHistory(),  # noqa: B008 - frozen
    refused_topics: Mapping[str, str] | None = None,
    missing_rights: Iterable[InventoryGap] = (),
    changed_topics: Mapping[str, str] | None = None,
) -> MigrationPlan:
    """Return the plan of a migration.

    `refused_topics` maps topics that the target would not create to the reason. `missing_rights` are rights that
    were tried in vain. `changed_topics` maps copied topics that were deleted or replaced to a message.
    """
    topics = selected_topics(migration, source)
    planned = tuple(plan_changes(migration, source, target, history))
    estimate = estimate_migration(topics, migration.limits.max_rate)
    principals = {side: principal(getattr(migration, side)) for side in SIDES}
    inputs = PlanInputs(
        migration,
        source,
        target,
        history,
        planned,
        estimate,
        refused_topics or {},
        tuple(missing_rights),
        principals,
        changed_topics or {},
    )
    planned_topics = []
    for topic in topics:
        name = migration.target_name(topic.name)
        existing = target.topics.get(name)
        planned_topics.append(
            PlannedTopic(
                topic.name,
                name,
                len(topic.partitions),
                None if existing is None else len(existing.partitions),
                topic.offsets,
                topic.size,
                topic.bytes_a_second,
            )
        )
    return MigrationPlan(
        migration, source, target, tuple(planned_topics), planned, tuple(evaluate_rules(inputs)), estimate
    )


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


def topic_creations(changes: Iterable[Change]) -> list[CreateState | CreateTopic]:
    """Return the creations of topics among the changes."""
    return [change for change in changes if isinstance(change, CreateState | CreateTopic)]


def plan_to_json(plan: MigrationPlan) -> dict[str, Any]:
    """Return the plan as JSON values."""
    estimate = plan.estimate
    return {
        "name": plan.migration.name,
        "can-go-on": not plan.is_blocked,
        "source": _cluster_to_json(plan.source),
        "target": _cluster_to_json(plan.target),
        "topics": [asdict(row) for row in plan.topics],
        "changes": [{"kind": change.kind, "text": str(change)} for change in plan.changes],
        "findings": [to_json(finding) for finding in plan.findings],
        "estimate": {
            "bytes": estimate.size,
            "bytes-a-second": estimate.rate,
            "partitions": estimate.partitions,
            "cpu-seconds": estimate.cpu_seconds,
            "executors": [{"executors": count, "seconds": seconds} for count, seconds in estimate.seconds_by_executors],
            "advised-executors": estimate.advised_executors,
            "assumed": {
                "cores": CORES_PER_EXECUTOR,
                "copy-cpu-seconds-per-gb": COPY_CPU_SECONDS_PER_GB,
                "verify-cpu-seconds-per-gb-and-side": VERIFY_CPU_SECONDS_PER_GB,
            },
        },
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
