"""Kinds of values: how kproxy reads, prints and describes the text of each.

Files, environment and flags all give text, so there is one reader for each kind. A Python value is printed and read
back, so it gets the same checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic_core import core_schema

from kproxy.base.address import Address
from kproxy.config import hop
from kproxy.config.hop import Hop
from kproxy.config.protocols import PROTOCOLS
from kproxy.config.values import (
    ADMIN_TOKEN,
    MAX_PORT,
    Advertise,
    ExitWith,
    Forward,
    Map,
    PortRange,
    Sni,
    admin_token,
    quote,
)

T = TypeVar("T")
Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class ValueKind(Generic[T]):
    """A kind of value, for the `Annotated[...]` of a field.

    `parse` reads text, `show` returns a value for YAML and JSON; both accept only valid values.
    """

    metavar: str
    allowed: str
    native: tuple[type, ...]
    parse: Callable[[str], T]
    show: Callable[[Any], str | int | bool]
    schema: Schema
    optional: bool = False

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

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)


def string(pattern: str | None = None, **more: object) -> dict[str, object]:
    return {"type": "string", **({"pattern": pattern} if pattern else {}), **more}


def name() -> ValueKind[str]:
    """Return the kind of words that can be a metric label and a part of a file name."""
    allowed = "1 to 63 of a-z, 0-9 and -"

    def parse(text: str) -> str:
        if not re.fullmatch(r"[a-z0-9-]{1,63}", text):
            raise ValueError(f"{quote(text)} is not a name; allowed: {allowed}")
        return text

    return ValueKind("NAME", allowed, (), parse, str, string("^[a-z0-9-]{1,63}$"))


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


def listen_address() -> ValueKind[Address]:
    """Return the kind of addresses to bind to; port 0 means any free port."""
    return ValueKind("HOST:PORT", "HOST:PORT", (Address,), Address.parse, str, string(r"^[^\s,/@]+:\d+$"))


def listen_address_or_off() -> ValueKind[Address | None]:
    """Return the kind of addresses to bind to, or `off`."""

    def parse(text: str) -> Address | None:
        return None if text.strip().lower() in ("off", "no", "false") else Address.parse(text)

    def show(value: object) -> str:
        return "off" if value is None else str(value)

    schema = {"anyOf": [string(r"^[^\s,/@]+:\d+$"), {"enum": ["off", False]}]}
    return ValueKind("HOST:PORT", "HOST:PORT, or off", (Address,), parse, show, schema, optional=True)


def advertise() -> ValueKind[Advertise]:
    """Return the kind of advertised hosts."""
    metavar = "HOST[:FIRST_PORT]"
    schema = string(r"^[^\s,/@]+$")
    return ValueKind(metavar, metavar, (Advertise,), Advertise.parse, str, schema, optional=True)


def port_range() -> ValueKind[PortRange]:
    """Return the kind of port ranges."""
    schema = {"anyOf": [string(r"^\d+(-\d+)?$"), {"type": "integer", "minimum": 1, "maximum": MAX_PORT}]}
    allowed = "FIRST-LAST, or FIRST for the 200 ports that start there"
    return ValueKind("FIRST[-LAST]", allowed, (PortRange, int), PortRange.parse, str, schema, optional=True)


def route_map() -> ValueKind[Map]:
    """Return the kind of `ADVERTISED=DIAL`."""
    allowed = "HOST[:PORT]=DIAL, GLOB=DIAL, node:ID=DIAL"
    return ValueKind("ADVERTISED=DIAL", allowed, (Map,), Map.parse, str, string(r"^[^=\s]+\s*=\s*[^=\s]+$"))


def sni() -> ValueKind[Sni]:
    """Return the kind of host names with `{node}`."""
    allowed = "a host name with {node} before its first dot"
    return ValueKind(
        "NAME", allowed, (Sni,), Sni.parse, str, string(r"^[A-Za-z0-9-]*\{node\}[A-Za-z0-9._-]+$"), optional=True
    )


def forward() -> ValueKind[Forward]:
    """Return the kind of `[HOST:]PORT=HOST:PORT`."""
    allowed = "[HOST:]PORT=HOST:PORT"
    return ValueKind(allowed, allowed, (Forward,), Forward.parse, str, string(r"^[^=\s]+\s*=\s*[^=\s]+:\d+$"))


def via() -> ValueKind[Hop]:
    """Return the kind of hops: a proxy or SSH server."""
    return ValueKind("URL", hop.ALLOWED, (Hop,), Hop.parse, lambda value: value.url, string(hop.PATTERN))


def boolean() -> ValueKind[bool]:
    """Return the kind of booleans, in each form that YAML and shells write."""
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "1": True,
        "false": False,
        "no": False,
        "off": False,
        "0": False,
    }

    def parse(text: str) -> bool:
        if text.strip().lower() not in words:
            raise ValueError(f"{quote(text)} is neither true nor false; allowed: true, false")
        return words[text.strip().lower()]

    return ValueKind("BOOLEAN", "true, false", (bool,), parse, bool, {"type": "boolean"})


def choice(*words: str, optional: bool = False) -> ValueKind[str]:
    """Return the kind of some words."""
    allowed = ", ".join(words)

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"{quote(text)} is not known; allowed: {allowed}")
        return text

    return ValueKind("|".join(words), allowed, (), parse, str, {"enum": list(words)}, optional)


def text(metavar: str) -> ValueKind[str]:
    """Return the kind of non-empty text. Errors do not repeat the text, since it may be a secret."""
    allowed = "text"

    def parse(value: str) -> str:
        if not value or "\0" in value:
            raise ValueError(f"is empty, or has a null character; allowed: {allowed}")
        return value

    return ValueKind(metavar, allowed, (), parse, str, string("^.+$"), optional=True)


def token() -> ValueKind[str]:
    """Return the kind of the admin endpoint's token."""
    return ValueKind("TOKEN", ADMIN_TOKEN, (), admin_token, str, string("^[!-~]{16,4096}$"), optional=True)


def path() -> ValueKind[Path]:
    """Return the kind of files, which are read when needed; `~` is the home directory."""

    def parse(value: str) -> Path:
        if not value.strip() or "\0" in value:
            raise ValueError(f"{quote(value)} is not a path; allowed: FILE")
        return Path(value).expanduser()

    return ValueKind("FILE", "FILE", (Path,), parse, str, string("^.+$"), optional=True)


def directory() -> ValueKind[Path]:
    """Return the kind of directories; `~` is the home directory."""

    def parse(value: str) -> Path:
        if not value.strip() or "\0" in value:
            raise ValueError(f"{quote(value)} is not a path; allowed: DIRECTORY")
        return Path(value).expanduser()

    return ValueKind("DIRECTORY", "DIRECTORY", (Path,), parse, str, string("^.+$"), optional=True)


def server_name() -> ValueKind[str]:
    """Return the kind of names in a certificate, or `*`."""
    allowed = "a host name, an IP address, or *"

    def parse(value: str) -> str:
        if value != "*" and not re.fullmatch(r"[\w:-]+(\.[\w-]+)*", value.strip(), re.ASCII):
            raise ValueError(f"{quote(value)} cannot be a name in a certificate; allowed: {allowed}")
        return value.strip()

    return ValueKind("NAME", allowed, (), parse, str, string(r"^(\*|[\w:-]+(\.[\w-]+)*)$"), optional=True)


def host() -> ValueKind[str]:
    """Return the kind of host names, or `*`."""
    allowed = "a host name without a port, or *"

    def parse(value: str) -> str:
        if value.strip() != "*" and not re.fullmatch(r"[\w-]+(\.[\w-]+)*\.?", value.strip()):
            raise ValueError(f"{quote(value)} is not a host name; allowed: {allowed}")
        return value.strip().lower()

    return ValueKind("NAME", allowed, (), parse, str, string(r"^\s*(\*|[\w-]+(\.[\w-]+)*\.?)\s*$"))


def url() -> ValueKind[str]:
    """Return the kind of web addresses."""
    allowed = "https://HOST[:PORT]/PATH, or http://"

    def parse(value: str) -> str:
        if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", value.strip()):
            raise ValueError(f"not a URL, or one with a password; allowed: {allowed}")
        return value.strip()

    return ValueKind("URL", allowed, (), parse, str, string(r"^https?://[^\s/@]+(/\S*)?$"), optional=True)


def pair() -> ValueKind[str]:
    """Return the kind of `NAME=VALUE` with letters and printable characters, as in RFC 7628 §3.1."""

    def parse(value: str) -> str:
        if not re.fullmatch(r"[A-Za-z]+=[\x20-\x7e\t\r\n]+", value) or value.startswith("auth="):
            raise ValueError(f"{quote(value)} is not an extension; allowed: NAME=VALUE, NAME of letters, not auth")
        return value

    return ValueKind("NAME=VALUE", "NAME=VALUE, NAME of letters, not auth", (), parse, str, string("^[A-Za-z]+=.+$"))


def exit_with() -> ValueKind[ExitWith]:
    """Return the kind of processes, URLs and paths that kproxy ends with."""
    metavar = "PATH|PID|URL"
    return ValueKind(
        metavar, "PATH, a process id, http://…, https://…", (ExitWith,), ExitWith.parse, str, string("^.+$")
    )
