"""Text that comes from elsewhere, made fit for a terminal, a log and a line: brokers choose their own names.

Whatever could move a cursor, colour a screen, turn the direction of writing (U+202E) or begin a new line is shown by
its escape, as Python writes it.
"""

from __future__ import annotations


def escaped(text: str) -> str:
    """`text` with an escape for each character that is not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: str, most: int) -> str:
    """`text` escaped, of at most `most` characters and a few words that say how many were cut."""
    shown = escaped(text[:most])
    if len(text) <= most and len(shown) <= most:
        return shown
    return f"{shown[:most]}… ({len(text)} characters)"
