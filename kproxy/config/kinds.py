"""Kinds of values: how kproxy reads, prints and describes the text of each.

Files, environment and flags all give text, so there is one reader for each kind. A Python value is printed and read
back, so it gets the same checks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

from kproxy.base.address import Address
from kproxy.config import hop, values
from kproxy.config.access import FAMILIES, RULE, AccessRule, NamePattern
from kproxy.config.forwardcommand import ALLOWED as FORWARD_COMMAND_ALLOWED
from kproxy.config.forwardcommand import ForwardCommand
from kproxy.config.hop import Hop
from kproxy.config.principalrules import ALLOWED as PRINCIPAL_RULES_ALLOWED
from kproxy.config.principalrules import PrincipalRules
from kproxy.config.values import MAX_PORT, Advertise, ExitWith, Forward, Map, PortRange, Sni, quote

T = TypeVar("T")
Schema = Mapping[str, object]

# The security protocols of Kafka, which may stand before a bootstrap server.
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True, eq=False)
class ValueKind(Generic[T]):
    """A kind of value. `parse` reads text, `show` returns a value for YAML and JSON; both accept only valid values."""

    metavar: str
    allowed: str
    native: tuple[type, ...]
    parse: Callable[[str], T]
    show: Callable[[Any], str | int | bool]
    schema: Schema
    optional: bool = False
    nested: bool = False
    """In YAML, it may also be a mapping: its words are the two keys, and what stands below them."""
    has_commas: bool = False
    """A comma is part of the value: text with commas is one value, not a list."""

    def read(self, value: object) -> T | None:
        """Return the value of text or of a Python value.

        Raises ValueError with the mistake and the allowed values.
        """
        if value is None and self.optional:
            return None
        if isinstance(value, bool) and bool not in self.native:
            raise ValueError(f"{value} is not allowed here; allowed: {self.allowed}")
        if isinstance(value, self.native):
            value = str(self.show(value))
        if not isinstance(value, str):
            raise ValueError(f"a {type(value).__name__} is not allowed here; allowed: {self.allowed}")
        return self.parse(value)


def string(pattern: str) -> dict[str, object]:
    return {"type": "string", "pattern": pattern}


def words(
    metavar: str,
    allowed: str,
    pattern: str,
    problem: str,
    schema: str = "",
    *,
    optional: bool = True,
    normal: Callable[[str], str] = str.strip,
) -> ValueKind[str]:
    """Return the kind of text that matches a pattern as a whole. In `problem`, {} is the text.

    `schema` is the pattern for editors, if it differs.
    """

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, normal(text)):
            raise ValueError(f"{problem.format(quote(text))}; allowed: {allowed}")
        return normal(text)

    return ValueKind(metavar, allowed, (), parse, str, string(schema or f"^{pattern}$"), optional)


# Words that can be a metric label and a part of a file name.
NAME = words(
    "NAME", "1 to 63 of a-z, 0-9 and -", "[a-z0-9-]{1,63}", "{} is not a name", optional=False, normal=lambda text: text
)
SERVER_NAME = words(
    "NAME",
    "a host name, an IP address, or *",
    r"(?a:\*|[\w:-]+(\.[\w-]+)*)",
    "{} cannot be a name in a certificate",
    r"^(\*|[\w:-]+(\.[\w-]+)*)$",
)
HOST = words(
    "NAME",
    "a host name without a port, or *",
    r"\*|[\w-]+(\.[\w-]+)*\.?",
    "{} is not a host name",
    r"^\s*(\*|[\w-]+(\.[\w-]+)*\.?)\s*$",
    optional=False,
    normal=lambda text: text.strip().lower(),
)
# It may have a password, so the message does not repeat it.
WEB_URL = words(
    "URL", "https://HOST[:PORT]/PATH, or http://", r"https?://[^\s/@]+(/\S*)?", "not a URL, or one with a password"
)
# A SASL extension (RFC 7628 §3.1).
EXTENSION = words(
    "NAME=VALUE",
    "NAME=VALUE, NAME of letters, not auth",
    r"(?!auth=)[A-Za-z]+=[\x20-\x7e\t\r\n]+",
    "{} is not an extension",
    "^[A-Za-z]+=.+$",
    optional=False,
    normal=lambda text: text,
)


def text(metavar: str) -> ValueKind[str]:
    """Return the kind of non-empty text. Errors do not repeat the text, since it may be a secret."""
    return words(metavar, "text", r"[^\0]+", "is empty, or has a null character", "^.+$", normal=lambda value: value)


def choice(*words: str, optional: bool = False) -> ValueKind[str]:
    """Return the kind of some words."""
    allowed = ", ".join(words)

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"{quote(text)} is not known; allowed: {allowed}")
        return text

    return ValueKind("|".join(words), allowed, (), parse, str, {"enum": list(words)}, optional)


CLIENT_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
_NOT_VERIFIABLE = {
    "AWS_MSK_IAM": "only AWS can verify AWS_MSK_IAM, a signature for the name of a broker",
    "GSSAPI": "kproxy does not verify GSSAPI, tickets for the name of a broker",
}


def _client_mechanism(text: str) -> str:
    if text in _NOT_VERIFIABLE:
        others = f"{', '.join(CLIENT_MECHANISMS)} for clients, and {text} for kproxy's own login (sasl)"
        raise ValueError(f"{_NOT_VERIFIABLE[text]}; allowed: {others}")
    return choice(*CLIENT_MECHANISMS).parse(text)


CLIENT_MECHANISM = replace(choice(*CLIENT_MECHANISMS), parse=_client_mechanism)


def _path(metavar: str) -> ValueKind[Path]:
    """Return the kind of paths, which are read when needed; `~` is the home directory."""

    def parse(value: str) -> Path:
        if not value.strip() or "\0" in value:
            raise ValueError(f"{quote(value)} is not a path; allowed: {metavar}")
        return Path(value).expanduser()

    return ValueKind(metavar, metavar, (Path,), parse, str, string("^.+$"), optional=True)


FILE, DIRECTORY = _path("FILE"), _path("DIRECTORY")

_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _parse_boolean(text: str) -> bool:
    """Read a boolean in each form that YAML and shells write."""
    if text.strip().lower() not in _TRUTH:
        raise ValueError(f"{quote(text)} is neither true nor false; allowed: true, false")
    return _TRUTH[text.strip().lower()]


BOOLEAN = ValueKind("BOOLEAN", "true, false", (bool,), _parse_boolean, bool, {"type": "boolean"})


def upstream_address(default_port: int) -> ValueKind[Address]:
    """Return the kind of addresses to connect to."""

    def parse(text: str) -> Address:
        scheme, colon, _ = text.partition("://")
        if colon:
            raise ValueError(f"{quote(scheme + colon)} does not lead to a Kafka broker; allowed: {allowed}")
        address = Address.parse(text, default_port)
        if address.port == 0:
            raise ValueError(f"{quote(text)} has port 0, to which no client can connect; allowed: 1 to {MAX_PORT}")
        return address

    allowed = f"HOST:PORT, or HOST for port {default_port}"
    pattern = rf"^(({'|'.join(PROTOCOLS)})://)?[^\s,/@]+$"
    return ValueKind("HOST:PORT", allowed, (Address,), parse, str, string(pattern))


def or_off(kind: ValueKind[T]) -> ValueKind[T | None]:
    """Return the kind with one more value, off, which is None."""

    def parse(text: str) -> T | None:
        return None if text.strip().lower() in ("off", "no", "false") else kind.parse(text)

    def show(value: Any) -> str | int | bool:
        return "off" if value is None else kind.show(value)

    schema = {"anyOf": [kind.schema, {"enum": ["off", False]}]}
    return ValueKind(kind.metavar, f"{kind.allowed}, or off", kind.native, parse, show, schema, optional=True)


# An address to bind to; port 0 means any free port.
LISTEN = ValueKind("HOST:PORT", "HOST:PORT", (Address,), Address.parse, str, string(r"^[^\s,/@]+:\d+$"))
LISTEN_OR_OFF = or_off(LISTEN)


def _of(
    type_: type[Any], metavar: str, allowed: str, schema: str | Schema, *more: type, optional: bool = True
) -> ValueKind[Any]:
    """Return the kind of a type that has `parse`, and whose `str()` is the inverse."""
    schema = string(schema) if isinstance(schema, str) else schema
    return ValueKind(metavar, allowed, (type_, *more), type_.parse, str, schema, optional)


_PORTS = {"anyOf": [string(r"^\d+(-\d+)?$"), {"type": "integer", "minimum": 1, "maximum": MAX_PORT}]}
_FORWARD = "[HOST:]PORT=HOST:PORT"
_NAMES = {
    "anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
}
_RULE_NAMES = {
    "type": "object",
    "propertyNames": {"enum": [*FAMILIES]},
    "minProperties": 1,
    "additionalProperties": _NAMES,
}
_RULE = {
    "anyOf": [
        string(rf"^(user=[^\s,]+\s+)*(allow|deny)\s+({'|'.join(FAMILIES)})(\s+[^\s,]+)+$"),
        {
            "type": "object",
            "properties": {"users": _NAMES, "allow": _RULE_NAMES, "deny": _RULE_NAMES},
            "anyOf": [{"required": ["allow"]}, {"required": ["deny"]}],
            "maxProperties": 2,
            "additionalProperties": False,
        },
    ]
}
ADVERTISE = _of(Advertise, "HOST[:FIRST_PORT]", "HOST[:FIRST_PORT]", r"^[^\s,/@]+$")
PORT_RANGE = _of(PortRange, "FIRST[-LAST]", "FIRST-LAST, or FIRST for the 200 ports that start there", _PORTS, int)
ROUTE_MAP = _of(
    Map, "ADVERTISED=DIAL", "HOST[:PORT]=DIAL, GLOB=DIAL, node:ID=DIAL", r"^[^=\s]+\s*=\s*[^=\s]+$", optional=False
)
SNI = _of(Sni, "NAME", "a host name with {node} before its first dot", r"^[A-Za-z0-9-]*\{node\}[A-Za-z0-9._-]+$")
FORWARD = _of(Forward, _FORWARD, _FORWARD, r"^[^=\s]+\s*=\s*[^=\s]+:\d+$", optional=False)
FORWARD_COMMAND = replace(
    _of(ForwardCommand, "COMMAND", FORWARD_COMMAND_ALLOWED, r"\{port\}", optional=False), has_commas=True
)
GROUP_PATTERN = _of(NamePattern, "PATTERN", "a group id, with * for any text", r"^[^\s,]+$", optional=False)
ACCESS_RULE = replace(_of(AccessRule, "RULE", RULE, _RULE, optional=False), nested=True)
PRINCIPAL_RULES = replace(_of(PrincipalRules, "RULES", PRINCIPAL_RULES_ALLOWED, r"DEFAULT|RULE:"), has_commas=True)
EXIT_WITH = _of(ExitWith, "PATH|PID|URL", "PATH, a process id, http://…, https://…", "^.+$", optional=False)
VIA = ValueKind("URL", hop.ALLOWED, (Hop,), Hop.parse, lambda value: value.url, string(hop.PATTERN))
ADMIN_TOKEN = ValueKind(
    "TOKEN", values.ADMIN_TOKEN, (), values.admin_token, str, string("^[!-~]{16,4096}$"), optional=True
)

# Numbers

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
        "anyOf": [string(r"^\d+(\.\d+)?\s*(ms|s|m|h|d)?$"), {"type": "number", "minimum": least, "maximum": most}]
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
