"""A filter for repeated log lines: one line in 30 s, with the number of suppressed ones.

A line is recognised by its text. A line that a peer can cause at will is recognised by its subject (`about`), whatever
else differs in it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kproxy.base.messages.message import MessageText
from kproxy.base.messages.runtime import LINES_LEFT_OUT, LINES_REPEATED
from kproxy.base.printable import one_line

# The longest message, and the longest line of a traceback, in characters.
MAX_MESSAGE_LENGTH = 4000
# The same line is written at most once in this time, in seconds.
INTERVAL = 30.0
# The most lines that are remembered, of either kind. Lines about further subjects are only counted.
MAX_REMEMBERED = 1000

RepeatKey: TypeAlias = tuple[str, ...]
# Attributes of a log record.
_ABOUT, _PASSES = "kproxy_about", "kproxy_passes"


def about(*subject: object) -> Mapping[str, object]:
    """Return the `extra` of a log line that a peer can cause at will.

    The line is written at most once in `INTERVAL` seconds for the same message, whatever its fields, and the same
    `subject`: an address, a node, a reason.
    """
    return {_ABOUT: tuple(map(str, subject))}


def repeat_key(record: logging.LogRecord) -> RepeatKey:
    """Return the subject that the caller gave the log line with `about`; () without one."""
    key: RepeatKey = getattr(record, _ABOUT, ())
    return key


@dataclass(slots=True)
class _WrittenLine:
    """A line that was written, and the repeats that were suppressed since."""

    written_at: float
    suppressed: int = 0
    text: str = ""
    logger: str = ""
    level: int = 0


class RepeatFilter(logging.Filter):
    """A log filter that passes a line unless the same line was written less than `INTERVAL` seconds ago.

    A broker that is down makes each attempt of each client fail in the same words, and a client may be refused
    thousands of times a second. Several handlers may share one filter: it judges a record once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._by_text: dict[RepeatKey, _WrittenLine] = {}
        self._by_subject: dict[RepeatKey, _WrittenLine] = {}
        self._uncounted = 0  # lines about more peers than are remembered
        self._lock = threading.RLock()  # libraries log from threads, and destructors at any moment

    def filter(self, record: logging.LogRecord) -> bool:
        passes: bool | None = getattr(record, _PASSES, None)
        if passes is None:
            with self._lock:
                passes = self._passes(record, time.monotonic())
            record.__dict__[_PASSES] = passes
        return passes

    def _passes(self, record: logging.LogRecord, now: float) -> bool:
        subject = repeat_key(record)
        if subject:
            text = record.msg.message.text if isinstance(record.msg, MessageText) else str(record.msg)
            table, key = self._by_subject, (record.name, text, *subject)
        else:
            table, key = self._by_text, (_text(record),)
        line = table.get(key)
        if line is not None and now - line.written_at < INTERVAL:
            if not line.suppressed:
                line.text, line.logger, line.level = _text(record), record.name, record.levelno
            line.suppressed += 1
            return False
        if line is None and len(table) >= MAX_REMEMBERED:
            if subject:
                self._uncounted += 1
                return False
            table.clear()
        table[key] = _WrittenLine(now)
        if line is not None and line.suppressed:
            _add_count(record, line.suppressed)
        return True

    def write_suppressed(self, *, at_the_end: bool = False) -> None:
        """Write the number of suppressed lines of each line that is older than `INTERVAL`; `at_the_end`, of all.

        Call this every few seconds: it also forgets the lines that may be written again.
        """
        now = time.monotonic()
        with self._lock:
            expired = []
            for table in (self._by_text, self._by_subject):
                for key, line in list(table.items()):
                    if at_the_end or now - line.written_at >= INTERVAL:
                        del table[key]
                        if line.suppressed:
                            expired.append(line)
                            table[key] = _WrittenLine(now)
            uncounted, self._uncounted = self._uncounted, 0
        for line in expired:
            self._write(line.logger, line.level, line.text, line.suppressed - 1)
        if uncounted:
            self._write(__name__, logging.WARNING, LINES_LEFT_OUT(lines=uncounted, subjects=MAX_REMEMBERED), 0)

    def _write(self, logger: str, level: int, text: str, suppressed: int) -> None:
        record = logging.LogRecord(logger, level, "", 0, text, (), None)
        if suppressed:
            _add_count(record, suppressed)
        record.__dict__[_PASSES] = True
        logging.getLogger(logger).handle(record)


def _text(record: logging.LogRecord) -> str:
    return one_line(record.getMessage(), MAX_MESSAGE_LENGTH)


def _add_count(record: logging.LogRecord, suppressed: int) -> None:
    record.msg, record.args = LINES_REPEATED(line=_text(record), count=suppressed), ()
