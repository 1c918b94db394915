"""Lines to copy, for a terminal of 80 columns. Pure.

A setting or a line of YAML stays whole, because a file takes it so. A command continues on the next line behind a
backslash, as a shell takes it. A comment is wrapped, and precedes the line that it is about: in a file of properties, a
`#` behind a value is a part of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.base.format import wrap
from kproxy.base.printable import escaped

_WIDTH = 80
# The first word of a command; a setting or a line of YAML has another form.
_COMMAND = re.compile(r"[a-z][\w-]* \S")
# The words of a shell. A quote that does not end is a character like others.
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\S)+""")
_BEHIND = re.compile(r"(?P<line>.*?\S)\s{2,}# (?P<comment>.*)")


def copyable(line: str, indent: str) -> Iterator[str]:
    """Yield a line of a fix, or a comment of it, as it is printed."""
    if line.startswith("# "):
        yield from _comment(line.removeprefix("# "), indent)
        return
    line = escaped(line)
    behind = _BEHIND.fullmatch(line)
    if behind is not None and (len(indent + line) > _WIDTH or not _COMMAND.match(line)):
        yield from _comment(behind["comment"], indent)
        line = behind["line"]
    if _COMMAND.match(line):
        yield from command(line, indent)
    else:
        yield indent + line


def command(line: str, indent: str) -> Iterator[str]:
    """Yield a command, with a backslash at the end of each line but the last. Words stay whole."""
    line, begin = escaped(line), indent
    if len(indent + line) <= _WIDTH:
        yield indent + line
        return
    row = ""
    for unit in _units(line):
        if row and len(f"{begin}{row} {unit} \\") > _WIDTH:
            yield f"{begin}{row} \\"
            row, begin = "", indent + "    "
        row = f"{row} {unit}" if row else unit
    yield begin + row


def _units(line: str) -> Iterator[str]:
    """Yield the words of a command, each option together with its value."""
    words = _WORD.findall(line)
    at = 0
    while at < len(words):
        takes_value = words[at].startswith("-") and "=" not in words[at] and words[at] != "--"
        has_value = takes_value and at + 1 < len(words) and not words[at + 1].startswith("-")
        yield " ".join(words[at : at + 1 + has_value])
        at += 1 + has_value


def _comment(words: str, indent: str) -> Iterator[str]:
    yield from wrap(escaped(words), _WIDTH - 2, f"{indent}# ")
