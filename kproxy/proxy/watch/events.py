"""The last lines of the log, for a person, with their meaning from the declarations of kproxy's messages."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from kproxy.base.messages.message import Message, MessageText
from kproxy.base.printable import one_line

# Lines that are kept, and characters of each.
_KEPT, _LONGEST = 100, 500
_WORD = re.compile(r"[A-Za-z0-9_]+")
_REFUSED = "refused a connection from "
# A client without its port, which differs each time.
_CLIENT = re.compile(rf"^({_REFUSED}\S+):\d{{1,5}}(?=: )")
# What varies in the text that a logging call formats; and the letters that the rest must have to name a kind of line.
_FIELD = re.compile(r"%[-+ #0-9.]*[a-zA-Z%]")
_LETTERS = 12
_LEFT_OUT = re.compile(r" \((\d{1,9}) times more since\)$")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line of the log."""

    number: int
    """Counts the events from 1."""
    time: float
    """The Unix time at which it was written last."""
    level: str
    """The name of the level in logging."""
    text: str
    since: float
    """The Unix time at which it was written first."""
    times: int = 1
    """The number of times that it was written."""
    template: str = ""
    """The text before names and addresses were put into it; "" if it says nothing without them."""

    @property
    def refused(self) -> str:
        """The address, without the port, of a client that kproxy refused; "" for other lines."""
        if not self.text.startswith(_REFUSED):
            return ""
        address = self.text.removeprefix(_REFUSED).partition(": ")[0]
        return address.rpartition(":")[0] or address

    @property
    def declaration(self) -> Message | None:
        """The declaration of the most precise message in this line."""
        return None if self.level == "INFO" else _declaration(self.text)

    @property
    def kind(self) -> tuple[str, str]:
        """The same for lines that say the same of other clients or nodes."""
        message = self.declaration
        return self.level, self.template or self.text if message is None else message.text


class EventLog(logging.Handler):
    """Keeps the last lines of the log. It costs nothing except while a line is logged.

    The same line again is the same event: it moves to the end, and its `times` grow. So a client that is refused each
    second does not displace all other lines. Two lines are also the same if they differ in the client's port only. If
    there are too many, the oldest line of the most frequent template gives way: a thousand clients displace none but
    their own lines.
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
            event_before = self._kept.pop(key, None)
            if event_before is None:
                self._number += 1
                at, level = record.created, record.levelname
                event = LogEvent(self._number, at, level, text, at, times, _template(record))
            else:
                event = replace(event_before, time=record.created, text=text, times=event_before.times + times)
            self._kept[key] = event
            if len(self._kept) > _KEPT:
                templates = Counter(kept.template or key for key, kept in self._kept.items())
                (most, _), *_ = templates.most_common(1)
                del self._kept[next(key for key, kept in self._kept.items() if (kept.template or key) == most)]

    def last(self) -> Sequence[LogEvent]:
        """Return the events, the oldest first."""
        with self._writing:
            return tuple(self._kept.values())


def _template(record: logging.LogRecord) -> str:
    if isinstance(record.msg, MessageText):
        return record.msg.message.text
    text = str(record.msg)[:_LONGEST] if record.args else ""
    return text if sum(map(str.isalpha, _FIELD.sub("", text))) >= _LETTERS else ""


def _counted(text: str) -> tuple[str, int]:
    """Return the line without the number of repetitions that the log left out, and how often it was written."""
    match = _LEFT_OUT.search(text)
    return (text, 1) if match is None else (text[: match.start()], 1 + int(match[1]))


@lru_cache(2 * _KEPT)
def _declaration(text: str) -> Message | None:
    """Return the declaration of the most precise message in a line."""
    from kproxy.advice.explain.patterns import patterns_by_word  # a megabyte that only the page needs

    words = {word.encode() for word in _WORD.findall(text)}
    patterns = [
        pattern
        for word in words
        for pattern in patterns_by_word().get(word, ())
        if pattern.own_message is not None and pattern.find(text)
    ]
    return max(patterns, key=lambda pattern: pattern.weight).own_message if patterns else None
