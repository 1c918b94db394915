"""Lints texts as files of a given name."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from textwrap import dedent

from rich.console import Console

from kproxy.advice.lint import output
from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.linter import LintOptions, LintReport, lint
from kproxy.advice.lint.source import SourceFile
from kproxy.base.diagnostic import Severity


def report(
    files: Mapping[str, str], kind: FileKind | None = None, host: str = "", env: Mapping[str, str] | None = None
) -> LintReport:
    sources = [SourceFile(name, dedent(text).removeprefix("\n")) for name, text in files.items()]
    return lint(sources, LintOptions(kind, host, {source.name: env or {} for source in sources}))


def shown(one: LintReport) -> str:
    return "\n".join(
        f"{f.file}:{f.line} {f.severity.value} {f.rule}: {f.text} => {f.corrected_lines(one.sources)}"
        for f in one.findings
    )


def printed(one: LintReport) -> str:
    """The report as a person reads it."""
    out = StringIO()
    output.print_text(one, Console(file=out, highlight=False))
    return out.getvalue()


def wrong(one: LintReport) -> list[LintDiagnostic]:
    """The findings that change the exit code."""
    return [finding for finding in one.findings if finding.severity is not Severity.NOTE]
