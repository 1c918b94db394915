"""What is said when there is no switch to go on with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kproxy.migrate.journal.switch_journal import ROLLBACK, SWITCHING, MovedPart, SwitchEntry
from kproxy.migrate.switch.report import describe_copy, describe_no_switch, describe_reverse_copy
from kproxy.proxy.switching.twophase import JournalDecision

RELEASED, UNDONE = ((("000001-a", one.value),) for one in (JournalDecision.RELEASED, JournalDecision.UNDONE))
SWITCH = SwitchEntry("x1", SWITCHING, "default", "blue", "green", ("kp",), RELEASED, reversible=True, ended=True)
BACK = replace(SWITCH, what=ROLLBACK, origin="green", to="blue")
PART = replace(SWITCH, cluster="default/some", clients=("app-#",))
DRIVER = {"host": "here", "pid": 17}


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (None, ["none was started, and clients are on the source"]),
        (SWITCH, ["switch x1 has finished, and clients are on green, the target"]),
        (replace(SWITCH, decisions=UNDONE), ["switch x1 has finished (undone), and clients are on blue, the source"]),
        (replace(SWITCH, decisions=()), ["switch x1 has finished (undone), and clients are on blue, the source"]),
        (BACK, ["rollback x1 has finished, and clients are on blue, the source"]),
        (replace(BACK, decisions=UNDONE), ["rollback x1 has finished (undone), and clients are on green, the target"]),
        (
            PART,
            [
                "switch x1 has finished, and clients are on blue, the source",
                "these clients, which are on green, the target: app-#",
            ],
        ),
        (
            replace(SWITCH, decisions=UNDONE, parts=(MovedPart("some", ("app-#",)),)),
            ["clients are on blue, the source", "these clients, which are on green, the target: app-#"],
        ),
    ],
)
def test_where_clients_are(last: SwitchEntry | None, says: list[str]) -> None:
    found = list(describe_no_switch(last))
    assert len(found) == len(says)
    for line, words in zip(found, says, strict=True):
        assert words in line


def test_whether_a_copy_goes_on_and_what_is_next() -> None:
    assert "are copied back: process 17 on here" in next(describe_reverse_copy(DRIVER, SWITCH))
    assert "kproxy migrate copy FILE --reverse --follow" in next(describe_reverse_copy(None, SWITCH))
    assert "kproxy migrate rollback FILE" in list(describe_reverse_copy(None, SWITCH))[1]
    assert "is running: process 17 on here" in next(describe_copy(DRIVER, None))
    assert "kproxy migrate copy FILE --follow" in next(describe_copy(None, SWITCH))
    assert "kproxy migrate switch FILE starts a switch" in list(describe_copy(None, None))[1]
    assert "kproxy migrate prepare FILE" in list(describe_copy(None, BACK))[1]
