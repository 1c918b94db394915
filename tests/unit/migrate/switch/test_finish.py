"""What is left of a migration at its end."""

from __future__ import annotations

from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry
from kproxy.migrate.plan.changes import AlterTopic, CreateTopic
from kproxy.migrate.prepare.change_journal import JournaledChange as Change
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.finish import cleanup_advice, final_configs, former_configs, is_unchanged

CHANGES = [
    Change(0, CreateTopic("new", 1, 1, {"retention.ms": "-1", "a": "1"}, {"retention.ms": None})),
    Change(1, AlterTopic("old", {"retention.ms": "5"}, {"retention.ms": "-1"}, {"retention.ms": "5"})),
    Change(2, AlterTopic("old", {"cleanup.policy": "compact"}, {"cleanup.policy": "delete"},
                         {"cleanup.policy": "compact", "retention.ms": "5"})),
]  # fmt: skip


def test_configurations_of_the_target() -> None:
    held, wanted = final_configs(CHANGES)
    assert wanted == {"new": {"retention.ms": None}, "old": {"cleanup.policy": "compact", "retention.ms": "5"}}
    assert held["old"] == {"retention.ms": "-1", "cleanup.policy": "delete"}


def test_configurations_of_the_source() -> None:
    held, before = former_configs(CHANGES)
    assert set(before) == {"old"}
    assert before["old"] == {"retention.ms": "5", "cleanup.policy": "compact"}
    assert held["old"] == {"retention.ms": "-1", "cleanup.policy": "delete"}


def test_what_somebody_has_changed_stays() -> None:
    held = {"retention.ms": "-1"}
    assert is_unchanged({"retention.ms": "-1"}, held, "retention.ms", "5")
    assert not is_unchanged({"retention.ms": "7"}, held, "retention.ms", "5")
    assert not is_unchanged({"retention.ms": "5"}, held, "retention.ms", "5")


def test_what_is_left_for_people() -> None:
    migration = Migration({"bootstrap-servers": "old:1"}, {"bootstrap-servers": ["new-1:9092", "new-2:9092"]})
    there = list(cleanup_advice(migration, SwitchEntry("x", SWITCHING, "default", "blue", "green", ())))
    again = list(cleanup_advice(migration, SwitchEntry("x", ROLLBACK, "default", "green", "blue", ())))
    assert there == again
    assert "upstream blue" in there[0]
    assert "new-1:9092,new-2:9092" in there[1]
