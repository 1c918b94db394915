"""How kproxy logs: plain lines, coloured lines on a terminal, or JSON; and not the same line a thousand times.

No payload, token or password is logged at any level: nothing here ever sees a frame. Names and messages of peers may be
in a line; here is the last edge at which they are made harmless to terminals, and cut.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from types import TracebackType
from typing import TextIO, TypeAlias

from kproxy.printable import one_line

# A message, and each line of a traceback, has at most so many characters.
LONGEST = 4000
# The same line is written once in so many seconds; the next one says how often it was left out.
_REPEAT_AFTER = 30.0
_REMEMBERED = 1000

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}


class OncePerWhile(logging.Filter):
    """Lets a line through unless the very same one was written less than 30 s ago.

    A broker that is down makes every client's every attempt fail in the same words.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = one_line(record.getMessage(), LONGEST)
        now = time.monotonic()
        written, left_out = self._last.get(text, (-_REPEAT_AFTER, 0))
        if now - written < _REPEAT_AFTER:
            self._last[text] = (written, left_out + 1)
            return False
        if len(self._last) >= _REMEMBERED:
            self._last = {line: seen for line, seen in self._last.items() if now - seen[0] < _REPEAT_AFTER}
            if len(self._last) >= _REMEMBERED:
                self._last.clear()
        self._last[text] = (now, 0)
        if left_out:
            record.msg, record.args = f"{text} ({left_out} times more since)", ()
        return True


class _Harmless(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message, LONGEST)
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:
        return "\n".join(one_line(line, LONGEST) for line in super().formatException(ei).split("\n"))


class _Text(_Harmless):
    def __init__(self, short_time: bool, coloured: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S" if short_time else "%Y-%m-%dT%H:%M:%S%z")
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        colour = _COLOURS.get(record.levelno) if self._coloured else None
        return f"{colour}{text}\x1b[0m" if colour else text


class _Json(_Harmless):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": one_line(record.getMessage(), LONGEST),
            "logger": record.name,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def coloured(stream: TextIO) -> bool:
    """Whether to use colours there: on a terminal that knows them, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def set_up(log_format: str, level: str, stream: TextIO = sys.stderr) -> None:
    """Configure logging for the process: `auto`, `text` or `json`."""
    writer = logging.StreamHandler(stream)
    if log_format == "json":
        writer.setFormatter(_Json())
    else:
        terminal = log_format == "auto" and stream.isatty()
        writer.setFormatter(_Text(short_time=terminal, coloured=terminal and coloured(stream)))
    writer.addFilter(OncePerWhile())
    logging.basicConfig(handlers=[writer], force=True)
    set_level(level)


def set_level(level: str) -> None:
    """Write what is at least this important from now on."""
    logging.getLogger().setLevel(level.upper())
    for library in ("asyncio", "asyncssh"):
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLogger().level))
