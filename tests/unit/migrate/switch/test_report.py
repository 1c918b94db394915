"""The last lines of a switch, and the lines when there is no switch to continue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kproxy.base.diagnostic import ERROR, NOTE, Diagnostic
from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, MovedPart, SwitchEntry
from kproxy.migrate.switch.drive import DriveResult
from kproxy.migrate.switch.report import (
    SwitchResult,
    describe_copy,
    describe_findings,
    describe_no_switch,
    describe_reverse_copy,
    result_lines,
)
from kproxy.proxy.switching.twophase import CoordinatorOutcome, JournalDecision

RELEASED, UNDONE = ((("000001-a", one.value),) for one in (JournalDecision.RELEASED, JournalDecision.UNDONE))
SWITCH = SwitchEntry("x1", SWITCHING, "default", "blue", "green", ("kp",), RELEASED, reversible=True, ended=True)
BACK = replace(SWITCH, what=ROLLBACK, origin="green", to="blue")
PART = replace(SWITCH, cluster="default/some", clients=("app-#",))
WAVE = replace(SWITCH, cluster="default/wave-a", clients=("app",), wave="a", topics=("a*",))
WAVE_BACK = replace(BACK, cluster="default/wave-a", clients=("app",), wave="a", topics=("a*",))
DRIVER = {"host": "here", "pid": 17}


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (None, ["none was started", "clients: all are on the source"]),
        (SWITCH, ["switch x1 has finished", "clients: all are on green, the target"]),
        (
            replace(SWITCH, decisions=UNDONE),
            ["switch x1 has finished (undone)", "clients: all are on blue, the source"],
        ),
        (replace(SWITCH, decisions=()), ["switch x1 has finished (undone)", "clients: all are on blue, the source"]),
        (BACK, ["rollback x1 has finished", "clients: all are on blue, the source"]),
        (
            replace(BACK, decisions=UNDONE),
            ["rollback x1 has finished (undone)", "clients: all are on green, the target"],
        ),
        (
            PART,
            [
                "switch x1 has finished",
                "clients: all are on blue, the source, except these, which are on green, the target: app-#",
            ],
        ),
        (
            replace(SWITCH, decisions=UNDONE, parts=(MovedPart("some", ("app-#",)),)),
            [
                "switch x1 has finished (undone)",
                "clients: all are on blue, the source, except these, which are on green, the target: app-#",
            ],
        ),
    ],
)
def test_where_clients_are(last: SwitchEntry | None, says: list[str]) -> None:
    found = list(describe_no_switch(last))
    assert len(found) == len(says)
    for line, words in zip(found, says, strict=True):
        assert line.endswith(words)


def test_whether_a_copy_goes_on_and_what_is_next() -> None:
    assert "are copied back: process 17 on here" in next(describe_reverse_copy(DRIVER, SWITCH))
    assert "kproxy migrate copy FILE --reverse --follow" in list(describe_reverse_copy(None, SWITCH))[1]
    assert "kproxy migrate rollback FILE" in list(describe_reverse_copy(None, SWITCH))[1]
    assert "running: the copy to the target: process 17 on here" in next(describe_copy(DRIVER, None))
    assert "kproxy migrate copy FILE --follow" in list(describe_copy(None, SWITCH))[1]
    assert "kproxy migrate switch FILE starts a switch" in list(describe_copy(None, None))[1]
    for back in (BACK, WAVE_BACK):
        assert "before another switch: run kproxy migrate copy FILE --follow" in list(describe_copy(None, back))[1]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"cluster": "default/wave-a", "wave": "a"}, "then kproxy migrate switch FILE --wave a starts it again"),
        ({"cluster": "default/only-1"}, "then kproxy migrate switch FILE with the same --only starts it again"),
        (
            {"cluster": "default/wave-a", "wave": "a", "decisions": SWITCH.decisions},
            "then kproxy migrate switch FILE with --wave or --only moves the next clients, and without them all others",
        ),
    ],
)
def test_the_next_command_after_some_clients_does_not_move_all(changes: dict[str, Any], text: str) -> None:
    last = replace(SWITCH, **{"decisions": (), **changes})
    assert list(describe_copy(None, last))[1].endswith(text)


def result(end: CoordinatorOutcome, entry: SwitchEntry, states: dict[str, str] | None = None) -> SwitchResult:
    return SwitchResult(DriveResult(end, (), entry, {}, 1.5, participant_states=states or {}))


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (
            replace(result(CoordinatorOutcome.RELEASED, SWITCH), copies_back=True),
            ["clients: all are on green", "running: this command, which copies back", "next: set 'active: green'"],
        ),
        (
            result(CoordinatorOutcome.RELEASED, SWITCH),
            ["clients: all are on green", "running: no copy", "next: set 'active: green'"],
        ),
        (
            result(CoordinatorOutcome.RELEASED, PART),
            ["clients: those of part some are on green", "running: no copy", "next: kproxy migrate copy FILE --follow"],
        ),
        (
            result(CoordinatorOutcome.RELEASED, BACK),
            ["clients: all are on blue", "running: no copy", "next: set 'active: blue'"],
        ),
        (
            result(CoordinatorOutcome.UNDONE, SWITCH),
            ["clients: all are on blue, as before", "running: no copy", "next: kproxy migrate copy FILE --follow"],
        ),
        (
            result(CoordinatorOutcome.UNDONE, BACK),
            ["clients: all are on green, as before", "running: no copy", "next: kproxy migrate copy FILE --reverse"],
        ),
        (
            result(CoordinatorOutcome.RELEASED, WAVE),
            [
                "clients: those of wave a are on green",
                "running: no copy",
                "next: kproxy migrate copy FILE --follow, for what is still on the source",
            ],
        ),
        (
            result(CoordinatorOutcome.RELEASED, WAVE_BACK),
            [
                "clients: those of wave a are on blue",
                "running: the copy",
                "next: kproxy migrate copy FILE --follow --t",
            ],
        ),
        (
            result(CoordinatorOutcome.UNDONE, WAVE_BACK),
            [
                "clients: those of wave a are on green",
                "running: no",
                "next: kproxy migrate copy FILE --reverse --wave a",
            ],
        ),
        (
            result(CoordinatorOutcome.INCOMPLETE, replace(SWITCH, kproxies=("a", "b")), {"a": "released", "b": "lost"}),
            ["clients: writes may still be held at b", "running: no copy", "next: kproxy migrate switch FILE --resume"],
        ),
        (
            result(CoordinatorOutcome.TAKEN_OVER, SWITCH),
            ["clients: the driver that has taken over decides", "running: the other driver", "next: read what"],
        ),
    ],
)
def test_the_last_three_lines(told: SwitchResult, says: list[str]) -> None:
    """Where clients are, what runs, and what to do next."""
    lines = list(result_lines(told))[-3:]
    for line, words in zip(lines, says, strict=True):
        assert line.startswith(words)


def errors(*subjects: str, text: str = "is wrong") -> list[Diagnostic]:
    return [Diagnostic(NOTE, "kproxies", "3 replied"), *(Diagnostic(ERROR, subject, text) for subject in subjects)]


def test_a_preflight_ends_with_yes_or_no_and_the_one_reason() -> None:
    def told(findings: list[Diagnostic], **more: bool) -> list[str]:
        given = {"dry_run": True, "has_replaced_copy": False} | more
        return describe_findings(findings, kind=SWITCHING, **given).splitlines()

    assert told(errors()) == ["yes: the switch can be done. No writes were held"]
    assert told(errors("copy")) == ["no: copy: is wrong. No writes were held"]
    assert told(errors("group a", "group b")) == ["no: group a, b: is wrong. No writes were held"]
    assert told([*errors("copy"), *errors("time", text="is late")]) == [
        "no: copy: is wrong (and 1 more error). No writes were held"
    ]
    assert told(errors("copy"), dry_run=False)[1:] == ["next: resolve that, and try again"]
    replaced = told(errors("copy"), dry_run=False, has_replaced_copy=True)[1:]
    assert replaced[0].startswith("running: no copy")
    assert "kproxy migrate copy FILE --follow restarts the copy" in replaced[1]
