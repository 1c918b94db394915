"""One `Diagnostic`: a problem or a note that a check reports, in the forms for terminals, for programs and for CI.

All commands that check something report diagnostics, with the same severities, JSON and exit codes: docs/findings.md.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kproxy.base.format import abbreviate
from kproxy.base.printable import escaped

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 80
CLEAN, ERRORS, NOT_CHECKED = 0, 1, 2
"""The exit codes of a check."""


class Severity(StrEnum):
    """The severity of a diagnostic, the worst first."""

    ERROR = "error"  # it does not work, or must not begin
    WARNING = "warning"  # it works, but something is lost, fails later or is left to do
    NOTE = "note"


ERROR, WARNING, NOTE = Severity


@dataclass(frozen=True, slots=True)
class DiagnosticPlace:
    """The place of a mistake: a file with a line, a variable (`KPROXY_LISTEN`) or a flag (`--listen`)."""

    name: str
    line: int = 0
    """From 1; 0 if the place is no file, or the whole of it."""
    column: int = 0

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.name, self.line, self.column) if part)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem or a note. A room whose checks know more has a subclass with more fields."""

    severity: Severity
    subject: str
    """The broker, client, topic, option … that it is about."""
    text: str
    fault: str = ""
    """The identifier of the cause, if it has one: most are those of `kproxy.advice.remedies.Fault`."""
    place: DiagnosticPlace | None = None
    fix: tuple[str, ...] = ()
    """The lines that fix it."""
    why: str = ""
    """More sentences: the reason, or what follows."""

    @property
    def code(self) -> str:
        """The identifier that is shown, and that the documents explain."""
        return self.fault

    def __str__(self) -> str:
        parts = ["" if self.place is None else str(self.place), self.subject, self.text]
        return ": ".join(part for part in parts if part)


def grouped(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics, those that differ only in the names of their subjects in one.

    "group a" and "group b" become "group a, b". One that is there twice is returned once.
    """
    names_of: dict[tuple[str, Diagnostic], dict[str, None]] = {}
    for diagnostic in diagnostics:
        kind, _, name = diagnostic.subject.partition(" ")
        names_of.setdefault((kind, replace(diagnostic, subject="")), {})[name] = None
    return [
        replace(diagnostic, subject=f"{kind} {abbreviate(list(names))}".rstrip())
        for (kind, diagnostic), names in names_of.items()
    ]


def severities(diagnostics: Iterable[Diagnostic]) -> set[Severity]:
    return {diagnostic.severity for diagnostic in diagnostics}


def exit_code(diagnostics: Iterable[Diagnostic]) -> int:
    """Return the exit code of a check that has finished: warnings and notes do not change it."""
    return ERRORS if Severity.ERROR in severities(diagnostics) else CLEAN


def to_json(diagnostic: Diagnostic, **more: object) -> dict[str, object]:
    """Return the fields that the JSON of all commands has, and those that only one has."""
    place = diagnostic.place
    return {
        "severity": diagnostic.severity.value,
        "fault": str(diagnostic.fault) or None,
        "subject": diagnostic.subject,
        "place": None if place is None else {"name": place.name, "line": place.line, "column": place.column},
        "text": diagnostic.text,
        "why": diagnostic.why,
        "fix": list(diagnostic.fix),
        **more,
    }


def headline(diagnostic: Diagnostic) -> str:
    """Return the first line of a diagnostic, as compilers write it: `FILE:LINE: error: SUBJECT: TEXT [CODE]`."""
    place = diagnostic.place
    subject = "" if place is not None and place.name == diagnostic.subject else diagnostic.subject
    parts = ["" if place is None else str(place), diagnostic.severity.value, subject, diagnostic.text]
    code = f" [{diagnostic.code}]" if diagnostic.code else ""
    return escaped(": ".join(part for part in parts if part) + code)


def show(diagnostics: Iterable[Diagnostic], console: Console | None = None) -> None:
    """Print diagnostics on a terminal. Their first lines are not wrapped, so that programs can read them too."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console(highlight=False)
    styles = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
    for diagnostic in diagnostics:
        head = Text(headline(diagnostic))
        head.highlight_words([f"{diagnostic.severity.value}: "], styles[diagnostic.severity])
        console.print(head, soft_wrap=True)
        # An address in the text stays whole.
        for line in textwrap.wrap(escaped(diagnostic.why), _WIDTH - 4, break_long_words=False, break_on_hyphens=False):
            console.out(f"    {line}")
        for number, line in enumerate(diagnostic.fix):
            label = "           " if number else "corrected: "
            console.out(f"    {label}{escaped(line.strip())}")


def github_annotations(diagnostics: Iterable[Diagnostic]) -> Iterator[str]:
    """Yield the diagnostics as annotations of GitHub Actions."""
    levels = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
    for diagnostic in diagnostics:
        place, properties = diagnostic.place, {"title": diagnostic.code or diagnostic.subject}
        if place is not None:
            properties = {"file": place.name, "line": str(place.line), "col": str(place.column)} | properties
        shown = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value not in ("", "0"))
        text = f"{diagnostic.text}. {diagnostic.why}" if diagnostic.why else diagnostic.text
        lines = [text, *(f"corrected: {line}" for line in diagnostic.fix)]
        yield f"::{levels[diagnostic.severity]} {shown}::{_data(chr(10).join(lines))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
