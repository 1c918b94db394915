"""What a migration is going to do, what it cannot keep, and how long it takes (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kproxy.migrate.clusters.inventory import Inventory, Unseen
from kproxy.migrate.plan.changes import Change, CreateState, CreateTopic, Past, changes, copied
from kproxy.migrate.plan.estimate import COPY, CORES, VERIFY, Estimate, estimate
from kproxy.migrate.plan.finding import SEVERITIES, STOP, Finding, Seen
from kproxy.migrate.plan.findings import findings
from kproxy.migrate.spec.migration import SIDES, Migration


@dataclass(frozen=True, slots=True)
class Row:
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
class Plan:
    """`changes` are what `prepare` does."""

    migration: Migration
    source: Inventory
    target: Inventory
    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    whole: Estimate

    @property
    def stopped(self) -> bool:
        """Whether the migration cannot go on like this."""
        return any(finding.severity == STOP for finding in self.findings)

    def of(self, severity: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == severity]


def make(
    migration: Migration,
    source: Inventory,
    target: Inventory,
    past: Past = Past(),  # noqa: B008 - frozen
    refused: Mapping[str, str] | None = None,
    missing: Iterable[Unseen] = (),
    lost: Mapping[str, str] | None = None,
) -> Plan:
    """`refused`: topics that the target would not create, and why. `missing`: rights that were tried in vain. `lost`:
    topics that were copied and are not what they were, in words."""
    topics = copied(migration, source)
    doing = tuple(changes(migration, source, target, past))
    whole = estimate(topics, migration.limits.max_rate)
    principals = {side: principal(getattr(migration, side)) for side in SIDES}
    seen = Seen(migration, source, target, past, doing, whole, refused or {}, tuple(missing), principals, lost or {})
    rows = []
    for topic in topics:
        name = migration.target_of(topic.name)
        there = target.topics.get(name)
        rows.append(
            Row(
                topic.name, name, len(topic.partitions), None if there is None else len(there.partitions),
                topic.offsets, topic.size, topic.bytes_a_second,
            )
        )  # fmt: skip
    return Plan(migration, source, target, tuple(rows), doing, tuple(findings(seen)), whole)


def principal(options: Mapping[str, Any]) -> str:
    """Who one is on a cluster with these options. Brokers do not say it, and may map names to others."""
    user = options.get("sasl-username")
    if isinstance(user, str):
        return f"User:{user}"
    for key in ("sasl", "client-config", "tls-cert"):
        if options.get(key):
            return f"the user of {key} {options[key]}"
    return "User:ANONYMOUS"


def to_create(doing: Iterable[Change]) -> list[CreateState | CreateTopic]:
    """The topics among the changes, for the target to say whether it would create them."""
    return [change for change in doing if isinstance(change, CreateState | CreateTopic)]


def as_json(plan: Plan) -> dict[str, Any]:
    """For programs."""
    whole = plan.whole
    return {
        "name": plan.migration.name,
        "can-go-on": not plan.stopped,
        "source": _cluster(plan.source),
        "target": _cluster(plan.target),
        "topics": [asdict(row) for row in plan.rows],
        "changes": [{"kind": change.kind, "text": str(change)} for change in plan.changes],
        "findings": {severity: [_finding(one) for one in plan.of(severity)] for severity in SEVERITIES},
        "estimate": {
            "bytes": whole.size,
            "bytes-a-second": whole.rate,
            "partitions": whole.partitions,
            "cpu-seconds": whole.cpu_seconds,
            "executors": [{"executors": count, "seconds": seconds} for count, seconds in whole.seconds],
            "advised-executors": whole.advised,
            "assumed": {"cores": CORES, "copy-cpu-seconds-per-gb": COPY, "verify-cpu-seconds-per-gb-and-side": VERIFY},
        },
    }


def _cluster(inventory: Inventory) -> dict[str, Any]:
    return {
        "cluster-id": inventory.cluster_id,
        "version": ".".join(map(str, inventory.version)),
        "brokers": len(inventory.brokers),
        "topics": len(inventory.topics),
        "groups": {name: {"kind": one.kind, "state": one.state} for name, one in inventory.groups.items()},
        "acls": None if inventory.acls is None else [str(acl) for acl in inventory.acls],
        "quotas": None if inventory.quotas is None else len(inventory.quotas),
        "users": None if inventory.users is None else sorted(inventory.users),
        "unseen": [{"what": one.what, "why": one.why} for one in inventory.unseen],
    }


def _finding(one: Finding) -> dict[str, str]:
    return {"about": one.about, "text": one.text}
