"""The copies back to the source that the report and the status have, and why one may be lacking."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kproxy.base.errors import ConfigError, KproxyError, UpstreamError
from kproxy.migrate.copier.state import PartitionState
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry
from kproxy.migrate.report import record as module
from kproxy.migrate.report import reversecopies
from kproxy.migrate.report.record import read_record
from kproxy.migrate.report.reversecopies import copied_back_now
from kproxy.migrate.report.status import MigrationStatus, ReverseCopyStatus, status_lines
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


NO_TOPIC, UNREACHED = "the source has no topic kproxy-migration-move-back", "the source cannot be reached: refused"
WAVE = replace(DONE, cluster="default/wave-w1", wave="w1", topics=("a-*",))
BACK = replace(WAVE, what=ROLLBACK, origin="green", to="blue")


@pytest.mark.parametrize(
    ("switches", "source", "problems"),
    [
        ([DONE], "old:1", {"": NO_TOPIC}),
        ([DONE], UpstreamError("other", "refused"), {"": UNREACHED}),
        ([replace(DONE, reversible=False)], "old:1", {}),
        ([replace(DONE, reversible=False)], UpstreamError("other", "refused"), {}),
        ([replace(DONE, decisions=())], "old:1", {}),  # it was undone
        ([], None, {}),
        ([WAVE, BACK, DONE], UpstreamError("other", "refused"), {"w1": UNREACHED, "": UNREACHED}),
        ([WAVE], "old:1", {"w1": NO_TOPIC.replace("move-back", "move.w1-back")}),
    ],
)
def test_it_is_lacking_only_if_there_was_a_copy_back(
    switches: list[SwitchEntry],
    source: str | KproxyError | None,
    problems: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_topic(*_: object) -> MigrationStatus:
        raise ConfigError("the target has no topic")

    status = MigrationStatus("move", {}, {}, (), {}, False, switches[-1] if switches else None)
    monkeypatch.setattr(module, "read_status_and_records", lambda *_: (status, {}))
    monkeypatch.setattr(module, "read_history", lambda _: switches)
    monkeypatch.setattr(reversecopies, "read_status", no_topic)
    record = read_record(MIGRATION, "new:1", source, 0, None)
    assert {copy.wave: copy.problem for copy in record.reverse_copies} == problems


def test_what_is_copied_back_now() -> None:
    assert copied_back_now(None) == {}
    assert copied_back_now(DONE) == {"": ()}
    assert copied_back_now(replace(DONE, reversible=False)) == {}
    assert copied_back_now(WAVE) == {"w1": ("a-*",)}
    assert copied_back_now(replace(WAVE, reversible=False)) == {}
    assert copied_back_now(BACK) == {}


@pytest.mark.parametrize(
    ("driver", "line"),
    [
        ({"pid": 7, "host": "h"}, "  process 7 on h was copying at its last report"),
        (
            {"pid": 7, "host": "h", "ended": True},
            "  no process copies back. Next: kproxy migrate copy FILE --reverse --wave w1 --follow",
        ),
    ],
)
def test_the_status_shows_what_is_copied_back(driver: dict[str, object], line: str) -> None:
    back = MigrationStatus(
        "move.w1-back", {("a-1", 0): PartitionState("a-1", 5, 7, 9, records=2)}, {}, (), driver, False
    )
    status = MigrationStatus("move", {}, {}, (), {}, False, WAVE, reverse_copies=(ReverseCopyStatus("w1", back),))
    lines = list(status_lines(status))
    assert lines[-3:-1] == ["copy back of wave w1, from the target to the source:", line]
    assert lines[-1].startswith("  a-1: 1 partition, 2 records")
    assert not status.has_warnings
    lost = replace(status, reverse_copies=(ReverseCopyStatus("w1", None, "no"),))
    assert list(status_lines(lost))[-1] == "warning: copy back of wave w1: no"
    assert lost.has_warnings
    assert json.loads(status.to_json())["reverse_copies"][0]["copy"]["partitions"][0]["records"] == 2
