"""What `kproxy migrate status` prints of waves."""

from __future__ import annotations

import json
from dataclasses import replace

from kproxy.base.diagnostic import WARNING, Diagnostic
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, SwitchEntry
from kproxy.migrate.report.status import MigrationStatus, status_lines
from kproxy.proxy.switching.twophase import JournalDecision

NONE = MigrationStatus("move", {}, {}, (), {}, paused=False, waves=("orders", "logs"))
MOVED = SwitchEntry(
    "x1", SWITCHING, "default/wave-orders", "blue", "green", ("kp",), (("000001-a", JournalDecision.RELEASED.value),),
    reversible=True, ended=True, at=1_000_000, wave="orders", topics=("orders*",),
)  # fmt: skip
BACK = replace(MOVED, what=ROLLBACK, origin="green", to="blue", at=2_000_000, since=1_000_000)
WHOLE = replace(MOVED, cluster="default", wave="", topics=(), waves_before=("orders",))


def lines(last: SwitchEntry | None) -> list[str]:
    return [line for line in status_lines(replace(NONE, last_switch=last)) if not line.startswith("move:")]


def test_each_wave_with_its_side_and_its_time() -> None:
    assert lines(None) == ["wave orders: on the source", "wave logs: on the source"]
    since = "wave orders: on green since 1970-01-01T00:16:40+00:00; what its clients write there is copied back"
    assert lines(MOVED) == [
        "switch x1 of wave orders from blue to green: its clients are on green", since, "wave logs: on the source",
    ]  # fmt: skip
    assert lines(replace(MOVED, reversible=False))[1].endswith("is not copied back")
    undone = replace(BACK, decisions=(("000001-a", JournalDecision.UNDONE.value),))
    assert lines(undone)[1] == since
    back = "wave orders: on the source, to which it was moved back at 1970-01-01T00:33:20+00:00"
    assert lines(BACK)[1:] == [back, "wave logs: on the source"]
    assert lines(WHOLE)[1:] == [f"wave {wave}: on green, with all other clients" for wave in ("orders", "logs")]


def test_what_is_under_way() -> None:
    begun = replace(MOVED, decisions=(("000001-a", JournalDecision.BEGUN.value),), ended=False)
    assert "not finished: run kproxy migrate switch FILE --resume" in lines(begun)[0]
    assert lines(begun)[1:] == ["wave orders: on the source; switch x1 is under way", "wave logs: on the source"]


def test_a_wave_that_the_file_has_no_more() -> None:
    status = replace(NONE, last_switch=MOVED, waves=())
    assert any(line.startswith("wave orders: on green since") for line in status_lines(status))


def test_alarms() -> None:
    alarms = tuple(Diagnostic(WARNING, f"topic {name}", "is still written") for name in ("a", "b"))
    status = replace(NONE, last_switch=MOVED, alarms=alarms)
    assert "warning: topic a, b: is still written" in list(status_lines(status))
    value = json.loads(status.to_json())
    assert [alarm["subject"] for alarm in value["alarms"]] == ["topic a", "topic b"]
    assert value["waves"][1] == {"wave": "logs", "where": "on the source"}
