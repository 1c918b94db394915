"""Lints texts as files of a given name."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

from kproxy.advice.lint.filekinds import Kind
from kproxy.advice.lint.findings import Finding, Severity
from kproxy.advice.lint.linter import Options, Report, lint
from kproxy.advice.lint.source import Source


def report(
    files: Mapping[str, str], kind: Kind | None = None, host: str = "", env: Mapping[str, str] | None = None
) -> Report:
    sources = [Source(name, dedent(text).removeprefix("\n")) for name, text in files.items()]
    return lint(sources, Options(kind, host, {source.name: env or {} for source in sources}))


def shown(one: Report) -> str:
    return "\n".join(
        f"{f.file}:{f.line} {f.severity.value} {f.rule}: {f.text} => {f.corrected(one.sources)}" for f in one.findings
    )


def wrong(one: Report) -> list[Finding]:
    """The findings that change the exit code."""
    return [finding for finding in one.findings if finding.severity is not Severity.NOTE]
