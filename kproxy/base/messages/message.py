"""`Message`: the declaration of a message, with what it means and what to do about it (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kproxy.base.faults import Fault

_FIELDS = re.compile(r"(?:\{[^{}]+\})+")


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message of kproxy, declared once.

    The code that raises or logs the message calls the declaration, with a value for each field of its text.
    `kproxy explain` and docs/troubleshooting.md show its meaning.
    """

    text: str
    """The text, with fields as for `str.format`."""
    meaning: str
    """The meaning, and what to do, in Markdown."""
    fault: Fault = Fault.KPROXY
    reason: str = ""
    """The value of a metric's label `reason`."""

    def __call__(self, **fields: object) -> str:
        """Return the text with these values."""
        text = MessageText(self.text.format(**fields))
        text.message = self
        return text

    def with_reason(self, **fields: object) -> tuple[str, str]:
        """Return the reason and the text, for an error that has both."""
        return self.reason, self(**fields)

    @property
    def pattern(self) -> str:
        """The text with … for what varies, without the name or address before it."""
        text = _FIELDS.sub("…", self.text)
        return text.removeprefix("cluster ").removeprefix("…: ")


class MessageText(str):
    """The text of a message, from its declaration."""

    __slots__ = ("message",)
    message: Message


def alike(meaning: str, *texts: str, fault: Fault = Fault.KPROXY, reason: str = "") -> tuple[Message, ...]:
    """Return the declarations of several messages that mean the same."""
    return tuple(Message(text, meaning, fault, reason) for text in texts)
