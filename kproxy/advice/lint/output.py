"""The report as text, JSON, and annotations for GitHub. All text from files is escaped first."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence

from kproxy.advice.lint.findings import LintFinding, Severity, redact
from kproxy.advice.lint.linter import LintReport
from kproxy.advice.lint.reachability import IF_RESOLVES, UNKNOWN, ListenerReachability
from kproxy.base.printable import one_line

_WIDTH = 80
_MAX_LENGTH = 300


def text_lines(report: LintReport) -> Iterator[str]:
    """Return the findings, the table of reachability, and the list of unchecked settings."""
    for finding in report.findings:
        yield from _finding_lines(report, finding)
    if report.reachability:
        yield "Who can connect:"
        yield from reachability_table(report.reachability)
        yield ""
    for line in report.unchecked:
        yield from textwrap.wrap(f"not checked: {clean(line)}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    if _checked_files(report):
        yield summary(report)


def _finding_lines(report: LintReport, finding: LintFinding) -> Iterator[str]:
    where = f"{clean(finding.file)}:{finding.line}:{finding.location.column}"
    yield f"{where}: {finding.severity.value}: {clean(finding.text)} [{finding.rule}]"
    yield from textwrap.wrap(finding.why, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    for number, line in enumerate(finding.corrected_lines(report.sources)):
        yield f"    {'corrected: ' if not number else '           '}{one_line(line.strip(), 2000)}"
    yield ""


def summary(report: LintReport) -> str:
    """Return one line with the numbers of findings and files."""
    counts = [
        (sum(finding.severity is severity for finding in report.findings), severity.value)
        for severity in (Severity.ERROR, Severity.WARNING, Severity.NOTE)
    ]
    parts = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts if count]
    files = _checked_files(report)
    return f"{', '.join(parts) or 'no mistakes found'} in {files} file{'' if files == 1 else 's'}"


def _checked_files(report: LintReport) -> int:
    """Return the number of files that were read and recognised."""
    return sum(source.name not in report.unreadable for source in report.sources)


_HEADINGS = ("listener", "advertised", "same network", "its host", "other hosts")
_MARK_WIDTHS = (13, 8, 11)
_SHORT_MARKS = {IF_RESOLVES: "if DNS", UNKNOWN: "?"}


def reachability_table(rows: Sequence[ListenerReachability]) -> Iterator[str]:
    """Return a table of at most 80 columns. An address that does not fit has a line of its own."""
    room = _WIDTH - sum(_MARK_WIDTHS) - len(_MARK_WIDTHS) - 2
    names = [f"{_shorten_start(clean(row.broker), 44)} {one_line(row.listener, 30)}" for row in rows]
    first = min(max(len(name) for name in (*names, _HEADINGS[0])), 26)
    addresses = [one_line(row.advertised, 70) for row in rows]
    fitting = [len(address) for address in addresses if len(address) < room - first]
    second = max(*fitting, len(_HEADINGS[1])) if fitting else len(_HEADINGS[1])
    yield _table_row(_HEADINGS[0], _HEADINGS[1], _HEADINGS[2:], first, second)
    for name, address, row in zip(names, addresses, rows, strict=True):
        marks = [_SHORT_MARKS.get(mark, mark) for mark in (row.same_network, row.host, row.other_hosts)]
        if len(name) > first or len(address) > second:
            yield f"  {name}"
            if len(address) > second:
                yield f"    {address}"[:_WIDTH]
                address = ""
            name = ""
        yield _table_row(name, address, marks, first, second)
    if any(IF_RESOLVES in (row.same_network, row.host, row.other_hosts) for row in rows):
        yield "  (if DNS: if the advertised name or address leads to the broker there)"


def _shorten_start(name: str, most: int) -> str:
    """Cut a path at its beginning, because its end says more."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _table_row(name: str, address: str, marks: Sequence[str], first: int, second: int) -> str:
    cells = " ".join(f"{mark:<{width}}" for mark, width in zip(marks, _MARK_WIDTHS, strict=True))
    return f"  {name:<{first}} {address:<{second}} {cells}".rstrip()


def as_json(report: LintReport, difference: Sequence[str] | None = None) -> str:
    """Return the whole report as JSON."""
    document: dict[str, object] = {
        "findings": [
            {
                "rule": finding.rule,
                "severity": finding.severity.value,
                "fault": finding.fault,
                "file": clean(finding.file),
                "line": finding.line,
                "column": finding.location.column,
                "subject": clean(finding.subject),
                "text": clean(finding.text),
                "why": finding.why,
                "corrected": finding.corrected_lines(report.sources),
                "fixable": bool(finding.edits),
            }
            for finding in report.findings
        ],
        "reach": [
            {
                "broker": clean(row.broker),
                "listener": clean(row.listener),
                "protocol": row.protocol,
                "advertised": clean(row.advertised),
                "same_network": row.same_network,
                "host": row.host,
                "other_hosts": row.other_hosts,
            }
            for row in report.reachability
        ],
        "not_checked": [clean(line) for line in report.unchecked],
        "unreadable": {clean(name): clean(why) for name, why in report.unreadable.items()},
    }
    if difference is not None:
        document["diff"] = list(difference)
    return json.dumps(document, indent=2, ensure_ascii=True)


def github_annotations(report: LintReport) -> Iterator[str]:
    """Return annotations for GitHub Actions."""
    for name, why in report.unreadable.items():
        yield f"::error file={_escape_property(clean(name))},title=not read::{_escape_data(clean(why))}"
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
    for finding in report.findings:
        lines = [
            f"{clean(finding.text)}. {finding.why}",
            *(f"corrected: {line}" for line in finding.corrected_lines(report.sources)),
        ]
        place = f"file={_escape_property(clean(finding.file))},line={finding.line},col={finding.location.column}"
        yield f"::{words[finding.severity]} {place},title={finding.rule}::{_escape_data(chr(10).join(lines))}"
    for line in report.unchecked:
        yield f"::notice title=not checked::{_escape_data(clean(line))}"


def _escape_data(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(message: str) -> str:
    return _escape_data(message).replace(":", "%3A").replace(",", "%2C")


def clean(part: str) -> str:
    """Escape and cut text from a file or a file's name, and hide passwords in addresses."""
    return one_line(redact(part), _MAX_LENGTH)
