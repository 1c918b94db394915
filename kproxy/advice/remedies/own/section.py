"""The entry of one message of kproxy, or of a client through kproxy, and the table of such entries."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kproxy.base.faults import Fault


@dataclass(frozen=True, slots=True)
class OwnMessage:
    """A row of a table in troubleshooting.md, in Markdown."""

    markdown: str
    """The messages between backticks, with words around them."""
    meaning: str
    reason: str = ""
    """The value of a metric's label `reason`, for sections with this column."""
    fault: Fault = Fault.KPROXY

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages, with … for text that varies."""
        return tuple(re.findall(r"`([^`]+)`", self.markdown))


@dataclass(frozen=True, slots=True)
class Section:
    """A table, with the text before and after it."""

    title: str
    rows: tuple[OwnMessage, ...]
    head: tuple[str, ...]
    before: str = ""
    after: str = ""
    level: int = 2
    own: bool = True
    """True if kproxy prints the messages, False if clients do."""
