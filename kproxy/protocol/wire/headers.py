"""How requests and responses begin: what is read of each frame that passes.

Each takes a buffer and an index, and whoever calls has seen that so much is there. The compiled data plane has forms of
its own of these, which make no objects: `headers.pxd`, beside this file.
"""

from __future__ import annotations

from struct import Struct

from kproxy.protocol.wire.primitives import Buffer

read_request = Struct(">iIi").unpack_from
"""Of a request: size, API key and version as one number, correlation id."""
read_response = Struct(">ii").unpack_from
"""Of a response: size, correlation id."""


def matches_at(expected: bytes, buffer: Buffer, at: int) -> bool:
    """Whether these bytes stand at buffer[at:]."""
    return buffer[at : at + len(expected)] == expected
