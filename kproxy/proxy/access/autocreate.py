"""Metadata requests that create no topic, and the responses to old ones.

A broker with auto.create.topics.enable creates the topics that a Metadata request names. From version 4 on, the request
says whether it may (KIP-204). Up to version 3 it always may: such a request is sent as one of version 4, and its
response loses what its version does not have. Version 3 has the same response as 4; version 2 has no throttle time;
version 1 no cluster id; version 0 has no racks, no controller, and does not say which topics are internal.
"""

from __future__ import annotations

from struct import Struct

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import (
    INT16,
    INT32,
    Buffer,
    Underflow,
    malformed,
    read_size,
    read_string,
    skip_tags,
)
from kproxy.proxy.access.names import body_at

SAYS_SO = 4
"""The first version that says whether topics may be created."""
MOST_TOPICS = 10_000
"""The most topics that one request may name: reading them takes some milliseconds."""
LONGEST_OF_VERSION_0 = 256 * 1024
"""The most bytes of a response that becomes one of version 0: each topic must be changed, which takes milliseconds."""
_API = ApiKey.METADATA
_read_header = Struct(">iHHi").unpack_from


def topics_end(request: Buffer, version: int) -> int:
    """Return the index behind the topics of a request, where it may say whether they may be created.

    `request` is a frame, perhaps without its end. Raises Underflow and WireError.
    """
    flexible, end = _API.is_flexible(version), len(request)
    at = body_at(request, _API, version)
    # In version 0 an array cannot be null; an empty one means all topics.
    count, at = read_size(request, at, end, 0 if flexible else 4, True)
    if count > MOST_TOPICS:
        raise malformed(f"a Metadata request names {count} topics; without leave to create topics, up to {MOST_TOPICS}")
    for _ in range(count):
        if version >= 10:
            at += 16
        size, at = read_size(request, at, end, 0 if flexible else 2, version >= 10)
        at += max(0, size)
        if flexible:
            at = skip_tags(request, at, end)
        if at > end:
            raise Underflow
    return at


def without_creation(request: Buffer, version: int) -> bytes | None:
    """Return a whole request, changed so that it creates no topic; None if it creates none as it is.

    Raises Underflow and WireError.
    """
    at = topics_end(request, version)
    if version < SAYS_SO:
        return _as_version_4(request, version, at)
    if at >= len(request):
        raise Underflow
    if not request[at]:
        return None
    return b"".join((request[:at], b"\0", request[at + 1 :]))


def _as_version_4(request: Buffer, version: int, end: int) -> bytes:
    _, _, _, correlation_id = _read_header(request, 0)
    topics_at = body_at(request, _API, version)
    topics = bytes(request[topics_at:end])
    if version == 0 and topics == bytes(4):
        topics = INT32.pack(-1)
    header = INT16.pack(_API) + INT16.pack(SAYS_SO) + INT32.pack(correlation_id) + bytes(request[12:topics_at])
    body = header + topics + b"\0"
    return INT32.pack(len(body)) + body


def as_older(response: bytes, version: int) -> bytes:
    """Return a response of version 4, a whole frame, as one of `version`, at most 3. Raises Underflow and WireError."""
    if version == 3:
        return response
    end = len(response)
    if version == 0:
        if end > LONGEST_OF_VERSION_0:
            raise malformed(
                f"a Metadata response of {end} bytes is too large for version 0, which the client asked for"
            )
        body = _as_version_0(response, end)
    else:
        at = _brokers_end(response, end)
        body = response[12:at]
        if version == 1:
            _, at = read_string(response, at, end, compact=False, nullable=True)
        body += response[at:]
    return INT32.pack(4 + len(body)) + response[4:8] + body


_BROKERS = 12
"""Where the brokers begin: behind size, correlation id and throttle time."""


def _brokers_end(response: bytes, end: int) -> int:
    count, at = read_size(response, _BROKERS, end, 4, False)
    for _ in range(count):
        _, at = read_string(response, at + 4, end, compact=False, nullable=False)
        _, at = read_string(response, at + 4, end, compact=False, nullable=True)
    return at


def _as_version_0(response: bytes, end: int) -> bytes:
    count, at = read_size(response, _BROKERS, end, 4, False)
    pieces = [INT32.pack(count)]
    for _ in range(count):
        start = at
        _, at = read_string(response, at + 4, end, compact=False, nullable=False)
        pieces.append(response[start : at + 4])
        _, at = read_string(response, at + 4, end, compact=False, nullable=True)  # the rack
    _, at = read_string(response, at, end, compact=False, nullable=True)  # the cluster id
    count, at = read_size(response, at + 4, end, 4, False)  # behind the controller's id
    pieces.append(INT32.pack(count))
    for _ in range(count):
        start = at
        _, at = read_string(response, at + 2, end, compact=False, nullable=False)
        pieces.append(response[start:at])
        start = at = at + 1  # behind what says whether it is internal
        partitions, at = read_size(response, at, end, 4, False)
        for _ in range(partitions):
            at += 10  # its error, its number, its leader
            for _ in ("replicas", "in-sync replicas"):
                nodes, at = read_size(response, at, end, 4, False)
                at += 4 * nodes
        if at > end:
            raise Underflow
        pieces.append(response[start:at])
    return b"".join(pieces)
