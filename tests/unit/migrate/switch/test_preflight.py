"""What the preflight says of the time that the hold would take."""

from __future__ import annotations

import pytest

from kproxy.base.diagnostic import ERROR, NOTE
from kproxy.migrate.spec.switch_section import LONGEST_HOLD, SwitchSection
from kproxy.migrate.switch.final_sync import SyncTimings
from kproxy.migrate.switch.preflight import _check_duration


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
