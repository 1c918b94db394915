"""A finding of a migration's checks, and the inputs of the plan's rules (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kproxy.migrate.clusters.inventory import Inventory, InventoryGap, TopicInventory
from kproxy.migrate.plan.changes import Change, MigrationHistory, selected_topics
from kproxy.migrate.plan.estimate import Estimate
from kproxy.migrate.spec.migration import Migration

STOP, WARNING, NOTE = SEVERITIES = ("stop", "warning", "note")


@dataclass(frozen=True, slots=True)
class MigrationFinding:
    """A problem or a note about a topic, a right, a client, …."""

    severity: str
    """STOP: the step cannot begin. WARNING: something is lost, or is left to do. NOTE: for information."""
    subject: str
    text: str


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


def round_duration(seconds: float) -> str:
    """Return a duration as text, with two significant digits."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if round(seconds / length, 2) >= 2:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
