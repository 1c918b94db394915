"""ApiVersions responses: kproxy offers clients only the APIs and versions that it can pass on safely.

A response of a newer version could carry addresses in fields that kproxy does not know. So every API's highest version
is capped to the table in `wire.api`, or lower if the caller says so, and APIs that are not in the table are left out. A
feature level that needs a capped version is lowered (`features`).
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType

from kproxy.base.errors import WireError
from kproxy.protocol.rewrite import features
from kproxy.protocol.wire.api import APIS, NOT_FOR_CLIENTS, ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import INT16, INT32, Buffer, Underflow, malformed, read_size, skip_tags, uvarint

# The most keys of unknown APIs that are reported of one response.
_MOST_UNKNOWN = 16
# The largest ApiVersions response, in bytes; usual ones have a few hundred.
LIMIT = 256 * 1024

_RANGE = Struct(">hhh")

TABLE_VERSIONS: Mapping[int, int] = MappingProxyType({})
"""The versions of the table, without exceptions."""


def newest_version(api: ApiKey, highest: Mapping[int, int]) -> int:
    """Return the newest version of an API that passes; `highest` as in `cap`."""
    return min(api.newest, highest.get(api, api.newest))


def cap(
    frame: Buffer, version: int, highest: Mapping[int, int] = TABLE_VERSIONS, unknown: list[int] | None = None
) -> bytes:
    """Return an ApiVersions response, whole with its size field, capped.

    `highest` has the API keys whose newest version is lower than the table's, or -1 to leave the API out. `version` is
    the request's; a broker that does not support it answers with error 35 in version 0 (KIP-511). Raises WireError if
    the response is malformed. A response with an error stays as it is, unless it lists versions all the same.
    `unknown` gets the keys of APIs that are left out because they are newer than kproxy, 16 at most.
    """
    error = INT16.unpack_from(frame, 8)[0] if len(frame) >= 10 else 0
    if error not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
        return bytes(frame)  # it names no versions that a client would use
    try:
        return _cap(frame, 0 if error else version, highest, [] if unknown is None else unknown)
    except (Underflow, WireError) as problem:
        if error:
            return bytes(frame)  # librdkafka's mock cluster refuses in a shape of its own
        if isinstance(problem, WireError):
            raise
        raise malformed("an ApiVersions response ends before its last field") from None


def _cap(frame: Buffer, version: int, highest: Mapping[int, int], unknown: list[int]) -> bytes:
    end = len(frame)
    if end < 10:
        raise Underflow
    at = 10  # size, correlation id (the header is always version 0), error code
    flexible = ApiKey.API_VERSIONS.is_flexible(version)
    count, at = read_size(frame, at, end, 0 if flexible else 4, True)
    api_entries = []
    capped: dict[int, int] = {}
    for _ in range(count):
        start = at
        if end - at < 6:
            raise Underflow
        key, oldest, newest = _RANGE.unpack_from(frame, at)
        at += 6
        if flexible:
            at = skip_tags(frame, at, end)
        api = APIS.get(key)
        limit = -1 if api is None else newest_version(api, highest)
        if api is None or oldest > limit or newest < api.oldest:
            capped[key] = -1
            if api is None and key not in NOT_FOR_CLIENTS and len(unknown) < _MOST_UNKNOWN:
                unknown.append(key)
            continue
        if newest > limit:
            capped[key] = limit
        range_bytes = _RANGE.pack(key, max(oldest, api.oldest), min(newest, limit))
        api_entries.append(range_bytes + bytes(frame[start + 6 : at]))
    header = uvarint(len(api_entries) + 1) if flexible else INT32.pack(len(api_entries))
    tail = bytes(frame[at:end])
    if flexible:
        tail = features.lower_levels(tail, capped)
    body = b"".join((bytes(frame[4:10]), header, *api_entries, tail))
    return INT32.pack(len(body)) + body


def unsupported_version(correlation_id: int, highest: Mapping[int, int] = TABLE_VERSIONS) -> bytes:
    """Return the response to an ApiVersions request that is newer than may pass, as a broker answers it (KIP-511).

    It has error 35 in version 0, and the versions of ApiVersions itself: the client asks again with one of them.
    """
    api = ApiKey.API_VERSIONS
    ranges = _RANGE.pack(api, api.oldest, newest_version(api, highest))
    body = INT32.pack(correlation_id) + INT16.pack(ErrorCode.UNSUPPORTED_VERSION) + INT32.pack(1) + ranges
    return INT32.pack(len(body)) + body
