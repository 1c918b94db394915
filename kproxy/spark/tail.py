"""What a host's kproxy and its keeper warn of, read from their common log. Standard library only.

kproxy writes `TIME LEVEL MESSAGE` (`kproxy.app.logs`), and the keeper does the same. `KproxyPlugin.java` reads the log
in the same way.
"""

from __future__ import annotations

import logging
import os
import re
import time
from pathlib import Path

_LINE = re.compile(r"\d{4}-\d\d-\d\dT\S+ (WARNING|ERROR|CRITICAL) +(.+)")
# The most that is read at once, and the longest line, in bytes.
_MOST = 1 << 16


def line(level: str, message: str) -> str:
    """One line, as kproxy writes it."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {level:7} {message}\n"


class Tail:
    """The lines that are new since the last look. A log that is replaced or cut is read from its beginning."""

    def __init__(self, path: Path, from_end: bool = False) -> None:
        """`from_end`: what stands there now is not new."""
        self._path = path
        self._file, self._at = (0, 0), 0
        self._rest = b""
        if from_end:
            try:
                found = path.stat()
            except OSError:
                return
            self._file, self._at = (found.st_dev, found.st_ino), found.st_size

    def look(self) -> list[tuple[int, str]]:
        """(level of `logging`, message) of each new warning or error."""
        try:
            with self._path.open("rb") as log:
                found = os.fstat(log.fileno())
                if (found.st_dev, found.st_ino) != self._file or found.st_size < self._at:
                    self._file, self._at, self._rest = (found.st_dev, found.st_ino), 0, b""
                log.seek(self._at)
                new = log.read(_MOST)
        except OSError:  # there is no proxy
            return []
        self._at += len(new)
        *lines, rest = (self._rest + new).split(b"\n")
        self._rest = rest if len(rest) < _MOST else b""
        read = (_LINE.match(one.decode(errors="replace")) for one in lines)
        return [(logging.getLevelNamesMapping()[one[1]], one[2]) for one in read if one]
