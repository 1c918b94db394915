"""Lines of the log that come again and again: one in a while, with the number of those left out.

A line is known again by its text. What a peer can cause at will is known by what it is `about`: whatever else differs
in it, it is the same line.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kproxy.base.printable import one_line

# A message, and each line of a traceback, has at most so many characters.
MAX_MESSAGE_LENGTH = 4000
# The same line is written once in so many seconds.
INTERVAL = 30.0
# Lines that are remembered, of either kind. Those about more peers than that within `EVERY` seconds are counted only.
MAX_REMEMBERED = 1000

RepeatKey: TypeAlias = tuple[str, ...]
# Attributes of a record.
_ABOUT, _PASSES = "kproxy_about", "kproxy_passes"


def about(*what: object) -> Mapping[str, object]:
    """The `extra` of a line that a peer can cause at will. It is written once in a while for the same text (without its
    arguments) and the same `what`: an address, a node, a reason."""
    return {_ABOUT: tuple(map(str, what))}


def repeat_key(record: logging.LogRecord) -> RepeatKey:
    """What the line was said to be about; () if nothing was said."""
    key: RepeatKey = getattr(record, _ABOUT, ())
    return key


@dataclass(slots=True)
class _WrittenLine:
    """A line that was written at this time, and how often it was left out since, with the text of the first time."""

    written: float
    left_out: int = 0
    text: str = ""
    logger: str = ""
    level: int = 0


class RepeatFilter(logging.Filter):
    """Lets a line through unless the same one was written less than `EVERY` seconds ago.

    A broker that is down makes each attempt of each client fail in the same words, and a client may be refused
    thousands of times a second. Several handlers may share one filter: it judges a record once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[RepeatKey, _WrittenLine] = {}
        self._abouts: dict[RepeatKey, _WrittenLine] = {}
        self._beyond = 0  # lines about more peers than are remembered
        self._judging = threading.RLock()  # libraries log from threads, and destructors at any moment

    def filter(self, record: logging.LogRecord) -> bool:
        passes: bool | None = getattr(record, _PASSES, None)
        if passes is None:
            with self._judging:
                passes = self._passes(record, time.monotonic())
            record.__dict__[_PASSES] = passes
        return passes

    def _passes(self, record: logging.LogRecord, now: float) -> bool:
        what = repeat_key(record)
        if what:
            table, key = self._abouts, (record.name, str(record.msg), *what)
        else:
            table, key = self._texts, (_text(record),)
        seen = table.get(key)
        if seen is not None and now - seen.written < INTERVAL:
            if not seen.left_out:
                seen.text, seen.logger, seen.level = _text(record), record.name, record.levelno
            seen.left_out += 1
            return False
        if seen is None and len(table) >= MAX_REMEMBERED:
            if what:
                self._beyond += 1
                return False
            table.clear()
        table[key] = _WrittenLine(now)
        if seen is not None and seen.left_out:
            _add_count(record, seen.left_out)
        return True

    def say_left_out(self, *, at_the_end: bool = False) -> None:
        """Write how many lines were left out, where the last one was written `EVERY` seconds ago; `at_the_end`, of all.
        To be called every few seconds: what may be written again is forgotten here."""
        now = time.monotonic()
        with self._judging:
            over = []
            for table in (self._texts, self._abouts):
                for key, seen in list(table.items()):
                    if at_the_end or now - seen.written >= INTERVAL:
                        del table[key]
                        if seen.left_out:
                            over.append(seen)
                            table[key] = _WrittenLine(now)
            beyond, self._beyond = self._beyond, 0
        for seen in over:
            self._write(seen.logger, seen.level, seen.text, seen.left_out - 1)
        if beyond:
            self._write(
                __name__, logging.WARNING, f"{beyond} lines about more than {MAX_REMEMBERED} others were left out", 0
            )

    def _write(self, logger: str, level: int, text: str, left_out: int) -> None:
        record = logging.LogRecord(logger, level, "", 0, text, (), None)
        if left_out:
            _add_count(record, left_out)
        record.__dict__[_PASSES] = True
        logging.getLogger(logger).handle(record)


def _text(record: logging.LogRecord) -> str:
    return one_line(record.getMessage(), MAX_MESSAGE_LENGTH)


def _add_count(record: logging.LogRecord, left_out: int) -> None:
    record.msg, record.args = f"{_text(record)} ({left_out} times more since)", ()
