"""What the preflight says of the time that the hold would take, and of positions."""

from __future__ import annotations

import pytest

from kproxy.base.diagnostic import ERROR, NOTE, Diagnostic
from kproxy.migrate.offsets.groupsync import NOT_COPIED_YET
from kproxy.migrate.spec.switch_section import LONGEST_HOLD, SwitchSection
from kproxy.migrate.switch.preflight import _check_duration, while_clients_move
from kproxy.migrate.switch.sync_timings import SyncTimings


@pytest.mark.parametrize(
    ("hold", "said"),
    [
        (20.0, "reduce the load, or give Spark more cores, or raise switch.hold-seconds (at most 25)"),
        (LONGEST_HOLD, "reduce the load, or give Spark more cores"),
    ],
)
def test_what_is_at_its_maximum_is_not_to_be_raised(hold: float, said: str) -> None:
    section = SwitchSection(("kp:1",), "green", hold_seconds=hold)
    finding = _check_duration(SyncTimings(verify=18.0), 30.0, section)
    assert finding.severity == ERROR
    assert finding.text.endswith(f": {said}")
    assert _check_duration(SyncTimings(verify=2.3), 30.0, section).severity == NOTE


def test_groups_that_are_ahead_of_the_copy_are_one_note() -> None:
    """Each group that reads has positions that are not copied, in each of its partitions."""
    ahead = [
        Diagnostic(ERROR, "positions", f"group g{number}: 5 offsets before it are not copied yet", NOT_COPIED_YET)
        for number in range(21)
    ]
    other = Diagnostic(ERROR, "positions", "group h: it is 3 offsets beyond the end of the log")
    first, note = while_clients_move([*ahead, other])
    assert first == other
    assert (note.severity, note.subject) == (NOTE, "positions")
    assert note.text.endswith("group g0: 5 offsets before it are not copied yet (and 20 more positions)")
    (note,) = while_clients_move(ahead[:1])
    assert note.text.endswith("not copied yet")
    assert not list(while_clients_move([]))
