"""The common log of a host's kproxy and its keeper, and the warnings in it. Standard library only.

kproxy writes `TIME LEVEL MESSAGE` (`kproxy.proxy.app.logs`), and the keeper does the same. The first line of the log is
its *mark*. A log that is emptied or replaced gets another mark, so its readers begin again, however long it is by then.
`KproxyPlugin.java` reads the log in the same way.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import uuid4

_LINE = re.compile(r"\d{4}-\d\d-\d\dT\S+ (WARNING|ERROR|CRITICAL) +(.+)")
# Maximum size of a read and of a line, in bytes.
_MOST = 1 << 16
# The log is emptied when it is longer, in bytes: if nothing was written to it for so many seconds, so that its readers
# have read it, or in any case.
_LONG, _QUIET, _TOO_LONG = 4 << 20, 3.0, 8 << 20
# Of the line with the mark: "# ", 32 hexadecimal digits and the end of the line.
_MARKED = 35
# How often `following` looks, in seconds.
_LOOK_AGAIN = 0.5


class LogLine(NamedTuple):
    """A warning or an error: its level in `logging`, its text, the mark of its log, and the byte at which it ends."""

    level: int
    message: str
    mark: str
    end: int


def format_line(level: str, message: str) -> str:
    """Return one line, as kproxy writes it."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {level:7} {message}\n"


def parse_line(text: str) -> tuple[int, str] | None:
    """Return the level in `logging` and the message of a line with a warning or an error; None for any other line."""
    match = _LINE.match(text)
    return match and (logging.getLevelNamesMapping()[match[1]], match[2])


class HostLog:
    """A new log. Only processes that have the old file open still write to it."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._write_mark()

    def to_append(self) -> int:
        """Return a file descriptor for writing lines."""
        return os.open(self._path, os.O_WRONLY | os.O_APPEND)

    def empty_if_long(self) -> None:
        """Empty a long log. The lines go first, then the mark changes.

        So a reader that sees the same mark before and after reading has read lines that belong to it.
        """
        now = os.fstat(self._file)
        quiet = time.time() > now.st_mtime + _QUIET
        if now.st_size > (_LONG if quiet else _TOO_LONG):
            os.ftruncate(self._file, _MARKED)
            self._write_mark()

    def _write_mark(self) -> None:
        os.pwrite(self._file, b"# %s\n" % uuid4().hex.encode(), 0)


def read_position(path: Path) -> tuple[str, int]:
    """Return the mark of a log and its length; "-" and 0 if there is no log."""
    try:
        with path.open("rb") as log:
            return _mark(log) or "-", os.fstat(log.fileno()).st_size
    except OSError:
        return "-", 0


def _mark(log: BinaryIO) -> str:
    """Return the mark, "" if the log is just being created."""
    line = os.pread(log.fileno(), _MARKED, 0)
    return line[2:-1].decode(errors="replace") if len(line) == _MARKED else ""


class LogTail:
    """The new lines since the last call of `look`. A log that is replaced or emptied is read from its beginning."""

    def __init__(self, path: Path, from_end: bool = False) -> None:
        """Begin at the start of the log, or with `from_end` at its current end."""
        self._path = path
        self._mark, self._offset = read_position(path) if from_end else ("-", 0)
        self._partial = b""

    @property
    def position(self) -> tuple[str, int]:
        """The mark of the log, and how much of it has been read, in bytes."""
        return self._mark, self._offset - len(self._partial)

    def look(self) -> list[LogLine]:
        """Return the new warnings and errors."""
        try:
            with self._path.open("rb") as log:
                mark = _mark(log)
                offset, partial = (self._offset, self._partial) if mark == self._mark else (_MARKED, b"")
                new = os.pread(log.fileno(), _MOST, offset)
                if not mark or _mark(log) != mark:  # it is just being made, or emptied
                    return []
        except OSError:  # there is no proxy
            return []
        end = offset - len(partial)
        self._mark, self._offset = mark, offset + len(new)
        *lines, partial = (partial + new).split(b"\n")
        self._partial = partial if len(partial) < _MOST else b""
        new_lines = []
        for text in lines:
            end += len(text) + 1
            if parsed := parse_line(text.decode(errors="replace")):
                new_lines.append(LogLine(*parsed, mark, end))
        return new_lines


@contextmanager
def follow_log(tail: LogTail, on_line: Callable[[LogLine], None]) -> Iterator[None]:
    """Pass new lines to `on_line` while the context is open, and the last ones at its end."""
    stop = threading.Event()

    def look() -> None:
        for new in tail.look():
            on_line(new)

    def follow() -> None:
        while not stop.wait(_LOOK_AGAIN):
            look()

    follower = threading.Thread(target=follow, name="kproxy.spark log", daemon=True)
    follower.start()
    try:
        yield
    finally:
        stop.set()
        follower.join()
        look()
