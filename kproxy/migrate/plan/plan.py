"""What a migration is going to do, what it cannot keep, and how long it takes (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

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
from kproxy.migrate.plan.finding import SEVERITIES, STOP, MigrationFinding, PlanInputs
from kproxy.migrate.plan.rules import evaluate_rules
from kproxy.migrate.spec.migration import SIDES, Migration


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """One topic. `offsets`: of the source, so at most as many records. None stands for what is not known, or not
    there."""

    topic: str
    target: str
    partitions: int
    target_partitions: int | None
    offsets: int
    size: int | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """`changes` are what `prepare` does."""

    migration: Migration
    source: Inventory
    target: Inventory
    topics: tuple[PlannedTopic, ...]
    changes: tuple[Change, ...]
    findings: tuple[MigrationFinding, ...]
    estimate: Estimate

    @property
    def is_blocked(self) -> bool:
        """Whether the migration cannot go on like this."""
        return any(finding.severity == STOP for finding in self.findings)

    def findings_with(self, severity: str) -> list[MigrationFinding]:
        return [finding for finding in self.findings if finding.severity == severity]


def make_plan(
    migration: Migration,
    source: Inventory,
    target: Inventory,
    past: MigrationHistory = MigrationHistory(),  # noqa: B008 - frozen
    refused: Mapping[str, str] | None = None,
    missing: Iterable[InventoryGap] = (),
    lost: Mapping[str, str] | None = None,
) -> MigrationPlan:
    """`refused`: topics that the target would not create, and why. `missing`: rights that were tried in vain. `lost`:
    topics that were copied and are not what they were, in words."""
    topics = selected_topics(migration, source)
    doing = tuple(plan_changes(migration, source, target, past))
    whole = estimate_migration(topics, migration.limits.max_rate)
    principals = {side: principal(getattr(migration, side)) for side in SIDES}
    seen = PlanInputs(
        migration, source, target, past, doing, whole, refused or {}, tuple(missing), principals, lost or {}
    )
    rows = []
    for topic in topics:
        name = migration.target_name(topic.name)
        there = target.topics.get(name)
        rows.append(
            PlannedTopic(
                topic.name,
                name,
                len(topic.partitions),
                None if there is None else len(there.partitions),
                topic.offsets,
                topic.size,
                topic.bytes_a_second,
            )
        )
    return MigrationPlan(migration, source, target, tuple(rows), doing, tuple(evaluate_rules(seen)), whole)


def principal(options: Mapping[str, Any]) -> str:
    """Who one is on a cluster with these options. Brokers do not say it, and may map names to others."""
    user = options.get("sasl-username")
    if isinstance(user, str):
        return f"User:{user}"
    for key in ("sasl", "client-config", "tls-cert"):
        if options.get(key):
            return f"the user of {key} {options[key]}"
    return "User:ANONYMOUS"


def topic_creations(doing: Iterable[Change]) -> list[CreateState | CreateTopic]:
    """The topics among the changes, for the target to say whether it would create them."""
    return [change for change in doing if isinstance(change, CreateState | CreateTopic)]


def plan_to_json(plan: MigrationPlan) -> dict[str, Any]:
    """For programs."""
    whole = plan.estimate
    return {
        "name": plan.migration.name,
        "can-go-on": not plan.is_blocked,
        "source": _cluster_to_json(plan.source),
        "target": _cluster_to_json(plan.target),
        "topics": [asdict(row) for row in plan.topics],
        "changes": [{"kind": change.kind, "text": str(change)} for change in plan.changes],
        "findings": {
            severity: [_finding_to_json(one) for one in plan.findings_with(severity)] for severity in SEVERITIES
        },
        "estimate": {
            "bytes": whole.size,
            "bytes-a-second": whole.rate,
            "partitions": whole.partitions,
            "cpu-seconds": whole.cpu_seconds,
            "executors": [{"executors": count, "seconds": seconds} for count, seconds in whole.seconds_by_executors],
            "advised-executors": whole.advised_executors,
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
        "groups": {name: {"kind": one.kind, "state": one.state} for name, one in inventory.groups.items()},
        "acls": None if inventory.acls is None else [str(acl) for acl in inventory.acls],
        "quotas": None if inventory.quotas is None else len(inventory.quotas),
        "users": None if inventory.users is None else sorted(inventory.users),
        "unseen": [{"what": one.subject, "why": one.reason} for one in inventory.gaps],
    }


def _finding_to_json(one: MigrationFinding) -> dict[str, str]:
    return {"about": one.subject, "text": one.text}
