"""Each mistake is found with its id, file and line, nothing else is, and the corrected file has it no more."""

from __future__ import annotations

import pytest

from kproxy.advice.lint import fixes
from kproxy.advice.lint.linter import LintOptions
from kproxy.base.faults import Fault
from tests.unit.advice.lint import broken, brokenfiles
from tests.unit.advice.lint.broken import Case
from tests.unit.advice.lint.helpers import report, shown, wrong

CASES = [*broken.CASES, *brokenfiles.CASES]


def expected_place(case: Case) -> tuple[str, int]:
    """`FILE/TEXT`, or `N=TEXT` for the Nth line with the text."""
    file, text = next(iter(case.files)), case.line
    for name in case.files:
        for prefix in (f"{name}/", f"{name.split('/')[0]}/"):
            if text.startswith(prefix):
                file, text = name, text.removeprefix(prefix)
    count = 1
    if text[1:2] == "=" and text[0].isdigit():
        count, text = int(text[0]), text[2:]
    lines = case.files[file].removeprefix("\n").split("\n")
    return file, [number for number, line in enumerate(lines, 1) if text in line][count - 1]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_it_is_found(case: Case) -> None:
    found = report(case.files, host=case.host)
    finding = next((one for one in found.findings if one.rule == case.rule), None)
    assert finding is not None, shown(found)
    assert (finding.file, finding.line) == expected_place(case), shown(found)
    lines = [line.strip() for line in finding.corrected_lines(found.sources)]
    assert (case.corrected in lines) or not case.corrected, lines
    assert {one.rule for one in wrong(found)} - case.also == {case.rule}, shown(found)
    assert finding.fault in {fault.value for fault in Fault}


@pytest.mark.parametrize("case", [case for case in CASES if case.gone], ids=[case.name for case in CASES if case.gone])
def test_the_corrected_file_has_it_no_more(case: Case) -> None:
    found = report(case.files, host=case.host)
    fixed = fixes.fix(found, LintOptions(advertise=case.host))
    assert case.rule in {one.rule for one in fixed.fixed_findings}, shown(fixed.after)
    assert wrong(fixed.after) == [], shown(fixed.after)
    assert fixed.changed
