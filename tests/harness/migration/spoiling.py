"""Ways to damage a copy, and the expected result of a verification for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

START_MS = 1_700_000_000_000
Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[Header, ...] = ()
    offset: int = -1


def made(count: int, seed: int = 1) -> list[Record]:
    """Return records of all kinds."""
    chance = random.Random(seed)
    headers: list[tuple[Header, ...]] = [
        (),
        (("a", b"1"), ("b", None), ("a", b"")),
        (("trace", b"0123456789"), ("trace", None)),
    ]
    return [
        Record(
            chance.choice([None, b"", b"key-%d" % chance.randrange(50)]),
            chance.choice([None, b"", *([b"value-%d" % n] * 6)]),
            START_MS + n * 7,
            chance.choice(headers),
        )
        for n in range(count)
    ]


Spoil = Callable[[list[Record]], list[Record]]
PLAIN = Record(b"key", b"value", START_MS + 1, (("a", b"1"), ("b", b"2")))
STRAY = Record(b"stray", b"elsewhere", START_MS)
"""Is not there twice: it may be put into another partition."""


@dataclass(frozen=True)
class Way:
    """One way to damage a partition.

    `field` is the field that the verification must name; `left` and `right` are parts of its text about source and
    target. `record` is the original record.
    """

    spoil: Spoil
    field: str
    left: str
    right: str
    record: Record = PLAIN


def spoils(at: int) -> Mapping[str, Way]:
    """Return the ways by name; each damages the record of this number, which must be the way's."""

    def changed(**fields: Any) -> Spoil:
        return lambda records: [replace(one, **fields) if n == at else one for n, one in enumerate(records)]

    def swapped(records: list[Record]) -> list[Record]:
        return [*records[:at], records[at + 1], records[at], *records[at + 2 :]]

    null = replace(PLAIN, value=None)
    return {
        "dropped": Way(lambda all: without(all, at), "missing", "3 bytes", ""),
        "doubled": Way(lambda all: [*all[: at + 1], *all[at:-1]], "doubled", "", "3 bytes"),
        "reordered": Way(swapped, "order", "3 bytes", "bytes"),
        "timestamp": Way(changed(timestamp=START_MS), "timestamp", f"{START_MS + 1} ms", f"{START_MS} ms"),
        "header value": Way(changed(headers=(("a", b"1"), ("b", b"x"))), "header 1", "b = 1 bytes", "b = 1 bytes"),
        "header null": Way(changed(headers=(("a", b"1"), ("b", None))), "header 1", "b = 1 bytes", "b = null"),
        "header order": Way(
            changed(headers=(("b", b"2"), ("a", b"1"))), "header 0 (order)", "a = 1 bytes", "b = 1 bytes"
        ),
        "header lost": Way(changed(headers=(("a", b"1"),)), "header 1", "b = 1 bytes", "has 1 headers"),
        "value": Way(changed(value=b"valuf"), "value", "5 bytes, sha256 cd42404d52ad55cc…", "5 bytes, sha256"),
        "null to empty": Way(changed(value=b""), "value", "null", "0 bytes", null),
        "key": Way(changed(key=b"kex"), "key", "3 bytes", "3 bytes"),
        "key to value": Way(changed(key=b"keyv", value=b"alue"), "key", "3 bytes", "4 bytes"),
        "truncated": Way(lambda all: all[:at], "missing", "3 bytes", ""),
    }


def without(records: Sequence[Record], at: int) -> list[Record]:
    """Return all records except that of this number."""
    return [*records[:at], *records[at + 1 :]]
