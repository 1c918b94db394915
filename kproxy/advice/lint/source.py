"""The text of one file, the places in it, and changes to it."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# Compose files and properties have some hundred lines. This stops a wrong path from filling the memory.
MAX_BYTES = 4 * 1024 * 1024
STDIN = "-"
BOM = "\ufeff"


class UnreadableError(Exception):
    """A file that cannot be read as text; `str()` says why."""


class SourceFile:
    """The text of one file, exactly as it is there: line ends and a byte order mark included."""

    def __init__(self, name: str, text: str, path: Path | None = None, encoding: str = "utf-8") -> None:
        self.name = name
        self.text = text
        self.path = path
        self.encoding = encoding

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", self.text))]

    def line(self, index: int) -> int:
        """The number of the line, from 1, of a character."""
        return bisect_right(self._starts, index)

    def column(self, index: int) -> int:
        """The number of the column, from 1, of a character."""
        return index - self._starts[self.line(index) - 1] + 1

    def line_start(self, index: int) -> int:
        return self._starts[self.line(index) - 1]

    def line_end(self, index: int) -> int:
        """Where the line of a character ends, its line end not included."""
        return self.line_start(index) + len(self.line_text(self.line(index)))

    def next_line(self, index: int) -> int:
        """Where the line after that of a character begins: the end of the text after the last one."""
        line = self.line(index)
        return self._starts[line] if line < len(self._starts) else len(self.text)

    def line_text(self, number: int) -> str:
        """A line without its line end."""
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    @cached_property
    def newline(self) -> str:
        """The line end that the file uses."""
        found = re.search(r"\r\n|\n|\r", self.text)
        return found[0] if found else "\n"

    def with_edits(self, edits: Iterable[Edit]) -> SourceFile:
        """This file after the edits that are for it."""
        text = self.text
        for edit in sorted((e for e in edits if e.name == self.name), key=lambda e: (e.start, e.end), reverse=True):
            text = text[: edit.start] + edit.new + text[edit.end :]
        return SourceFile(self.name, text, self.path, self.encoding)

    def encode(self) -> bytes:
        return self.text.encode(self.encoding)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the characters from `start` to `end` of the file called `name`."""

    name: str
    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A character of a file."""

    source: SourceFile
    index: int

    @property
    def line(self) -> int:
        return self.source.line(self.index)

    @property
    def column(self) -> int:
        return self.source.column(self.index)


def overlap(edits: Sequence[Edit], others: Sequence[Edit]) -> bool:
    """Whether two groups of edits touch the same characters."""
    return any(
        one.name == other.name and max(one.start, other.start) <= min(one.end, other.end)
        for one in edits
        for other in others
    )


def read_source(name: str) -> SourceFile:
    """Read a file, or standard input for `-`. Raises UnreadableError."""
    if name == STDIN:
        return decode_source(name, sys.stdin.buffer.read(MAX_BYTES + 1))
    path = Path(name)
    try:
        # Not Path.read_bytes: a device never ends. A pipe is fine.
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableError(_reason(error)) from None
    except ValueError as error:  # a NUL in the path
        raise UnreadableError(str(error)) from None
    return decode_source(name, data, path)


def decode_source(name: str, data: bytes, path: Path | None = None) -> SourceFile:
    """The text of these bytes. Raises UnreadableError if they are no text."""
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"is larger than {MAX_BYTES // 1024 // 1024} MiB")
    if b"\0" in data or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableError("is not UTF-8 text")
    try:
        return SourceFile(name, data.decode("utf-8"), path)
    except UnicodeDecodeError:
        # As java.util.Properties reads every file. YAML must be UTF-8: `tree` says so.
        return SourceFile(name, data.decode("latin-1"), path, "latin-1")


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    if isinstance(error, IsADirectoryError):
        return "is a directory; name the files in it"
    if isinstance(error, PermissionError):
        return "must not be read by this user"
    return (error.strerror or type(error).__name__).lower()
