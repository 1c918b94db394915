"""The headers of requests and responses: the fields that kproxy reads of each passing frame.

Each function takes a buffer and an index; the caller has checked that the buffer has enough bytes. The compiled data
plane has its own forms of these functions, which create no objects: `headers.pxd`, beside this file.
"""

from __future__ import annotations

from struct import Struct

from kproxy.protocol.wire.primitives import Buffer

read_request = Struct(">iIi").unpack_from
"""The fields of a request: size, API key and version as one number, correlation id."""
read_response = Struct(">ii").unpack_from
"""The fields of a response: size, correlation id."""


def matches_at(expected: bytes, buffer: Buffer, at: int) -> bool:
    """Return whether buffer[at:] begins with the expected bytes."""
    return buffer[at : at + len(expected)] == expected
