"""Which rights are missing, before anything is written (pure): who lacks which operation on what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kproxy.migrate.clusters.inventory import Topic
from kproxy.migrate.plan.changes import AddPartitions, AlterTopic, CreateAcl, SetQuota
from kproxy.migrate.plan.finding import NOTE, STOP, WARNING, Finding, Seen
from kproxy.migrate.spec.migration import SOURCE, TARGET


def rights(seen: Seen) -> Iterator[Finding]:
    """Named before anything is written."""
    for topic, there in seen.pairs():
        yield from _of_topic(seen, topic, there)
    yield from _of_changes(seen)
    for missing in seen.missing:
        yield _missing(seen, STOP, TARGET, missing.operation, missing.resource, missing.what)
    for side, inventory in ((SOURCE, seen.source), (TARGET, seen.target)):
        if inventory.operations is not None and "Describe" not in inventory.operations:
            text = "brokers leave out topics and groups that this user may not describe"
            yield Finding(NOTE, f"right on the {side}", text)
        for unseen in inventory.unseen:
            if unseen.operation:
                yield _missing(seen, WARNING, side, unseen.operation, unseen.resource, f"to see {unseen.what}")
            else:
                yield Finding(NOTE, f"{side}: {unseen.what}", f"could not be seen: {unseen.why}")


def _of_topic(seen: Seen, topic: Topic, there: Topic | None) -> Iterator[Finding]:
    yield from _lacks(seen, SOURCE, topic.operations, "Read", f"topic {topic.name}")
    if there is not None:
        yield from _lacks(seen, TARGET, there.operations, "Write", f"topic {there.name}")
        if not there.effective:
            purpose = "to hold its retention open"
            yield _missing(seen, STOP, TARGET, "DescribeConfigs", f"topic {there.name}", purpose)
    if not topic.effective:
        text = "its configurations cannot be seen on the source: the target's defaults are taken"
        yield Finding(WARNING, topic.name, text)


def _of_changes(seen: Seen) -> Iterator[Finding]:
    for change in seen.changes:
        if isinstance(change, (AlterTopic, AddPartitions)):
            operation = "AlterConfigs" if isinstance(change, AlterTopic) else "Alter"
            operations = seen.target.topics[change.topic].operations
            yield from _lacks(seen, TARGET, operations, operation, f"topic {change.topic}")
    wanted = {"Alter": CreateAcl, "AlterConfigs": SetQuota}
    for operation, kind in wanted.items():
        if any(isinstance(change, kind) for change in seen.changes):
            yield from _lacks(seen, TARGET, seen.target.operations, operation, "the cluster")


def _lacks(seen: Seen, side: str, operations: Iterable[str] | None, operation: str, resource: str) -> Iterator[Finding]:
    if operations is not None and operation not in operations:
        yield _missing(seen, STOP, side, operation, resource, "")


def _missing(seen: Seen, severity: str, side: str, operation: str, resource: str, purpose: str) -> Finding:
    who = seen.principals.get(side, "this user")
    text = f"{who} is not allowed {operation} on {resource}" + (f", needed {purpose}" if purpose else "")
    return Finding(severity, f"right on the {side}", text)
