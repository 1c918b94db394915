"""The introduction of a client: the client id of a request, and the name of its software (KIP-511). Sans-IO.

The client chooses both, so they are escaped and cut here. A decision may depend on them only if a false one harms
nothing but the client that sends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from kproxy.base.errors import WireError
from kproxy.base.printable import one_line
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import INT16, Buffer, Underflow, read_string, skip_tags

HEAD = 600
"""The most bytes of a request that are examined: its header, and in ApiVersions two short strings."""
LONGEST_NAME = 100
"""The most characters of a name that are kept, besides a few words that give the number of the others."""

NAMES_SINCE = 3
"""The first version of ApiVersions that has the names of the software (KIP-511)."""

_read_request = Struct(">ihhih").unpack_from  # size, API key, version, correlation id, length of the client id
_FIXED = 14
_TOKEN = 0x60  # of GSSAPI, before any request (RFC 2743 §3.1)


@dataclass(frozen=True, slots=True)
class Introduction:
    """The names of a client, "" where it sends none."""

    client_id: str = ""
    software: str = ""


NO_INTRODUCTION = Introduction()


def is_long_enough(request: Buffer) -> bool:
    """Check whether this beginning of a first request has all that `read_introduction` examines.

    That is the whole request, or HEAD bytes of it. A client that begins with something else has no name.
    """
    if len(request) >= 5 and request[4] == _TOKEN:
        return True
    if len(request) < _FIXED:
        return False
    size = int.from_bytes(request[:4], "big", signed=True)
    return has_names(size, len(request))


def has_names(size: int, available: int) -> bool:
    """Check whether of a request of this size, without its size field, all is available that is examined."""
    return available >= min(4 + size, HEAD)


def read_introduction(request: Buffer) -> Introduction:
    """Return the names in a request, as far as this beginning of it has them.

    The first request of a session has them, or, of a Java client that logs in, ApiVersions after the login: before it,
    the client sends a version without names.
    """
    if len(request) < _FIXED:
        return NO_INTRODUCTION
    size, key, version, _, length = _read_request(request, 0)
    end = min(4 + size, len(request), HEAD)
    if end < _FIXED + length or length < -1:
        return NO_INTRODUCTION
    if key == ApiKey.API_VERSIONS and version >= NAMES_SINCE:
        return _read_names(bytes(request[12:end]), length)
    return Introduction(client_name(request, _FIXED, length))


@lru_cache(maxsize=64)  # a client sends the same on each connection
def _read_names(head: bytes, length: int) -> Introduction:
    """Return the names in an ApiVersions request of version 3 or later, from its client id of this length on."""
    return Introduction(client_name(head, INT16.size, length), read_software(head))


def client_name(data: Buffer, at: int, length: int) -> str:
    """Return a name that a client chose, escaped and cut."""
    if length <= 0:
        return ""
    return one_line(bytes(data[at : at + length]).decode("utf-8", "replace"), LONGEST_NAME)


def read_software(head: bytes) -> str:
    """Return the software's name and version in an ApiVersions request of version 3 or later, from its client id on."""
    try:
        _, at = read_string(head, 0, len(head), compact=False, nullable=True)
        at = skip_tags(head, at, len(head))
        software, at = read_string(head, at, len(head), compact=True, nullable=False)
        version, _ = read_string(head, at, len(head), compact=True, nullable=False)
    except (Underflow, WireError):
        return ""
    return one_line(b" ".join((software or b"", version or b"")).decode("utf-8", "replace"), LONGEST_NAME)
