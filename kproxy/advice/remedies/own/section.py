"""One of kproxy's own messages, or of a client's through kproxy, and what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kproxy.advice.remedies.faults import Fault


@dataclass(frozen=True, slots=True)
class OwnMessage:
    """A line of a table in troubleshooting.md, in Markdown: the messages stand between backticks.

    `reason` is the value of the label of a metric, for the sections that have the column.
    """

    markdown: str
    meaning: str
    reason: str = ""
    fault: Fault = Fault.KPROXY

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages, with … for text that varies."""
        return tuple(re.findall(r"`([^`]+)`", self.markdown))


@dataclass(frozen=True, slots=True)
class Section:
    """A table, with the text before and after it. `own`: the messages are kproxy's, and not a client's."""

    title: str
    rows: tuple[OwnMessage, ...]
    head: tuple[str, ...]
    before: str = ""
    after: str = ""
    level: int = 2
    own: bool = True
