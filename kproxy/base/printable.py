"""Text from outside, made safe for a terminal, a log and a line: brokers choose their own names.

A character that could move a cursor, colour a screen, change the direction of writing (U+202E) or begin a new line is
replaced with its escape, in Python's notation.
"""

from __future__ import annotations


def escaped(text: str) -> str:
    """Return `text` with an escape in place of each character that is not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: str, most: int) -> str:
    """Return `text` escaped and cut to `most` characters; a cut text says how many characters it had."""
    shown = escaped(text[:most])
    if len(text) <= most and len(shown) <= most:
        return shown
    return f"{shown[:most]}… ({len(text)} characters)"
