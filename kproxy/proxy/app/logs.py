"""The log of kproxy: plain lines, coloured lines on a terminal, or JSON.

The same line is not written a thousand times (`kproxy.base.repeats`). kproxy logs no payload, token or password at any
level: this module never sees a frame. Names and messages of peers may be in a line; this is the last place that makes
them harmless to terminals, and cuts them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TextIO, TypeAlias

from kproxy.base.messages.runtime import LINES_DROPPED
from kproxy.base.printable import one_line
from kproxy.base.repeats import MAX_MESSAGE_LENGTH, RepeatFilter
from kproxy.proxy.app.stderr import ThreadedStderr

# How often it is looked whether lines were left out, in seconds.
_LOOK_EVERY = 5.0

NOT_ON_TERMINAL = {"not_on_terminal": True}
"""`extra` of a line that a person at a terminal does not need, such as what the table of the nodes says."""

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}


class _EscapingFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message, MAX_MESSAGE_LENGTH)
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:
        return "\n".join(one_line(line, MAX_MESSAGE_LENGTH) for line in super().formatException(ei).split("\n"))


class _TextFormatter(_EscapingFormatter):
    def __init__(self, short_time: bool, coloured: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S" if short_time else "%Y-%m-%dT%H:%M:%S%z")
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        colour = _COLOURS.get(record.levelno) if self._coloured else None
        return f"{colour}{text}\x1b[0m" if colour else text


class _JsonFormatter(_EscapingFormatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": one_line(record.getMessage(), MAX_MESSAGE_LENGTH),
            "logger": record.name,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def coloured(stream: TextIO) -> bool:
    """Check whether to use colours: on a terminal that supports them, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def end_line(stream: TextIO | None) -> None:
    """Begin a new line on a terminal, which shows `^C` where the person pressed it."""
    if stream is not None and stream.isatty():
        stream.write("\n")


class _StderrHandler(logging.StreamHandler[TextIO]):
    """A handler that writes to stderr. If a thread writes for it, the end of logging waits for the thread."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        if isinstance(stream, ThreadedStderr):
            stream.dropped_text = self._dropped_text

    def _dropped_text(self, lines: int) -> str:
        text = LINES_DROPPED(lines=lines)
        return self.format(logging.LogRecord(__name__, logging.WARNING, "", 0, text, (), None)) + self.terminator

    def close(self) -> None:
        if isinstance(self.stream, ThreadedStderr):
            self.stream.finish()
        super().close()


@dataclass(frozen=True, slots=True)
class ProcessLog:
    """The log of this process."""

    once: RepeatFilter
    """The filter that leaves out lines that were written a moment ago."""
    stderr: ThreadedStderr | None = None
    """The stderr that a thread writes; None if none does."""

    @property
    def dropped(self) -> int:
        """The number of lines that were never written."""
        return 0 if self.stderr is None else self.stderr.dropped

    async def write_suppressed(self) -> None:
        """Log how many lines were left out, for as long as the process runs."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            self.once.write_suppressed()


def set_up(log_format: str, level: str, stream: TextIO | None) -> ProcessLog:
    """Configure logging for the process. `log_format`: `auto`, `text` or `json`.

    `stream` None: stderr is closed, and nothing is logged.
    """
    once = RepeatFilter()
    writer: logging.Handler
    if stream is None:
        writer = logging.NullHandler()
    else:
        writer = _StderrHandler(stream)
        if log_format == "json":
            writer.setFormatter(_JsonFormatter())
        else:
            terminal = log_format == "auto" and stream.isatty()
            writer.setFormatter(_TextFormatter(short_time=terminal, coloured=terminal and coloured(stream)))
            if terminal:
                writer.addFilter(lambda record: not hasattr(record, "not_on_terminal"))
    writer.addFilter(once)
    logging.basicConfig(handlers=[writer], force=True)
    set_level(level)
    return ProcessLog(once, stream if isinstance(stream, ThreadedStderr) else None)


def set_level(level: str) -> None:
    """Log what is at least this important from now on."""
    logging.getLogger().setLevel(level.upper())
    for library in ("asyncio", "asyncssh"):
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLogger().level))
