"""What a person, a program and GitHub read of a report. Everything from a file is made fit for a terminal first."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence

from kproxy.advice.lint.findings import Finding, Severity, safe
from kproxy.advice.lint.linter import Report
from kproxy.advice.lint.reachability import IF_RESOLVES, UNKNOWN, Row
from kproxy.base.printable import one_line

_WIDTH = 80
_LONGEST = 300


def text(report: Report) -> Iterator[str]:
    """Findings, the table of who can connect where, and what was not checked."""
    for finding in report.findings:
        yield from _finding(report, finding)
    if report.rows:
        yield "Who can connect:"
        yield from table(report.rows)
        yield ""
    for line in report.unknown:
        yield from textwrap.wrap(f"not checked: {said(line)}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    if _looked_at(report):
        yield summary(report)


def _finding(report: Report, finding: Finding) -> Iterator[str]:
    where = f"{said(finding.file)}:{finding.line}:{finding.place.column}"
    yield f"{where}: {finding.severity.value}: {said(finding.text)} [{finding.rule}]"
    yield from textwrap.wrap(finding.why, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    for number, line in enumerate(finding.corrected(report.sources)):
        yield f"    {'corrected: ' if not number else '           '}{one_line(line.strip(), 2000)}"
    yield ""


def summary(report: Report) -> str:
    """One line."""
    counts = [
        (sum(one.severity is severity for one in report.findings), severity.value)
        for severity in (Severity.ERROR, Severity.WARNING, Severity.NOTE)
    ]
    parts = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts if count]
    files = _looked_at(report)
    return f"{', '.join(parts) or 'no mistakes found'} in {files} file{'' if files == 1 else 's'}"


def _looked_at(report: Report) -> int:
    """The number of files that were read and known."""
    return sum(source.name not in report.unreadable for source in report.sources)


_HEADINGS = ("listener", "advertised", "same network", "its host", "other hosts")
_MARKS = (13, 8, 11)
_SHORT = {IF_RESOLVES: "if DNS", UNKNOWN: "?"}


def table(rows: Sequence[Row]) -> Iterator[str]:
    """At most 80 columns. An address that does not fit has a line of its own."""
    room = _WIDTH - sum(_MARKS) - len(_MARKS) - 2
    names = [f"{_end(said(row.broker), 44)} {one_line(row.listener, 30)}" for row in rows]
    first = min(max(len(name) for name in (*names, _HEADINGS[0])), 26)
    addresses = [one_line(row.advertised, 70) for row in rows]
    fitting = [len(address) for address in addresses if len(address) < room - first]
    second = max(*fitting, len(_HEADINGS[1])) if fitting else len(_HEADINGS[1])
    yield _line(_HEADINGS[0], _HEADINGS[1], _HEADINGS[2:], first, second)
    for name, address, row in zip(names, addresses, rows, strict=True):
        marks = [_SHORT.get(mark, mark) for mark in (row.near, row.host, row.far)]
        if len(name) > first or len(address) > second:
            yield f"  {name}"
            if len(address) > second:
                yield f"    {address}"[:_WIDTH]
                address = ""
            name = ""
        yield _line(name, address, marks, first, second)
    if any(IF_RESOLVES in (row.near, row.host, row.far) for row in rows):
        yield "  (if DNS: if the advertised name or address leads to the broker there)"


def _end(name: str, most: int) -> str:
    """The end of a path says more than its beginning."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _line(name: str, address: str, marks: Sequence[str], first: int, second: int) -> str:
    cells = " ".join(f"{mark:<{width}}" for mark, width in zip(marks, _MARKS, strict=True))
    return f"  {name:<{first}} {address:<{second}} {cells}".rstrip()


def as_json(report: Report, difference: Sequence[str] | None = None) -> str:
    """Everything, for programs."""
    document: dict[str, object] = {
        "findings": [
            {
                "rule": one.rule,
                "severity": one.severity.value,
                "fault": one.fault,
                "file": said(one.file),
                "line": one.line,
                "column": one.place.column,
                "subject": said(one.subject),
                "text": said(one.text),
                "why": one.why,
                "corrected": one.corrected(report.sources),
                "fixable": bool(one.edits),
            }
            for one in report.findings
        ],
        "reach": [
            {
                "broker": said(row.broker),
                "listener": said(row.listener),
                "protocol": row.protocol,
                "advertised": said(row.advertised),
                "same_network": row.near,
                "host": row.host,
                "other_hosts": row.far,
            }
            for row in report.rows
        ],
        "not_checked": [said(line) for line in report.unknown],
        "unreadable": {said(name): said(why) for name, why in report.unreadable.items()},
    }
    if difference is not None:
        document["diff"] = list(difference)
    return json.dumps(document, indent=2, ensure_ascii=True)


def github(report: Report) -> Iterator[str]:
    """Annotations for GitHub Actions."""
    for name, why in report.unreadable.items():
        yield f"::error file={_property(said(name))},title=not read::{_data(said(why))}"
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
    for one in report.findings:
        lines = [f"{said(one.text)}. {one.why}", *(f"corrected: {line}" for line in one.corrected(report.sources))]
        place = f"file={_property(said(one.file))},line={one.line},col={one.place.column}"
        yield f"::{words[one.severity]} {place},title={one.rule}::{_data(chr(10).join(lines))}"
    for line in report.unknown:
        yield f"::notice title=not checked::{_data(said(line))}"


def _data(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(message: str) -> str:
    return _data(message).replace(":", "%3A").replace(",", "%2C")


def said(part: str) -> str:
    """Text from a file or a name of a file: escaped, cut, without passwords in addresses."""
    return one_line(safe(part), _LONGEST)
