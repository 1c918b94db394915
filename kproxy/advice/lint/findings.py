"""What is found: each kind of finding once, and one finding with its place and the corrected line (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from kproxy.advice.lint.source import Edit, SourceFile, SourceLocation
from kproxy.base.printable import escaped


class Severity(Enum):
    """How bad it is. Notes do not change the exit code."""

    ERROR = "error"  # the broker or client does not start, or cannot connect
    WARNING = "warning"  # some clients fail, or it fails later
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One mistake. `subject` is whose it is: a broker, a client, a file."""

    rule: str
    severity: Severity
    location: SourceLocation
    subject: str
    text: str
    why: str
    edits: tuple[Edit, ...] = ()
    suggestion: tuple[str, ...] = ()
    """The corrected lines, for a person to complete; only where there are no edits."""
    fault: str = ""

    @property
    def line(self) -> int:
        return self.location.line

    @property
    def file(self) -> str:
        return self.location.source.name

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The same for the same finding after a change elsewhere in the file."""
        return (self.rule, self.file, self.subject, self.text)

    def corrected_lines(self, sources: Sequence[SourceFile]) -> list[str]:
        """The lines as they should be, without secrets; the first are those of the finding's own file."""
        if not self.edits:
            return [escaped(line) for line in self.suggestion]
        lines = []
        for source in sorted(sources, key=lambda one: one is not self.location.source):
            lines += _changed_lines(source, [edit for edit in self.edits if edit.name == source.name])
        return lines or ["(without this line)"]


def _changed_lines(source: SourceFile, edits: list[Edit]) -> list[str]:
    """The lines that the edits make."""
    lines: list[str] = []
    spans: list[tuple[int, int]] = []
    for edit in sorted(edits, key=lambda one: one.start):
        inserts = edit.start == edit.end and edit.start == source.line_start(edit.start) and edit.new.endswith("\n")
        start = source.line_start(edit.start)
        end = edit.end if inserts or _whole(source, edit) else source.line_end(edit.end)
        if spans and start <= spans[-1][1] and not inserts:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    for start, end in spans:
        inside = [edit for edit in edits if start <= edit.start and edit.end <= end]
        text, shift = source.text[start:end], start
        for edit in sorted(inside, key=lambda one: (one.start, one.end), reverse=True):
            text = text[: edit.start - shift] + edit.new + text[edit.end - shift :]
        lines += [redact(line) for line in text.splitlines() if line.strip()]
    return list(dict.fromkeys(lines))


def _whole(source: SourceFile, edit: Edit) -> bool:
    """Whether it removes whole lines."""
    return not edit.new and edit.start == source.line_start(edit.start) and edit.end == source.line_start(edit.end)


_SECRET = re.compile(
    r"""((?:password|passwd|secret|jaas|credential|passphrase|token|api.?key|[._]key(?=["']?\s*[=:]))
        [\w.\-]*["']?\s*[=:]\s*)(?!\s*$)(.+)""",
    re.IGNORECASE | re.VERBOSE,
)
_IN_JAAS = re.compile(r"""((?:LoginModule|password|user_\w+)\b[^\n]*)""", re.IGNORECASE)
_USER = re.compile(r"://[^/\s@]+@")
HIDDEN = "[hidden]"
_LONGEST, _SHOWN = 4000, 400


def redact(line: str) -> str:
    """A line of a file without secrets and without anything that moves a cursor."""
    if len(line) > _LONGEST:
        return f"{redact(line[:_SHOWN])}… ({len(line)} characters)"
    shown = _SECRET.sub(lambda match: match[1] + HIDDEN, line)
    if HIDDEN not in shown:
        shown = _IN_JAAS.sub(lambda match: HIDDEN, shown)
    return escaped(_USER.sub(f"://{HIDDEN}@", shown).replace("\t", "    "))
