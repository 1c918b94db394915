"""One diagnostic in the forms for terminals, programs and CI."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from kproxy.base.diagnostic import (
    ERROR,
    NOTE,
    WARNING,
    Diagnostic,
    DiagnosticPlace,
    Severity,
    exit_code,
    github_annotations,
    grouped,
    headline,
    show,
    to_json,
)

BARE = Diagnostic(NOTE, "kproxies", "3 replied")
FULL = Diagnostic(
    ERROR, "kafka", "no\x1b[31m", "port-closed", DiagnosticPlace("a,b.yml", 3, 7), ("x: 1", "y: 2"), "It\nfails."
)


@pytest.mark.parametrize(
    ("diagnostic", "line"),
    [
        (BARE, "note: kproxies: 3 replied"),
        (FULL, "a,b.yml:3:7: error: kafka: no\\x1b[31m [port-closed]"),
        (Diagnostic(WARNING, "f.yml", "is empty", place=DiagnosticPlace("f.yml")), "f.yml: warning: is empty"),
        (Diagnostic(ERROR, "", "is missing", place=DiagnosticPlace("--listen")), "--listen: error: is missing"),
    ],
)
def test_first_line(diagnostic: Diagnostic, line: str) -> None:
    assert headline(diagnostic) == line


def test_terminal() -> None:
    out = StringIO()
    show([FULL, BARE], Console(file=out, width=20))
    assert out.getvalue().splitlines() == [
        "a,b.yml:3:7: error: kafka: no\\x1b[31m [port-closed]",
        "    It\\nfails.",
        "    corrected: x: 1",
        "               y: 2",
        "note: kproxies: 3 replied",
    ]


def test_findings_that_are_alike_are_one() -> None:
    groups = [Diagnostic(WARNING, f"group g{number}", "is excluded") for number in range(21)]
    other = Diagnostic(WARNING, "group g0", "is a share group")
    assert grouped([*groups, BARE, other, groups[0], BARE]) == [
        Diagnostic(WARNING, "group g0, g1, g2 and 18 more", "is excluded"),
        BARE,
        other,
    ]
    assert grouped([FULL, FULL]) == [FULL]
    assert grouped([]) == []


def test_json() -> None:
    assert to_json(FULL, rule="r") == {
        "severity": "error",
        "fault": "port-closed",
        "subject": "kafka",
        "place": {"name": "a,b.yml", "line": 3, "column": 7},
        "text": "no\x1b[31m",
        "why": "It\nfails.",
        "fix": ["x: 1", "y: 2"],
        "rule": "r",
    }
    assert (to_json(BARE)["fault"], to_json(BARE)["place"]) == (None, None)


def test_annotations() -> None:
    assert list(github_annotations([FULL, BARE])) == [
        "::error file=a%2Cb.yml,line=3,col=7,title=port-closed::no\x1b[31m. It%0Afails.%0Acorrected: x: 1"
        "%0Acorrected: y: 2",
        "::notice title=kproxies::3 replied",
    ]


@pytest.mark.parametrize(("severity", "code"), [(ERROR, 1), (WARNING, 0), (NOTE, 0)])
def test_exit_code(severity: Severity, code: int) -> None:
    assert exit_code([BARE, Diagnostic(severity, "s", "t")]) == code
    assert exit_code([]) == 0
