"""The report as text, JSON, and annotations for GitHub. All text from files is escaped first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from kproxy.advice.lint.findings import redact
from kproxy.advice.lint.linter import LintReport
from kproxy.advice.lint.reachability import IF_RESOLVES, UNKNOWN, ListenerReachability
from kproxy.advice.lint.rules.table import LintRule
from kproxy.advice.remedies import remedy_of
from kproxy.base.diagnostic import ERROR, NOTE, Diagnostic, DiagnosticPlace, Severity, github_annotations, show, to_json
from kproxy.base.format import format_count, wrap
from kproxy.base.printable import one_line

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 80
_MAX_LENGTH, _MAX_LINE = 300, 2000


def diagnostics(report: LintReport) -> Iterator[Diagnostic]:
    """Yield the findings with their places and corrected lines, without secrets."""
    for finding in report.findings:
        yield replace(
            finding,
            subject=clean(finding.subject),
            text=clean(finding.text),
            place=DiagnosticPlace(clean(finding.file), finding.line, finding.location.column),
            fix=tuple(one_line(line, _MAX_LINE) for line in _dedented(finding.corrected_lines(report.sources))),
        )


def _dedented(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines as they stand below the first one: those of one entry of YAML keep their place."""
    indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return (line[indent:].rstrip() for line in lines)


def print_text(report: LintReport, console: Console | None = None) -> None:
    """Print the findings, the table of reachability, and the list of unchecked settings."""
    from rich.console import Console

    console = console or Console(highlight=False)
    for diagnostic in diagnostics(report):
        show([diagnostic], console)
        console.out()
    if report.reachability:
        console.out("Who can connect:", *reachability_table(report.reachability), "", sep="\n")
    for line in report.unchecked:
        console.out(*wrap(f"not checked: {clean(line)}", _WIDTH, "  ", ""), sep="\n")
    if _checked_files(report):
        console.out(summary(report))


def summary(report: LintReport) -> str:
    """Return one line with the numbers of findings and files."""
    counts = Counter(finding.severity for finding in report.findings)
    parts = [format_count(counts[severity], severity) for severity in Severity if counts[severity]]
    return f"{', '.join(parts) or 'no mistakes found'} in {format_count(_checked_files(report), 'file')}"


def _checked_files(report: LintReport) -> int:
    """Return the number of files that were read and recognised, and have something to check."""
    return sum(source.name not in {*report.unreadable, *report.without_settings} for source in report.sources)


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
            to_json(diagnostic, rule=finding.rule, fixable=bool(finding.edits))
            for finding, diagnostic in zip(report.findings, diagnostics(report), strict=True)
        ],
        "reach": [{key: clean(text) for key, text in asdict(row).items()} for row in report.reachability],
        "not_checked": [clean(line) for line in report.unchecked],
        "unreadable": {clean(name): clean(why) for name, why in report.unreadable.items()},
    }
    if difference is not None:
        document["diff"] = list(difference)
    return json.dumps(document, indent=2, ensure_ascii=True)


def rule_text(rule: LintRule) -> Iterator[str]:
    """Yield the lines that explain a rule to a person."""
    remedy = remedy_of(rule.fault)
    yield from (f"{rule.id} ({rule.severity})", "", *wrap(rule.why, _WIDTH), "")
    for word, lines in (("wrong", rule.wrong), ("right", rule.right)):
        yield from (f"  {'' if number else f'{word}:':<6} {line}" for number, line in enumerate(lines))
    yield from ("", *wrap(f"{remedy.title}. {remedy.fix}", _WIDTH))
    if rule.source:
        yield from ("", f"source: {rule.source}")


def rule_json(rule: LintRule) -> str:
    """Return a rule as JSON."""
    return json.dumps({**asdict(rule), "wrong": list(rule.wrong), "right": list(rule.right)}, indent=2)


def annotations_of(report: LintReport) -> Iterator[str]:
    """Return annotations for GitHub Actions."""
    unreadable = [
        Diagnostic(ERROR, "not read", clean(why), place=DiagnosticPlace(clean(name)))
        for name, why in report.unreadable.items()
    ]
    unchecked = [Diagnostic(NOTE, "not checked", clean(line)) for line in report.unchecked]
    return github_annotations([*unreadable, *diagnostics(report), *unchecked])


def clean(part: str) -> str:
    """Escape and cut text from a file or a file's name, and hide passwords in addresses."""
    return one_line(redact(part), _MAX_LENGTH)
