"""Missing rights, found before the first change (pure): which principal lacks which operation on which resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kproxy.migrate.clusters.inventory import TopicInventory
from kproxy.migrate.plan.changes import AddPartitions, AlterTopic, CreateAcl, SetQuota
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, MigrationFinding, PlanInputs
from kproxy.migrate.spec.migration import SOURCE, TARGET


def check_rights(inputs: PlanInputs) -> Iterator[MigrationFinding]:
    """Yield a finding for each missing right."""
    for topic, existing in inputs.topic_pairs():
        yield from _topic_rights(inputs, topic, existing)
    yield from _change_rights(inputs)
    for missing in inputs.missing_rights:
        yield _missing_right(inputs, STOP, TARGET, missing.operation, missing.resource, missing.subject)
    for side, inventory in ((SOURCE, inputs.source), (TARGET, inputs.target)):
        if inventory.operations is not None and "Describe" not in inventory.operations:
            text = "brokers leave out topics and groups that this user may not describe"
            yield MigrationFinding(NOTE, f"right on the {side}", text)
        for gap in inventory.gaps:
            if gap.operation:
                yield _missing_right(inputs, WARNING, side, gap.operation, gap.resource, f"to read {gap.subject}")
            else:
                yield MigrationFinding(NOTE, f"{side}: {gap.subject}", f"could not be read: {gap.reason}")


def _topic_rights(
    inputs: PlanInputs, topic: TopicInventory, existing: TopicInventory | None
) -> Iterator[MigrationFinding]:
    yield from _check_operation(inputs, SOURCE, topic.operations, "Read", f"topic {topic.name}")
    if existing is not None:
        yield from _check_operation(inputs, TARGET, existing.operations, "Write", f"topic {existing.name}")
        if not existing.effective_configs:
            purpose = "to hold its retention open"
            yield _missing_right(inputs, STOP, TARGET, "DescribeConfigs", f"topic {existing.name}", purpose)
    if not topic.effective_configs:
        text = "its configurations cannot be read on the source: the target's defaults apply"
        yield MigrationFinding(WARNING, topic.name, text)


def _change_rights(inputs: PlanInputs) -> Iterator[MigrationFinding]:
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
) -> Iterator[MigrationFinding]:
    if operations is not None and operation not in operations:
        yield _missing_right(inputs, STOP, side, operation, resource, "")


def _missing_right(
    inputs: PlanInputs, severity: str, side: str, operation: str, resource: str, purpose: str
) -> MigrationFinding:
    principal = inputs.principals.get(side, "this user")
    text = f"{principal} is not allowed {operation} on {resource}" + (f", needed {purpose}" if purpose else "")
    return MigrationFinding(severity, f"right on the {side}", text)
