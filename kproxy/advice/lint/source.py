"""The text of one file, locations in it, and edits to it."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kproxy.base.regularfile import reason_of

# Compose files and properties have some hundred lines. This stops a wrong path from filling the memory.
MAX_BYTES = 4 * 1024 * 1024
STDIN = "-"
BOM = "\ufeff"


class UnreadableError(Exception):
    """A file that cannot be read as text; `str()` says why."""


class SourceFile:
    """The text of one file with its original line ends and byte order mark."""

    def __init__(self, name: str, text: str, path: Path | None = None, encoding: str = "utf-8") -> None:
        self.name = name
        self.text = text
        self.path = path
        self.encoding = encoding

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", self.text))]

    def line(self, index: int) -> int:
        """Return the number, from 1, of the line of a character."""
        return bisect_right(self._starts, index)

    def column(self, index: int) -> int:
        """Return the number, from 1, of the column of a character."""
        return index - self._starts[self.line(index) - 1] + 1

    def line_start(self, index: int) -> int:
        return self._starts[self.line(index) - 1]

    def line_end(self, index: int) -> int:
        """Return the end of a character's line, without its line end."""
        return self.line_start(index) + len(self.line_text(self.line(index)))

    def next_line(self, index: int) -> int:
        """Return the start of the line after that of a character; the end of the text after the last line."""
        line = self.line(index)
        return self._starts[line] if line < len(self._starts) else len(self.text)

    def line_text(self, number: int) -> str:
        """Return a line without its line end."""
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    @cached_property
    def newline(self) -> str:
        """The line end that the file uses."""
        match = re.search(r"\r\n|\n|\r", self.text)
        return match[0] if match else "\n"

    def with_edits(self, edits: Iterable[Edit]) -> SourceFile:
        """Return a copy of this file with the edits that are for it."""
        text = self.text
        for edit in sorted(
            (edit for edit in edits if edit.name == self.name), key=lambda edit: (edit.start, edit.end), reverse=True
        ):
            text = text[: edit.start] + edit.new + text[edit.end :]
        return SourceFile(self.name, text, self.path, self.encoding)

    def encode(self) -> bytes:
        return self.text.encode(self.encoding)


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of the characters from `start` to `end` of the file called `name`."""

    name: str
    start: int
    end: int
    new: str

    def overlaps(self, other: Edit) -> bool:
        """Check whether both touch the same characters."""
        return self.name == other.name and max(self.start, other.start) <= min(self.end, other.end)


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The position of a character in a file."""

    source: SourceFile
    index: int

    @property
    def line(self) -> int:
        return self.source.line(self.index)

    @property
    def column(self) -> int:
        return self.source.column(self.index)


def read_source(name: str) -> SourceFile:
    """Read a file, or standard input for `-`. Raises UnreadableError."""
    if name == STDIN:
        return decode_source(name, sys.stdin.buffer.read(MAX_BYTES + 1))
    path = Path(name)
    try:
        # Not Path.read_bytes, because a device never ends. A pipe is fine.
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        more = "; name the files in it" if isinstance(error, IsADirectoryError) else ""
        raise UnreadableError(f"{reason_of(error)}{more}") from None
    except ValueError as error:  # a NUL in the path
        raise UnreadableError(str(error)) from None
    return decode_source(name, data, path)


def decode_source(name: str, data: bytes, path: Path | None = None) -> SourceFile:
    """Decode the text of a file. Raises UnreadableError if the bytes are no text."""
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"is larger than {MAX_BYTES // 1024 // 1024} MiB")
    if b"\0" in data or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableError("is not UTF-8 text")
    try:
        return SourceFile(name, data.decode("utf-8"), path)
    except UnicodeDecodeError:
        # As java.util.Properties reads every file. YAML must be UTF-8: `tree` says so.
        return SourceFile(name, data.decode("latin-1"), path, "latin-1")
