"""The last lines of the log, for a person, and what kproxy's own table of messages says of each."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from kproxy.base.printable import one_line

if TYPE_CHECKING:
    from kproxy.advice.remedies.own import OwnMessage

# Lines that are kept, and characters of each.
_KEPT, _LONGEST = 100, 500
_WORD = re.compile(r"[A-Za-z0-9_]+")
_REFUSED = "refused a connection from "
# A client without its port, which is another one each time.
_CLIENT = re.compile(rf"^({_REFUSED}\S+):\d{{1,5}}(?=: )")
_LEFT_OUT = re.compile(r" \((\d{1,9}) times more since\)$")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line of the log. `number` counts them from 1 on, `level` is logging's word. `times`: how often it was written,
    the first time at `since` and the last time at `time`, both Unix times."""

    number: int
    time: float
    level: str
    text: str
    since: float
    times: int = 1

    @property
    def refused(self) -> str:
        """The address, without the port, of a client that was refused; "" if the line is about something else."""
        if not self.text.startswith(_REFUSED):
            return ""
        address = self.text.removeprefix(_REFUSED).partition(": ")[0]
        return address.rpartition(":")[0] or address

    @property
    def row(self) -> OwnMessage | None:
        """What the table of kproxy's messages says of it."""
        return None if self.level == "INFO" else _row(self.text)


class EventLog(logging.Handler):
    """Keeps the last lines, for those who may come to look. It costs nothing but while a line is logged.

    The same line again is the same event: it moves to the end, and its `times` grow. So a client that is refused each
    second does not push everything else out. Two lines are the same, too, if they only differ in the client's port.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[tuple[str, str], LogEvent] = {}  # the oldest first
        self._number = 0
        self._writing = threading.Lock()  # libraries log from threads

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = one_line(record.getMessage(), _LONGEST)
        except (TypeError, ValueError):  # arguments that do not fit: logging's own handlers complain of it
            return
        text, times = _counted(text)
        key = record.levelname, _CLIENT.sub(r"\1", text)
        with self._writing:
            known = self._kept.pop(key, None)
            if known is None:
                self._number += 1
                event = LogEvent(self._number, record.created, record.levelname, text, record.created, times)
            else:
                event = replace(known, time=record.created, text=text, times=known.times + times)
            self._kept[key] = event
            if len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]

    def last(self) -> Sequence[LogEvent]:
        """The oldest first."""
        with self._writing:
            return tuple(self._kept.values())


def _counted(text: str) -> tuple[str, int]:
    """The line without the number of those before it that the log has left out; and how often it was written."""
    match = _LEFT_OUT.search(text)
    return (text, 1) if match is None else (text[: match.start()], 1 + int(match[1]))


@lru_cache(2 * _KEPT)
def _row(text: str) -> OwnMessage | None:
    """The row whose message is the most precise of those that the line has."""
    from kproxy.advice.explain.patterns import patterns_by_word  # a megabyte that only those need who look

    words = {word.encode() for word in _WORD.findall(text)}
    found = [
        one
        for word in words
        for one in patterns_by_word().get(word, ())
        if one.own_message is not None and one.find(text)
    ]
    return max(found, key=lambda one: one.weight).own_message if found else None
