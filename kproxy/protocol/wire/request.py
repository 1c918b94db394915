"""The encoding of kproxy's own requests."""

from __future__ import annotations

from struct import pack

from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.primitives import INT32

CLIENT_ID = b"kproxy"


def encode_request(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Return a whole frame: size, header (v1, or v2 without tagged fields where the version is flexible), body."""
    header = pack(">hhih", key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    if version >= APIS[key].flexible:
        header += b"\0"
    return INT32.pack(len(header) + len(body)) + header + body
