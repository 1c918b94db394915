"""How a client introduces itself: the client id of a request, and the name of its software (KIP-511). Sans-IO.

Both are the client's own words: they are escaped and cut here. Nothing may be decided by them but what harms, if they
are a lie, only the one that says it.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from kproxy.base.errors import WireError
from kproxy.base.printable import one_line
from kproxy.protocol.wire.api import API_VERSIONS
from kproxy.protocol.wire.primitives import Buffer, Underflow, read_string, skip_tags

HEAD = 600
"""Bytes of a request that are looked at, at most: its header, and in ApiVersions two short strings."""
LONGEST_NAME = 100
"""Characters of a name that are kept, and a few words that say how many there were."""

_read_request = Struct(">ihhih").unpack_from  # size, API key, version, correlation id, length of the client id
_FIXED = 14
_TOKEN = 0x60  # of GSSAPI, before any request (RFC 2743 §3.1)


@dataclass(frozen=True, slots=True)
class Introduction:
    """Empty where a client does not say it."""

    client_id: str = ""
    software: str = ""


NO_INTRODUCTION = Introduction()


def is_long_enough(request: Buffer) -> bool:
    """Whether this beginning of a first request has all that `read_introduction` looks at: it, or HEAD bytes of it,
    is there. A client that begins with something else is as nameless now as later."""
    if len(request) >= 5 and request[4] == _TOKEN:
        return True
    if len(request) < _FIXED:
        return False
    size = int.from_bytes(request[:4], "big", signed=True)
    return len(request) >= min(4 + size, HEAD)


def read_introduction(request: Buffer) -> Introduction:
    """What the first request of a session says, if this beginning of it has it."""
    if len(request) < _FIXED:
        return NO_INTRODUCTION
    size, key, version, _, length = _read_request(request, 0)
    end = min(4 + size, len(request), HEAD)
    if end < _FIXED + length or length < -1:
        return NO_INTRODUCTION
    software = read_software(bytes(request[12:end])) if key == API_VERSIONS and version >= 3 else ""
    return Introduction(client_name(request, _FIXED, length), software)


def client_name(data: Buffer, at: int, length: int) -> str:
    """A client's name for itself, escaped and cut."""
    if length <= 0:
        return ""
    return one_line(bytes(data[at : at + length]).decode("utf-8", "replace"), LONGEST_NAME)


def read_software(head: bytes) -> str:
    """The software's name and version in an ApiVersions request of version 3 or later, from its client id on."""
    try:
        _, at = read_string(head, 0, len(head), compact=False, nullable=True)
        at = skip_tags(head, at, len(head))
        software, at = read_string(head, at, len(head), compact=True, nullable=False)
        version, _ = read_string(head, at, len(head), compact=True, nullable=False)
    except (Underflow, WireError):
        return ""
    return one_line(b" ".join((software or b"", version or b"")).decode("utf-8", "replace"), LONGEST_NAME)
