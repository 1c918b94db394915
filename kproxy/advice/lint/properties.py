"""Files of java.util.Properties: keys and values, and their locations."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kproxy.advice.lint.source import BOM, SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle

_END = r"(?:\r\n|\n|\r|\Z)"
_ESCAPED = r"\\(?:\r\n|[\s\S]|\Z)"
# One logical line. A comment is never continued; anything else is, by a backslash at the end of its line.
_LINE = re.compile(rf"[ \t\f]*(?:[#!][^\r\n]*|(?P<body>(?:[^\\\r\n]|{_ESCAPED})*)){_END}")
_SPACE = r"(?:[ \t\f]|\\(?:\r\n|\n|\r))*"
_CONTINUED = r"\\(?:\r\n|\n|\r)[ \t\f]*"
_KEY = rf"(?:[^\\=: \t\f]|{_CONTINUED}|\\(?!\r|\n)(?:[\s\S]|\Z))*"
_PAIR = re.compile(rf"(?:{_CONTINUED})*(?P<key>{_KEY}){_SPACE}[=:]?{_SPACE}")
_MAX_MISTAKES = 500
_ESCAPE = re.compile(r"\\(?:(?:\r\n|\n|\r)[ \t\f]*|u([0-9a-fA-F]{4})|([\s\S])|\Z)")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class PropertiesMistake:
    """A mistake in the syntax of the file."""

    location: SourceLocation
    text: str
    overridden: ConfigValue | None = None
    """The earlier value of a duplicate key."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The settings of a file. For a duplicate key, the last value counts."""

    values: dict[str, ConfigValue]
    mistakes: list[PropertiesMistake]
    all_values: list[ConfigValue]
    """With the values of duplicate keys."""


def parse(source: SourceFile, start: int = 0, end: int | None = None) -> Properties:
    """Parse all keys and values as Java does, and trim values as Kafka does. Some files have properties in a part."""
    properties = Properties({}, [], [])
    text, at = source.text, start
    end = len(text) if end is None else end
    while at < end:
        match = _LINE.match(text, at, end)
        assert match is not None
        if match["body"]:
            _read_pair(source, *match.span("body"), properties)
        at = match.end()
    return properties


def _read_pair(source: SourceFile, start: int, end: int, properties: Properties) -> None:
    text = source.text
    match = _PAIR.match(text, start, end)
    assert match is not None
    try:
        key = _unescape(match["key"])
        raw_end = match.end() + len(text[match.end() : end].rstrip(" \t\f"))
        value = _unescape(text[match.end() : raw_end]).strip()
    except ValueError:
        location = SourceLocation(source, start)
        properties.mistakes.append(
            PropertiesMistake(location, r"\u must be followed by four hexadecimal digits; Java reads no line")
        )
        return
    if start == 0 and key.startswith(BOM):
        bom_text = "the file begins with a byte order mark, which Java takes for a part of the first key"
        properties.mistakes.append(PropertiesMistake(SourceLocation(source, 0), bom_text))
        key = key[1:]
    if not key and not value and not re.search("[=:]", match[0]):
        return  # a backslash at the end of the file
    key_start = match.start("key") + match["key"].startswith(BOM)
    form = ValueStyle.PROPERTY if match.end() > match.end("key") else ValueStyle.FIXED  # a key alone
    setting = ConfigValue(
        value, source, match.end(), raw_end, form, LineLayout.PROPERTY, key, key_start, match.end("key")
    )
    if key in properties.values and len(properties.mistakes) < _MAX_MISTAKES:
        before = properties.values[key]
        message = f"{key} is given twice, first on line {before.line}; the last one counts"
        properties.mistakes.append(PropertiesMistake(setting.location, message, before))
    properties.values[key] = setting
    properties.all_values.append(setting)


def _unescape(raw: str) -> str:
    if "\\" not in raw:
        return raw
    if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", raw):
        raise ValueError

    def decode_escape(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _LETTERS.get(match[2], match[2]) if match[2] else ""

    return _ESCAPE.sub(decode_escape, raw)
