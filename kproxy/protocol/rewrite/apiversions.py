"""ApiVersions responses: kproxy offers clients only the APIs and versions that it can pass on safely.

A response of a newer version could carry addresses in fields that kproxy does not know. So every API's highest version
is capped to the table in `wire.api`, or lower if the caller says so, and APIs that are not in the table are left out. A
feature level that needs a capped version is lowered (`features`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
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
# The largest response, in bytes, whose capped form is remembered.
_SHORT = 4096

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
        if len(frame) < 10:
            raise Underflow
        body = bytes(frame[8:])  # behind the correlation id: the header is always version 0
        capping = _cap_short if len(body) <= _SHORT else _cap
        capped, left_out = capping(body, 0 if error else version, tuple(highest.items()))
    except (Underflow, WireError) as problem:
        if error:
            return bytes(frame)  # librdkafka's mock cluster refuses in a shape of its own
        if isinstance(problem, WireError):
            raise
        raise malformed("an ApiVersions response ends before its last field") from None
    if unknown is not None:
        unknown += left_out
    return b"".join((INT32.pack(4 + len(capped)), frame[4:8], capped))


def _cap(body: bytes, version: int, highest_versions: tuple[tuple[int, int], ...]) -> tuple[bytes, tuple[int, ...]]:
    """Return the capped body, from the error code on, and the keys of unknown APIs. Raises Underflow and WireError."""
    highest = dict(highest_versions)
    unknown: list[int] = []
    end, at = len(body), INT16.size  # behind the error code
    flexible = ApiKey.API_VERSIONS.is_flexible(version)
    count, at = read_size(body, at, end, 0 if flexible else 4, True)
    api_entries = []
    capped: dict[int, int] = {}
    for _ in range(count):
        start = at
        if end - at < 6:
            raise Underflow
        key, oldest, newest = _RANGE.unpack_from(body, at)
        at += 6
        if flexible:
            at = skip_tags(body, at, end)
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
        api_entries.append(range_bytes + body[start + 6 : at])
    header = uvarint(len(api_entries) + 1) if flexible else INT32.pack(len(api_entries))
    tail = body[at:]
    if flexible:
        tail = features.lower_levels(tail, capped)
    return b"".join((body[: INT16.size], header, *api_entries, tail)), tuple(unknown)


# The nodes of a cluster send the same response on each connection.
_cap_short = lru_cache(maxsize=64)(_cap)


def unsupported_version(correlation_id: int, highest: Mapping[int, int] = TABLE_VERSIONS) -> bytes:
    """Return the response to an ApiVersions request that is newer than may pass, as a broker answers it (KIP-511).

    It has error 35 in version 0, and the versions of ApiVersions itself: the client asks again with one of them.
    """
    api = ApiKey.API_VERSIONS
    ranges = _RANGE.pack(api, api.oldest, newest_version(api, highest))
    body = INT32.pack(correlation_id) + INT16.pack(ErrorCode.UNSUPPORTED_VERSION) + INT32.pack(1) + ranges
    return INT32.pack(len(body)) + body
