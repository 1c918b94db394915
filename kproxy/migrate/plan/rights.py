"""Which rights are missing, before anything is written (pure): who lacks which operation on what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kproxy.migrate.clusters.inventory import TopicInventory
from kproxy.migrate.plan.changes import AddPartitions, AlterTopic, CreateAcl, SetQuota
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, MigrationFinding, PlanInputs
from kproxy.migrate.spec.migration import SOURCE, TARGET


def check_rights(seen: PlanInputs) -> Iterator[MigrationFinding]:
    """Named before anything is written."""
    for topic, there in seen.topic_pairs():
        yield from _topic_rights(seen, topic, there)
    yield from _change_rights(seen)
    for missing in seen.missing_rights:
        yield _missing_right(seen, STOP, TARGET, missing.operation, missing.resource, missing.subject)
    for side, inventory in ((SOURCE, seen.source), (TARGET, seen.target)):
        if inventory.operations is not None and "Describe" not in inventory.operations:
            text = "brokers leave out topics and groups that this user may not describe"
            yield MigrationFinding(NOTE, f"right on the {side}", text)
        for unseen in inventory.gaps:
            if unseen.operation:
                yield _missing_right(seen, WARNING, side, unseen.operation, unseen.resource, f"to see {unseen.subject}")
            else:
                yield MigrationFinding(NOTE, f"{side}: {unseen.subject}", f"could not be seen: {unseen.reason}")


def _topic_rights(seen: PlanInputs, topic: TopicInventory, there: TopicInventory | None) -> Iterator[MigrationFinding]:
    yield from _check_operation(seen, SOURCE, topic.operations, "Read", f"topic {topic.name}")
    if there is not None:
        yield from _check_operation(seen, TARGET, there.operations, "Write", f"topic {there.name}")
        if not there.effective_configs:
            purpose = "to hold its retention open"
            yield _missing_right(seen, STOP, TARGET, "DescribeConfigs", f"topic {there.name}", purpose)
    if not topic.effective_configs:
        text = "its configurations cannot be seen on the source: the target's defaults are taken"
        yield MigrationFinding(WARNING, topic.name, text)


def _change_rights(seen: PlanInputs) -> Iterator[MigrationFinding]:
    for change in seen.changes:
        if isinstance(change, (AlterTopic, AddPartitions)):
            operation = "AlterConfigs" if isinstance(change, AlterTopic) else "Alter"
            operations = seen.target.topics[change.topic].operations
            yield from _check_operation(seen, TARGET, operations, operation, f"topic {change.topic}")
    wanted = {"Alter": CreateAcl, "AlterConfigs": SetQuota}
    for operation, kind in wanted.items():
        if any(isinstance(change, kind) for change in seen.changes):
            yield from _check_operation(seen, TARGET, seen.target.operations, operation, "the cluster")


def _check_operation(
    seen: PlanInputs, side: str, operations: Iterable[str] | None, operation: str, resource: str
) -> Iterator[MigrationFinding]:
    if operations is not None and operation not in operations:
        yield _missing_right(seen, STOP, side, operation, resource, "")


def _missing_right(
    seen: PlanInputs, severity: str, side: str, operation: str, resource: str, purpose: str
) -> MigrationFinding:
    who = seen.principals.get(side, "this user")
    text = f"{who} is not allowed {operation} on {resource}" + (f", needed {purpose}" if purpose else "")
    return MigrationFinding(severity, f"right on the {side}", text)
