"""Files of java.util.Properties: keys and values, and where each is written."""

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
_MOST_MISTAKES = 500
_ESCAPE = re.compile(r"\\(?:(?:\r\n|\n|\r)[ \t\f]*|u([0-9a-fA-F]{4})|([\s\S])|\Z)")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class PropertiesMistake:
    """What is wrong with the file itself. `twice`: the key that is given again."""

    location: SourceLocation
    text: str
    overridden: ConfigValue | None = None


@dataclass(frozen=True, slots=True)
class Properties:
    """What a program reads from the file: of a key that is given twice, the last."""

    values: dict[str, ConfigValue]
    mistakes: list[PropertiesMistake]
    all_values: list[ConfigValue]
    """Also those that another one replaces."""


def parse(source: SourceFile) -> Properties:
    """Read all keys and values, as Java does, and trim values, as Kafka does."""
    found = Properties({}, [], [])
    text, at = source.text, 0
    while at < len(text):
        match = _LINE.match(text, at)
        assert match is not None
        if match["body"]:
            _pair(source, *match.span("body"), found)
        at = match.end()
    return found


def _pair(source: SourceFile, start: int, end: int, found: Properties) -> None:
    text = source.text
    match = _PAIR.match(text, start, end)
    assert match is not None
    try:
        key = _unescaped(match["key"])
        raw_end = match.end() + len(text[match.end() : end].rstrip(" \t\f"))
        value = _unescaped(text[match.end() : raw_end]).strip()
    except ValueError:
        location = SourceLocation(source, start)
        found.mistakes.append(
            PropertiesMistake(location, r"\u must be followed by four hexadecimal digits; Java reads no line")
        )
        return
    if start == 0 and key.startswith(BOM):
        text_ = "the file begins with a byte order mark, which Java takes for a part of the first key"
        found.mistakes.append(PropertiesMistake(SourceLocation(source, 0), text_))
        key = key[1:]
    if not key and not value and not re.search("[=:]", match[0]):
        return  # a backslash at the end of the file
    key_start = match.start("key") + match["key"].startswith(BOM)
    form = ValueStyle.PROPERTY if match.end() > match.end("key") else ValueStyle.FIXED  # a key alone
    one = ConfigValue(value, source, match.end(), raw_end, form, LineLayout.PROPERTY, key, key_start, match.end("key"))
    if key in found.values and len(found.mistakes) < _MOST_MISTAKES:
        before = found.values[key]
        said = f"{key} is given twice, first on line {before.line}; the last one counts"
        found.mistakes.append(PropertiesMistake(one.location, said, before))
    found.values[key] = one
    found.all_values.append(one)


def _unescaped(raw: str) -> str:
    if "\\" not in raw:
        return raw
    if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", raw):
        raise ValueError

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _LETTERS.get(match[2], match[2]) if match[2] else ""

    return _ESCAPE.sub(one, raw)
