"""One thing to know before a migration, and all that is looked at to find it (pure)."""

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
    """`severity`: nothing can be copied; something is lost or has to be done; something is good to know. `about`: a
    topic, a right, …"""

    severity: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """All that is looked at. `refused`: by topic of the target, why it could not be created. `unprobed`: rights that
    were tried and are missing, of the target. `principals`: by side, who one is there, as far as that is known.
    `lost`: by topic of the source, of which records were copied: what has become of it."""

    migration: Migration
    source: Inventory
    target: Inventory
    history: MigrationHistory
    changes: tuple[Change, ...]
    estimate: Estimate
    refused_topics: Mapping[str, str] = field(default_factory=dict)
    missing_rights: tuple[InventoryGap, ...] = ()
    principals: Mapping[str, str] = field(default_factory=dict)
    changed_topics: Mapping[str, str] = field(default_factory=dict)

    def topic_pairs(self) -> Iterator[tuple[TopicInventory, TopicInventory | None]]:
        """The topics that are copied, and what the target has of each."""
        for topic in selected_topics(self.migration, self.source):
            yield topic, self.target.topics.get(self.migration.target_name(topic.name))


def round_duration(seconds: float) -> str:
    """For people: two digits that matter."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if round(seconds / length, 2) >= 2:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
