"""The finding of a rule, with its location and the corrected lines, and text without secrets (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kproxy.advice.lint.source import Edit, SourceFile, SourceLocation
from kproxy.base.diagnostic import Diagnostic
from kproxy.base.printable import escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class LintDiagnostic(Diagnostic):
    """One mistake in a file. `fix` has lines that a person must complete; it is empty if there are edits."""

    rule: str
    location: SourceLocation
    edits: tuple[Edit, ...] = ()

    @property
    def code(self) -> str:
        """The rule, which says more than the fault."""
        return self.rule

    @property
    def line(self) -> int:
        return self.location.line

    @property
    def file(self) -> str:
        return self.location.source.name

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """A key that stays the same for the same mistake after a change elsewhere in the file."""
        return (self.rule, self.file, self.subject, self.text)

    def corrected_lines(self, sources: Sequence[SourceFile]) -> list[str]:
        """Return the corrected lines without secrets, those of the finding's own file first."""
        if not self.edits:
            return [escaped(line) for line in self.fix]
        lines = []
        for source in sorted(sources, key=lambda source: source is not self.location.source):
            lines += _changed_lines(source, [edit for edit in self.edits if edit.name == source.name])
        return lines or ["(without this line)"]


def _changed_lines(source: SourceFile, edits: list[Edit]) -> list[str]:
    """Return the lines that the edits produce."""
    lines: list[str] = []
    spans: list[tuple[int, int]] = []
    for edit in sorted(edits, key=lambda edit: edit.start):
        inserts = edit.start == edit.end and edit.start == source.line_start(edit.start) and edit.new.endswith("\n")
        start = source.line_start(edit.start)
        end = edit.end if inserts or _removes_whole_lines(source, edit) else source.line_end(edit.end)
        if spans and start <= spans[-1][1] and not inserts:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    for start, end in spans:
        inside = [edit for edit in edits if start <= edit.start and edit.end <= end]
        text, shift = source.text[start:end], start
        for edit in sorted(inside, key=lambda edit: (edit.start, edit.end), reverse=True):
            text = text[: edit.start - shift] + edit.new + text[edit.end - shift :]
        lines += [redact(line) for line in text.splitlines() if line.strip()]
    return list(dict.fromkeys(lines))


def _removes_whole_lines(source: SourceFile, edit: Edit) -> bool:
    return not edit.new and edit.start == source.line_start(edit.start) and edit.end == source.line_start(edit.end)


_SECRET = re.compile(
    r"""((?:password|passwd|secret|jaas|credential|passphrase|token|api.?key|[._]key(?=["']?\s*[=:]))
        [\w.\-]*["']?\s*(?:[=:]|,\s*["']?value["']?\s*:)\s*)(?!\s*$)(.+)""",
    re.IGNORECASE | re.VERBOSE,
)
# The options of an entry, on its line or on one that continues it.
_IN_JAAS = re.compile(
    r"""(?:LoginModule\b(?=\s+(?:required|requisite|sufficient|optional)\b|[^\n]*=)|(?:password|user_\w+)\s*=)[^\n]*""",
    re.IGNORECASE,
)
_USER_IN_URL = re.compile(r"://[^/\s@]+@")
HIDDEN = "[hidden]"
_LONGEST_LINE, _SHOWN_LENGTH = 4000, 400


def _semicolon(text: str) -> str:
    return ";" if "LoginModule" in text and text.rstrip("'\" ,\t").endswith(";") else ""


def redact(line: str) -> str:
    """Return a line of a file without secrets and without characters that move a cursor."""
    if len(line) > _LONGEST_LINE:
        return f"{redact(line[:_SHOWN_LENGTH])}… ({len(line)} characters)"
    # The semicolon of a login is no secret, and often what was missing.
    shown = _SECRET.sub(lambda match: match[1] + HIDDEN + _semicolon(match[2]), line)
    if HIDDEN not in shown:
        shown = _IN_JAAS.sub(lambda match: HIDDEN + _semicolon(match[0]), shown)
    return escaped(_USER_IN_URL.sub(f"://{HIDDEN}@", shown).replace("\t", "    "))
