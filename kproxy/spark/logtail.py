"""The common log of a host's kproxy and its keeper: how it is kept, and what both warn of, read from it. It uses the
standard library only.

kproxy writes `TIME LEVEL MESSAGE` (`kproxy.proxy.app.logs`), and the keeper does the same. The first line of the log is
its *mark*. A log that is emptied or replaced gets another mark, however long it is by then, so its readers begin anew.
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
# The most that is read at once, and the longest line, in bytes.
_MOST = 1 << 16
# The log is emptied when it is longer, in bytes: if nothing was written to it for so many seconds, so that its readers
# have read it, or in any case.
_LONG, _QUIET, _TOO_LONG = 4 << 20, 3.0, 8 << 20
# Of the line with the mark: "# ", 32 hexadecimal digits and the end of the line.
_MARKED = 35
# How often `following` looks, in seconds.
_LOOK_AGAIN = 0.5


class LogLine(NamedTuple):
    """A warning or an error in a log with this mark: its level in `logging`, and at which byte of the log it ends."""

    level: int
    message: str
    mark: str
    end: int


def format_line(level: str, message: str) -> str:
    """One line, as kproxy writes it."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {level:7} {message}\n"


class HostLog:
    """A new log. Whatever stood at this path is not written to any more, except by those who have it open."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._write_mark()

    def to_append(self) -> int:
        """A file descriptor for those who write lines."""
        return os.open(self._path, os.O_WRONLY | os.O_APPEND)

    def empty_if_long(self) -> None:
        """The lines go first, then the mark changes. So whoever sees the same mark before and after he has read has
        read lines that belong to it."""
        now = os.fstat(self._file)
        quiet = time.time() > now.st_mtime + _QUIET
        if now.st_size > (_LONG if quiet else _TOO_LONG):
            os.ftruncate(self._file, _MARKED)
            self._write_mark()

    def _write_mark(self) -> None:
        os.pwrite(self._file, b"# %s\n" % uuid4().hex.encode(), 0)


def read_position(path: Path) -> tuple[str, int]:
    """The mark of a log, and its length; what is new later comes after it. "-" and 0 if there is no log."""
    try:
        with path.open("rb") as log:
            return _mark(log) or "-", os.fstat(log.fileno()).st_size
    except OSError:
        return "-", 0


def _mark(log: BinaryIO) -> str:
    """ "" if the log is just being made."""
    said = os.pread(log.fileno(), _MARKED, 0)
    return said[2:-1].decode(errors="replace") if len(said) == _MARKED else ""


class LogTail:
    """The lines that are new since the last look. A log that is replaced or emptied is read from its beginning."""

    def __init__(self, path: Path, from_end: bool = False) -> None:
        """`from_end`: what stands there now is not new."""
        self._path = path
        self._marked, self._at = read_position(path) if from_end else ("-", 0)
        self._rest = b""

    @property
    def position(self) -> tuple[str, int]:
        """The mark of the log, and how much of it has been read, in bytes."""
        return self._marked, self._at - len(self._rest)

    def look(self) -> list[LogLine]:
        """Each new warning or error."""
        try:
            with self._path.open("rb") as log:
                marked = _mark(log)
                at, rest = (self._at, self._rest) if marked == self._marked else (_MARKED, b"")
                new = os.pread(log.fileno(), _MOST, at)
                if not marked or _mark(log) != marked:  # it is just being made, or emptied
                    return []
        except OSError:  # there is no proxy
            return []
        end = at - len(rest)
        self._marked, self._at = marked, at + len(new)
        *lines, rest = (rest + new).split(b"\n")
        self._rest = rest if len(rest) < _MOST else b""
        found = []
        for text in lines:
            end += len(text) + 1
            if said := _LINE.match(text.decode(errors="replace")):
                found.append(LogLine(logging.getLevelNamesMapping()[said[1]], said[2], marked, end))
        return found


@contextmanager
def follow_log(tail: LogTail, say: Callable[[LogLine], None]) -> Iterator[None]:
    """As long as it is within, what is new is said soon; at the end, all of it has been said."""
    stop = threading.Event()

    def look() -> None:
        for new in tail.look():
            say(new)

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
