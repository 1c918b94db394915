"""Numbers and lists as text for people (pure)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence


def format_size(count: float) -> str:
    """Return a number of bytes as text with a unit, such as "1.5 GB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{format_number(count)} {unit}"
        count /= 1000
    return f"{format_number(count)} TB"


def format_duration(seconds: float | None) -> str:
    """Return a duration as text, such as "1.2 ms", "90 s" or "2.5 h", or "?" if it is not known."""
    if seconds is None:
        return "?"
    if seconds < 0.9995:
        return f"{format_number(seconds * 1000)} ms"
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if round(seconds / length, 2) >= 2:
            return f"{format_number(seconds / length)} {unit}"
    return f"{format_number(seconds)} s"


def format_number(number: float) -> str:
    """Return a number as text, with a decimal where that matters, such as "1.5" or "150"."""
    return f"{number:.1f}".removesuffix(".0") if number < 99.95 else f"{number:.0f}"


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 record" or "1,200 records"."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def abbreviate(names: Sequence[object], most: int = 3) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def wrap(text: str, width: int, hang: str = "", first: str | None = None) -> list[str]:
    """Return text in lines that begin with `hang`, the first one with `first`. Words stay whole, to be copied."""
    lines = textwrap.TextWrapper(
        width, hang if first is None else first, hang, break_long_words=False, break_on_hyphens=False
    )
    return lines.wrap(text)
