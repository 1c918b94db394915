"""Corrected files: applying the edits of findings, their diff, and writing it.

A fix counts only if linting the changed files again, in memory, does not return its finding any more, and returns no
new error or warning.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from kproxy.advice.lint import properties
from kproxy.advice.lint.findings import HIDDEN, LintDiagnostic, redact
from kproxy.advice.lint.images import words
from kproxy.advice.lint.linter import LintOptions, LintReport, lint
from kproxy.advice.lint.source import MAX_BYTES, SourceFile
from kproxy.base import regularfile
from kproxy.base.diagnostic import Severity
from kproxy.base.errors import ConfigError

_ROUNDS = 200
# Each round reads all files again.
_SMALL_FILES, _ROUNDS_OF_LARGE = 64 * 1024, 10
# The fix of one of these lets the rules check more of a file: what they then find was wrong before.
_REVEALING_RULES = words("""
    variable-spelling byte-order-mark listener-syntax duplicate-key controller-names-missing variable-refused
    removed-setting container-port-differs
""")
_LONGEST_KEY = 4000
_SECRET_KEY = re.compile(r"password|passwd|secret|jaas|credential|passphrase|token|[._]key$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FixResult:
    """The reports before and after all fixes."""

    before: LintReport
    after: LintReport
    fixed_findings: Sequence[LintDiagnostic]
    """The findings of `before` that `after` does not have."""

    @property
    def changed(self) -> list[tuple[SourceFile, SourceFile]]:
        """The files that change, each as (before, after)."""
        pairs = zip(self.before.sources, self.after.sources, strict=True)
        return [(old, new) for old, new in pairs if old.text != new.text]


def fix(before: LintReport, options: LintOptions) -> FixResult:
    """Apply the edits of one finding after the other, as long as each removes its finding."""
    now, refused = before, set()
    small = sum(len(source.text) for source in before.sources) < _SMALL_FILES
    for _ in range(_ROUNDS if small else _ROUNDS_OF_LARGE):
        finding = next((other for other in now.findings if other.edits and other.identity not in refused), None)
        if finding is None:
            break
        after = _apply(now, finding, options)
        if after is None:
            refused.add(finding.identity)
        else:
            now = after
    remaining = {other.identity for other in now.findings}
    return FixResult(before, now, [other for other in before.findings if other.identity not in remaining])


def _apply(now: LintReport, finding: LintDiagnostic, options: LintOptions) -> LintReport | None:
    """Return the report after this finding's edits; None if they do not remove it, or cause other mistakes."""
    edits = finding.edits
    pairs = ((edit, other) for edit, other in combinations(edits, 2) if edit != other)
    if any(edit.start != edit.end for edit in edits) and any(edit.overlaps(other) for edit, other in pairs):
        return None
    after = lint([source.with_edits(edits) for source in now.sources], options)
    if finding.identity in {other.identity for other in after.findings}:
        return None
    existing = {(other.rule, other.subject) for other in now.findings}
    problems = {(other.rule, other.subject) for other in after.findings if other.severity is not Severity.NOTE}
    return None if problems - existing and finding.rule not in _REVEALING_RULES else after


def diff_lines(fixed: FixResult) -> Iterator[str]:
    """Return the lines of a unified diff, with secrets hidden."""
    for old, new in fixed.changed:
        name = redact(old.name)
        yield from difflib.unified_diff(_redacted_lines(old), _redacted_lines(new), name, name, lineterm="")


def _redacted_lines(source: SourceFile) -> list[str]:
    hidden = _secret_lines(source)
    lines = re.split(r"\r\n|\n|\r", source.text)
    if lines and not lines[-1]:
        lines.pop()
    return [HIDDEN if number in hidden else redact(line) for number, line in enumerate(lines, 1)]


def _secret_lines(source: SourceFile) -> set[int]:
    """Return the numbers of lines that continue a secret from an earlier line."""
    hidden: set[int] = set()
    for value in properties.parse(source).all_values:
        if _SECRET_KEY.search(value.key):
            hidden.update(range(value.line + 1, source.line(value.end) + 1))
    # In YAML: all lines that are further in than the key of a block with a secret.
    inside = -1
    for number, line in enumerate(re.split(r"\r\n|\n|\r", source.text), 1):
        indent = len(line) - len(line.lstrip(" "))
        if line.strip() and indent <= inside:
            inside = -1
        if inside >= 0 or len(line) > _LONGEST_KEY:
            hidden.add(number)
        elif (entry := re.match(r"[ ]*-[ ]+name:[ ]*[\"']?([\w.\-]+)[\"']?\s*$", line)) and _SECRET_KEY.search(
            entry[1]
        ):
            inside = indent  # a variable of Kubernetes: its value is on the next lines
        else:
            match = re.match(r"[ ]*(?:- )?[\"']?([\w.\-]+)[\"']?\s*:\s*\S*\s*$", line)
            if match and _SECRET_KEY.search(match[1]):
                inside = indent
    return hidden


def write_files(fixed: FixResult) -> None:
    """Write the changed files.

    Raises ConfigError if a file has changed since it was read, or cannot be written. Then that file and those after it
    stay as they are.
    """
    for old, _ in fixed.changed:
        _check_unchanged(old)
    for old, new in fixed.changed:
        _write(old, new)


def _check_unchanged(old: SourceFile) -> Path:
    """Return the path of a file that has not changed since it was read. Raises ConfigError if it has."""
    if old.path is None:
        raise ConfigError("standard input cannot be written: give the file's name")
    try:
        target = old.path.resolve(strict=True)
        now = regularfile.read(target, MAX_BYTES)
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{redact(old.name)}: {_error_text(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{redact(old.name)}: {error}, so kproxy does not write it") from None
    if now != old.encode():
        raise ConfigError(f"{redact(old.name)}: changed while kproxy looked at it; kproxy did not write it: try again")
    return target


def _write(old: SourceFile, new: SourceFile) -> None:
    """Write a temporary file beside the target, and replace the target with it."""
    target = _check_unchanged(old)
    temporary = ""
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(new.encode())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        _check_unchanged(old)
        os.replace(temporary, target)
    except (OSError, ConfigError) as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{redact(old.name)}: cannot be written: {_error_text(error)}") from None


def _error_text(error: Exception) -> str:
    return (error.strerror or type(error).__name__).lower() if isinstance(error, OSError) else str(error)
