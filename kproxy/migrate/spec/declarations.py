"""The words that declare the file of a migration: `key` beside those of `kproxy.config`, and more kinds of values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kproxy.config.declarations import option
from kproxy.config.kinds import Schema, ValueKind, string
from kproxy.config.values import quote

# A field with its kind and its meaning. Its name with "-" for "_" is the key.
key = partial(option, "")

KEYS = "KEY: VALUE lines"


@dataclass(frozen=True, slots=True)
class PairsKind:
    """A mapping of text to text. `parse` reads one pair."""

    parse: Callable[[str, str], tuple[str, str]]
    allowed: str = KEYS
    native: tuple[type, ...] = ()


@dataclass(frozen=True, slots=True)
class SectionKind:
    """A mapping whose keys are the fields of a class."""

    owner: type[Any]
    allowed: str = KEYS
    main_key: str = ""
    """The key whose value may stand in place of the mapping; "" if there is none."""
    native: tuple[type, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedSectionsKind:
    """A mapping whose keys are names, and whose values are sections with the fields of a class."""

    owner: type[Any]
    name: ValueKind[str]
    allowed: str = KEYS
    native: tuple[type, ...] = ()


def globs(pattern: str, noun: str) -> ValueKind[str]:
    """Return the kind of the globs of a list."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{quote(text)} is not {noun}; allowed: 'orders-*', [orders, 'payments-*']")
        return text

    return ValueKind("GLOB", "[GLOB, …]", (), parse, str, string(f"^{pattern}$"))


def number(metavar: str, allowed: str, parse: Callable[[str], Any], schema: Schema) -> ValueKind[Any]:
    """Return the kind of a number, which may also be given as text."""
    return ValueKind(metavar, allowed, (), parse, str, {"anyOf": [{"type": "number", **schema}, {"type": "string"}]})


def _parse_file(text: str) -> Path:
    if not text.strip():
        raise ValueError(f"{quote(text)} is not a file")
    return Path(os.path.abspath(Path(text).expanduser()))


FILE = ValueKind("FILE", "a file", (), _parse_file, str, string("^.+$"))
