"""A value of a file: the text that a program reads, its location, and the edits that replace it.

`repr()` never shows a value, because it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kproxy.advice.lint.source import Edit, SourceFile, SourceLocation


class ValueStyle(Enum):
    """The spelling of a value."""

    PROPERTY = "property"
    VARIABLE = "variable"  # a file of variables, KEY=VALUE
    PLAIN = "plain"  # YAML without quotes
    SINGLE = "'"
    DOUBLE = '"'
    FIXED = "fixed"  # YAML's blocks and the like, which kproxy does not change


class LineLayout(Enum):
    """The layout of the line that a value stands on."""

    PROPERTY = "KEY=VALUE"
    MAPPING = "KEY: VALUE"
    ENTRY = "- name: KEY, value: VALUE"
    ITEM = "- KEY=VALUE"
    BARE = "- VALUE"
    NONE = ""


_MOST_ENTRIES = 200
_PLACEHOLDER = re.compile(r"[{<]|\$[A-Za-z_]|@\w+@|%\w+%|(?:^|,\s*):[A-Z_]+:")
_LEAD = re.compile(r"(?:\s|\\(?:\r\n|\n|\r))*")
_PLAIN = re.compile(r"[A-Za-z0-9_./<$][A-Za-z0-9_./:,@*+\-\[\]{}$<>= ]*")


@dataclass(frozen=True, slots=True, repr=False)
class ConfigValue:
    """One value and the place where it is written."""

    text: str
    """The text that the program reads."""
    source: SourceFile
    start: int
    """Start and end of the text as it is written, without quotes."""
    end: int
    style: ValueStyle = ValueStyle.FIXED
    layout: LineLayout = LineLayout.NONE
    key: str = ""
    key_start: int = -1
    key_end: int = -1

    @property
    def location(self) -> SourceLocation:
        return SourceLocation(self.source, self.key_start if self.key_start >= 0 else self.start)

    @property
    def line(self) -> int:
        return self.location.line

    @property
    def raw(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def is_known(self) -> bool:
        """True if no variable, command or person completes it (`${VAR}`, `$VAR`, `_{COMMAND}`, `<your server>`)."""
        return not _PLACEHOLDER.search(self.text)

    @property
    def entries(self) -> list[str]:
        """The entries of a comma-separated list, as Kafka reads it."""
        return [part.strip() for part in self.text.split(",") if part.strip()]

    def _entry_spans(self) -> list[tuple[int, int]] | None:
        """Return start and end of each entry of a list; None if they are unknown, or the list is too long."""
        if self.style is ValueStyle.FIXED or self.raw.count(",") > _MOST_ENTRIES:
            return None
        spans, at = [], self.start
        for part in self.raw.split(","):
            lead = _LEAD.match(part)
            assert lead is not None
            entry = _strip_continuation(part)
            if len(entry) > lead.end():
                spans.append((at + lead.end(), at + len(entry)))
            at += len(part) + 1
        return spans if len(spans) == len(self.entries) else None

    def as_entry(self, name: ConfigValue) -> ConfigValue:
        """Return this value as that of a variable whose name is another value, as Kubernetes writes them."""
        start, end = name.start, name.end
        return replace(self, layout=LineLayout.ENTRY, key=name.text, key_start=start, key_end=end)

    # Each of these methods returns None if the style of the value does not allow the edit.

    def _edit(self, start: int, end: int, text: str | None) -> list[Edit] | None:
        return None if text is None else [Edit(self.source.name, start, end, text)]

    def replace(self, text: str) -> list[Edit] | None:
        """Return edits that replace the value."""
        return self._edit(self.start, self.end, self.render(text))

    def replace_entry(self, index: int, text: str) -> list[Edit] | None:
        """Return edits that replace an entry of the list."""
        spans = self._entry_spans()
        return self._edit(*spans[index], self.render(text)) if spans else None

    def change_entry(self, index: int, old: str, new: str) -> list[Edit] | None:
        """Return edits that replace a part of an entry, which must be written as it is read."""
        spans = self._entry_spans()
        if not spans or self.render(f"x{new}x") is None:
            return None
        start, end = spans[index]
        raw = self.source.text[start:end]
        if not old or raw.count(old) != 1:
            return None
        at = start + raw.index(old)
        return self._edit(at, at + len(old), new)

    def remove_entry(self, index: int) -> list[Edit] | None:
        """Return edits that remove an entry and one comma beside it."""
        spans = self._entry_spans()
        if not spans or len(spans) < 2:
            return None
        return (
            self._edit(spans[index - 1][1], spans[index][1], "") if index else self._edit(spans[0][0], spans[1][0], "")
        )

    def add_entry(self, text: str) -> list[Edit] | None:
        """Return edits that add an entry at the end."""
        spans, written = self._entry_spans(), self.render(text)
        return self._edit(spans[-1][1], spans[-1][1], f",{written}") if spans and written is not None else None

    def remove(self) -> list[Edit] | None:
        """Return edits that remove the line or lines of the value."""
        if not self._has_own_lines():
            return None
        return self._edit(self.source.line_start(self.key_start), self.source.next_line(self.end), "")

    def rename_key(self, key: str) -> list[Edit] | None:
        """Return edits that replace the key."""
        return self._edit(self.key_start, self.key_end, key if self.key_start >= 0 else None)

    def append(self, text: str) -> list[Edit] | None:
        """Return edits that add a text at the end of the value; it needs no escape."""
        return None if self.style is ValueStyle.FIXED else self._edit(self.end, self.end, text)

    def insert(self, index: int, text: str) -> list[Edit] | None:
        """Return edits that add a text inside of the value; None if the value is not written as it is read."""
        return self._edit(self.start + index, self.start + index, text) if self.raw == self.text else None

    def insert_after(self, pairs: Sequence[tuple[str, str]]) -> list[Edit] | None:
        """Return edits that add lines after this value's line, in its layout."""
        lines = [self.line_beside(key, text) for key, text in pairs]
        if not self._has_own_lines() or None in lines:
            return None
        at, end = self.source.next_line(self.end), self.source.newline
        text = "".join(f"{line}{end}" for line in lines)
        if at == len(self.source.text) and not self.source.text.endswith(("\n", "\r")):
            text = end + text[: -len(end)]
        return self._edit(at, at, text)

    def line_beside(self, key: str, text: str) -> str | None:
        """Return the line that another key and value would have beside this one."""
        start = self.source.line_start(self.key_start) if self._has_own_lines() else self.key_start
        prefix = self.source.text[start : self.key_start]
        quote = self.style.value if self.style in (ValueStyle.SINGLE, ValueStyle.DOUBLE) else ""
        if self.layout is LineLayout.PROPERTY:
            return f"{prefix}{key}={self.render(text)}"
        if self.layout is LineLayout.ENTRY:
            written = self.render(text)
            indent = " " * (len(prefix) - len(prefix.lstrip(" -")))
            lines = f'{prefix}{key}{self.source.newline}{indent}value: "{_escape_quotes(text, chr(34))}"'
            return None if written is None or prefix.endswith(("'", '"')) else lines
        if self.layout is LineLayout.ITEM:
            written = self.render(text)
            return None if written is None else f"{prefix}{key}={written}{quote}"
        if self.layout is LineLayout.MAPPING:
            needs_quotes = not _PLAIN.fullmatch(text) or re.search(r":( |$)| #|^\d*\.?\d*$", text)
            if not quote and needs_quotes and not text.isdigit():
                quote = '"'
            return f"{prefix}{key}: {quote}{_escape_quotes(text, quote)}{quote}"
        return None

    def render(self, text: str) -> str | None:
        """Return a text as it is written in the place of this value; None if that is not possible."""
        if self.style is ValueStyle.PROPERTY:
            return _escape_property(text)
        if self.style is ValueStyle.VARIABLE:
            return None if re.search(r"[\"'\r\n]", text) else text
        if self.style is ValueStyle.PLAIN:
            return text if _PLAIN.fullmatch(text) and not re.search(r":( |$)| #", text) else None
        return None if self.style is ValueStyle.FIXED else _escape_quotes(text, self.style.value)

    def _has_own_lines(self) -> bool:
        """Check that nothing else stands on the lines of this value."""
        if self.key_start < 0 or self.layout not in _BEFORE_KEY:
            return False
        before = self.source.text[self.source.line_start(self.key_start) : self.key_start]
        after = self.source.text[self.end : self.source.line_end(self.end)]
        if self.layout is LineLayout.ENTRY:
            between = self.source.text[self.key_end : self.start]
            if not re.fullmatch(r"[\"']?\s*\n[ ]*value:[ ]*[\"']?", between):
                return False
        is_alone = self.layout is LineLayout.PROPERTY or re.fullmatch(r"[\"']?\s*(#.*)?", after)
        return bool(re.fullmatch(_BEFORE_KEY[self.layout], before) and is_alone)


# What may stand before the key on its line.
_BEFORE_KEY = {
    LineLayout.PROPERTY: r"[ \t\f]*(export[ ]+)?",
    LineLayout.MAPPING: r"[ ]*[\"']?",
    LineLayout.ITEM: r"[ ]*-[ ]+[\"']?",
    LineLayout.ENTRY: r"[ ]*-[ ]+name:[ ]+[\"']?",
}


def _strip_continuation(part: str) -> str:
    """Strip white space and continued lines from the end."""
    end = len(part)
    while end and (part[end - 1].isspace() or (part[end - 1] == "\\" and part[end : end + 1] in ("\r", "\n"))):
        end -= 1
    return part[:end]


def _escape_quotes(text: str, quote: str) -> str:
    if quote == "'":
        return text.replace("'", "''")
    return text.replace("\\", "\\\\").replace('"', '\\"') if quote else text


def _escape_property(text: str) -> str:
    """Escape a text for java.util.Properties."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return "".join(char if 32 <= ord(char) < 127 else f"\\u{ord(char):04x}" for char in escaped)
