"""Whether the report lacks what was copied back to the source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kproxy.base.errors import ConfigError, KproxyError, UpstreamError
from kproxy.migrate.journal.switch_journal import SWITCHING, SwitchEntry
from kproxy.migrate.report import record as module
from kproxy.migrate.report.record import read_record
from kproxy.migrate.report.status import MigrationStatus
from kproxy.migrate.spec.migration import Migration
from kproxy.proxy.switching.twophase import JournalDecision

MIGRATION = Migration({"bootstrap-servers": "old:1"}, {"bootstrap-servers": "new:1"}, "move")
DONE = SwitchEntry(
    "x1",
    SWITCHING,
    "default",
    "blue",
    "green",
    (),
    (("a", JournalDecision.RELEASED.value),),
    reversible=True,
    ended=True,
)


@pytest.mark.parametrize(
    ("entry", "source", "problem"),
    [
        (DONE, "old:1", "the source has no topic kproxy-migration-move-back"),
        (DONE, UpstreamError("other", "refused"), "the source cannot be reached: refused"),
        (replace(DONE, reversible=False), "old:1", ""),
        (replace(DONE, reversible=False), UpstreamError("other", "refused"), ""),
        (replace(DONE, decisions=()), "old:1", ""),  # it was undone
        (None, None, ""),
    ],
)
def test_it_is_lacking_only_if_there_was_a_copy_back(
    entry: SwitchEntry | None, source: str | KproxyError | None, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_topic(*_: object) -> MigrationStatus:
        raise ConfigError("the target has no topic")

    status = MigrationStatus("move", {}, {}, (), {}, False, entry)
    monkeypatch.setattr(module, "read_status_and_records", lambda *_: (status, {}))
    monkeypatch.setattr(module, "read_history", lambda _: [] if entry is None else [entry])
    monkeypatch.setattr(module, "read_status", no_topic)
    record = read_record(MIGRATION, "new:1", source, 0, None)
    assert (record.back, record.back_problem) == (None, problem)
