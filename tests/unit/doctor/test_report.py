"""The report that a person reads."""

from __future__ import annotations

import pytest

from kproxy.doctor.findings import Finding, Whose
from kproxy.doctor.report import Report, text
from kproxy.remedies.faults import Fault
from tests.unit.doctor.examined import bad, examination


def lines(*findings: Finding) -> list[str]:
    """The report of a cluster with these findings, for which no line was looked for."""
    found = examination(bad("kafka-1.example:9092", "resolve", 1))
    return "\n".join(text(Report("a", found, findings, None, ()), fancy=True)).splitlines()


@pytest.mark.parametrize("whose", Whose)
@pytest.mark.parametrize("line", ["", "a=b"])
def test_it_fits_a_terminal(whose: Whose, line: str) -> None:
    """Whoever has to mend it, and whether or not one line is wrong."""
    shown = lines(Finding(Fault.PORT_CLOSED, ("kafka-1.example:9092",), "It is so. " * 30, whose, line))
    assert [one for one in shown if len(one) > 80] == []
    assert whose.value in " ".join(" ".join(shown).split())
