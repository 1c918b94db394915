"""The last lines of the log, for a person, and what kproxy's own table of messages says of each."""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from kproxy.printable import one_line

if TYPE_CHECKING:
    from kproxy.remedies.own import Row

# Lines that are kept, and characters of each.
_KEPT, _LONGEST = 100, 500
_WORD = re.compile(r"[A-Za-z0-9_]+")
_REFUSED = "refused a connection from "


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the log. `number` counts them from 1 on, `time` is a Unix time, `level` logging's word."""

    number: int
    time: float
    level: str
    text: str

    @property
    def refused(self) -> str:
        """The address, without the port, of a client that was refused; "" if the line is about something else."""
        if not self.text.startswith(_REFUSED):
            return ""
        address = self.text.removeprefix(_REFUSED).partition(": ")[0]
        return address.rpartition(":")[0] or address

    @property
    def row(self) -> Row | None:
        """What the table of kproxy's messages says of it."""
        return None if self.level == "INFO" else _row(self.text)


class Events(logging.Handler):
    """Keeps the last lines, for those who may come to look. It costs nothing but while a line is logged."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: deque[Event] = deque(maxlen=_KEPT)
        self._number = 0
        self._writing = threading.Lock()  # libraries log from threads

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = one_line(record.getMessage(), _LONGEST)
        except (TypeError, ValueError):  # arguments that do not fit: logging's own handlers complain of it
            return
        with self._writing:
            self._number += 1
            self._kept.append(Event(self._number, record.created, record.levelname, text))

    def last(self) -> Sequence[Event]:
        """The oldest first."""
        with self._writing:
            return tuple(self._kept)


@lru_cache(2 * _KEPT)
def _row(text: str) -> Row | None:
    """The row whose message is the most precise of those that the line has."""
    from kproxy.explain.patterns import by_word  # a megabyte that only those need who look

    words = {word.encode() for word in _WORD.findall(text)}
    found = [one for word in words for one in by_word().get(word, ()) if one.row is not None and one.find(text)]
    return max(found, key=lambda one: one.weight).row if found else None
