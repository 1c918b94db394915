"""How kproxy logs: plain lines, coloured lines on a terminal, or JSON; and not the same line a thousand times.

No payload, token or password is logged at any level: nothing here ever sees a frame.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TextIO

# The same line is written once in so many seconds; the next one says how often it was left out.
_REPEAT_AFTER = 30.0
_REMEMBERED = 1000

_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}


class OncePerWhile(logging.Filter):
    """Lets a line through unless the very same one was written less than 30 s ago.

    A broker that is down makes every client's every attempt fail in the same words.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
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


class _Text(logging.Formatter):
    def __init__(self, coloured: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S" if coloured else "%Y-%m-%dT%H:%M:%S%z")
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace("\n", "\\n") if not record.exc_info else super().format(record)
        colour = _COLOURS.get(record.levelno) if self._coloured else None
        return f"{colour}{text}\x1b[0m" if colour else text


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "logger": record.name,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(log_format: str, level: str, stream: TextIO = sys.stderr) -> None:
    """Configure logging for the process: `auto`, `text` or `json`."""
    writer = logging.StreamHandler(stream)
    if log_format == "json":
        writer.setFormatter(_Json())
    else:
        writer.setFormatter(_Text(coloured=log_format == "auto" and stream.isatty()))
    writer.addFilter(OncePerWhile())
    logging.basicConfig(level=level.upper(), handlers=[writer], force=True)
    for library in ("asyncio", "asyncssh"):
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLogger().level))
