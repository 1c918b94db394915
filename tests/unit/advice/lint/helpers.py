"""Lints texts as files of a given name."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.findings import LintFinding, Severity
from kproxy.advice.lint.linter import LintOptions, LintReport, lint
from kproxy.advice.lint.source import SourceFile


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


def wrong(one: LintReport) -> list[LintFinding]:
    """The findings that change the exit code."""
    return [finding for finding in one.findings if finding.severity is not Severity.NOTE]
