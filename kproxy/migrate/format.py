"""Numbers as text for people (pure)."""

from __future__ import annotations


def format_size(count: float) -> str:
    """Return a number of bytes as text with a unit, such as "1.5 GB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def format_duration(seconds: float | None) -> str:
    """Return seconds as rounded text, such as "12 min", or "?" if the duration is not known."""
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


_PAST_TENSE = {
    "add": "added",
    "alter": "altered",
    "create": "created",
    "delete": "deleted",
    "raise": "raised",
    "record": "recorded",
    "restore": "restored",
    "set": "set",
}


def describe_action(action: str, *, dry_run: bool = False) -> str:
    """Return "would create …" in a dry run, else "created …", for an action such as "create …"."""
    verb, _, rest = action.partition(" ")
    return f"would {action}" if dry_run else f"{_PAST_TENSE[verb]} {rest}"


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 record" or "1,200 records"."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def round_duration(seconds: float) -> str:
    """Return a duration as text, with two significant digits."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if round(seconds / length, 2) >= 2:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
