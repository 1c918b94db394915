"""ApiVersions responses of version 5, and the same responses in the version that a client has asked for.

So kproxy can ask for a client in version 5, which names the cluster and the node (`versionsrequest`), and the client
gets what the broker would have answered it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import (
    INT16,
    INT32,
    Underflow,
    malformed,
    read_size,
    read_string,
    read_uvarint,
    skip_tags,
    uvarint,
)

_RANGE = Struct(">hhh")  # API key, oldest and newest version
_ENTRY = _RANGE.size + 1  # with an empty section of tagged fields
_SUPPORTED_FEATURES = 0  # a tag
# The largest response, in bytes, that is remembered.
_SHORT = 4096


@dataclass(frozen=True, slots=True)
class VersionsAnswer:
    """The response to an ApiVersions request of version 5, without its correlation id."""

    error: int
    ranges: bytes
    """The API keys and versions, as they stand in the response, with their count. Brokers of one version of one
    software send the same, as far as their settings are the same."""
    rest: bytes
    """What stands behind them: the throttle time and the tagged fields."""

    def in_version(self, version: int) -> bytes:
        """Return the body of the response that the broker would have sent to a request of this version, 0 to 5.

        Raises Underflow and WireError if what is left out for it cannot be read.
        """
        convert = _in_version_short if len(self.ranges) + len(self.rest) <= _SHORT else _in_version
        return convert(self, version)


def _in_version(answer: VersionsAnswer, version: int) -> bytes:
    error = INT16.pack(answer.error)
    if version >= 4:
        return b"".join((error, answer.ranges, answer.rest))
    if version == 3:
        return b"".join((error, answer.ranges, answer.rest[:4], _without_features_from_0(answer.rest)))
    entries = list(_entries(answer.ranges))
    body = b"".join((error, INT32.pack(len(entries)), *entries))
    return body + answer.rest[:4] if version else body


def _entries(ranges: bytes) -> Iterator[bytes]:
    count, at = read_uvarint(ranges, 0, len(ranges))
    for _ in range(count - 1):
        yield ranges[at : at + _RANGE.size]
        at = skip_tags(ranges, at + _RANGE.size, len(ranges))


def read_versions_answer(body: bytes) -> VersionsAnswer:
    """Read a response to a request of version 5 from behind its correlation id. Raises Underflow and WireError.

    A broker that does not know version 5 answers with error 35 in version 0 (KIP-511); then there are no ranges.
    """
    return _read_short(body) if len(body) <= _SHORT else _read(body)


def _read(body: bytes) -> VersionsAnswer:
    end = len(body)
    if end < 2:
        raise Underflow
    (error,) = INT16.unpack_from(body, 0)
    if error == ErrorCode.UNSUPPORTED_VERSION:
        return VersionsAnswer(error, b"\1", b"")
    count, at = read_size(body, 2, end, 0, False)
    if end - at < count * _ENTRY:  # each has so many bytes at least
        raise Underflow
    if body[at + _RANGE.size : at + count * _ENTRY : _ENTRY].count(0) == count:  # no entry has tagged fields
        at += count * _ENTRY
    else:
        for _ in range(count):
            at = skip_tags(body, at + _RANGE.size, end)
    ranges_end = at
    at = skip_tags(body, at + 4, end)
    if at != end:
        raise malformed("an ApiVersions response is longer than its fields")
    return VersionsAnswer(error, body[2:ranges_end], body[ranges_end:])


# The brokers of a cluster send the same response on each connection.
_read_short = lru_cache(maxsize=64)(_read)
_in_version_short = lru_cache(maxsize=64)(_in_version)


def _without_features_from_0(rest: bytes) -> bytes:
    """Return the tagged fields without the supported features whose lowest level is 0.

    Version 3 does not have these, because its clients cannot read them (KAFKA-17011).
    """
    end = len(rest)
    count, at = read_uvarint(rest, 4, end)
    fields = []
    for _ in range(count):
        begin = at
        tag, at = read_uvarint(rest, at, end)
        size, at = read_uvarint(rest, at, end)
        content = rest[at : at + size]
        at += size
        if tag != _SUPPORTED_FEATURES:
            fields.append(rest[begin:at])
        elif kept := _features_above_0(content):
            content = uvarint(len(kept) + 1) + b"".join(kept)
            fields.append(uvarint(tag) + uvarint(len(content)) + content)
    return uvarint(len(fields)) + b"".join(fields)


def _features_above_0(features: bytes) -> list[bytes]:
    end = len(features)
    count, at = read_uvarint(features, 0, end)
    kept = []
    for _ in range(count - 1):
        begin = at
        _, at = read_string(features, at, end, compact=True, nullable=False)
        lowest = INT16.unpack_from(features, at)[0] if end - at >= 2 else 0
        at = skip_tags(features, at + 4, end)
        if lowest:
            kept.append(features[begin:at])
    return kept
