"""Kinds of values that are numbers: durations, sizes, counts."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

from kproxy.config.kinds import ValueKind, string
from kproxy.config.values import quote

_DURATION_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SIZE_UNITS = {"gib": 1024**3, "mib": 1024**2, "kib": 1024, "gb": 10**9, "mb": 10**6, "kb": 10**3, "b": 1}
# Fifteen digits hold every value that is allowed anywhere, and bound the work for one that is not.
_NUMBER = r"(\d{1,15}(?:\.\d{1,24})?)"


def duration(least: float, most: float) -> ValueKind[float]:
    """Return the kind of durations in seconds, from `least` to `most`."""
    allowed = f"{show_duration(least)} to {show_duration(most)}, as seconds or with ms, s, m, h, d"

    def parse(text: str) -> float:
        match = re.fullmatch(_NUMBER + r"\s*(ms|s|m|h|d)?", text.strip(), re.ASCII)
        if match is None:
            raise ValueError(f"{quote(text)} is not a duration; allowed: {allowed}")
        number, unit = float(match[1]), match[2] or "s"
        # Division, because 0.001 is no binary fraction: 500ms is exactly 0.5.
        seconds = number / 1000 if unit == "ms" else number * _DURATION_UNITS[unit]
        if not least <= seconds <= most:
            raise ValueError(f"{quote(text)} is out of range; allowed: {allowed}")
        return seconds

    schema = {
        "anyOf": [
            string(r"^\d+(\.\d+)?\s*(ms|s|m|h|d)?$"),
            {"type": "number", "minimum": least, "maximum": most},
        ]
    }
    return ValueKind("DURATION", allowed, (int, float), parse, show_duration, schema)


def show_duration(seconds: float) -> str:
    """Return the shortest exact text: `10m`, `5s`, `500ms`."""
    if not math.isfinite(seconds) or seconds < 0:
        return str(seconds)
    if seconds == 0:
        return "0s"
    for unit, length in _DURATION_UNITS.items():
        if seconds % length == 0:
            return f"{int(seconds // length)}{unit}"
    if (seconds * 1000).is_integer() and (seconds * 1000) / 1000 == seconds:
        return f"{int(seconds * 1000)}ms"
    return f"{Decimal(repr(seconds)):f}s"


def size(least: int, most: int) -> ValueKind[int]:
    """Return the kind of sizes in bytes, from `least` to `most`."""
    allowed = f"{show_size(least)} to {show_size(most)}, as bytes or with KiB, MiB, GiB, kB, MB, GB"

    def parse(text: str) -> int:
        match = re.fullmatch(_NUMBER + r"\s*([kmg]i?b|b)?", text.strip(), re.ASCII | re.IGNORECASE)
        if match is None:
            raise ValueError(f"{quote(text)} is not a size; allowed: {allowed}")
        count = Fraction(match[1]) * _SIZE_UNITS[(match[2] or "b").lower()]
        if count.denominator != 1:
            raise ValueError(f"{quote(text)} is not a whole number of bytes; allowed: {allowed}")
        if not least <= count <= most:
            raise ValueError(f"{quote(text)} is out of range; allowed: {allowed}")
        return int(count)

    pattern = r"^\d+(\.\d+)?\s*([kKmMgG][iI]?[bB]|[bB])?$"
    schema = {"anyOf": [string(pattern), {"type": "integer", "minimum": least, "maximum": most}]}
    return ValueKind("SIZE", allowed, (int,), parse, show_size, schema)


def show_size(count: int) -> str:
    """Return the shortest exact text in binary units: `100MiB`, `1000B`."""
    for unit in ("GiB", "MiB", "KiB"):
        if count > 0 and count % _SIZE_UNITS[unit.lower()] == 0:
            return f"{count // _SIZE_UNITS[unit.lower()]}{unit}"
    return f"{count}B"


def count(least: int, most: int) -> ValueKind[int]:
    """Return the kind of whole numbers from `least` to `most`."""
    allowed = f"{least} to {most}"

    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,12}", text.strip(), re.ASCII):
            raise ValueError(f"{quote(text)} is not a whole number; allowed: {allowed}")
        if not least <= int(text) <= most:
            raise ValueError(f"{quote(text)} is out of range; allowed: {allowed}")
        return int(text)

    return ValueKind("NUMBER", allowed, (int,), parse, int, {"type": "integer", "minimum": least, "maximum": most})
