"""ApiVersions requests of clients, and the same requests with the cluster and the node that kproxy expects (KIP-1242).

Version 5 names a cluster and a node. A broker that is another one answers REBOOTSTRAP_REQUIRED.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from kproxy.base.errors import WireError
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.primitives import INT16, INT32, Buffer, Underflow, read_string, string

ADDRESSED = 5
"""The first version that names a cluster and a node."""
LONGEST = 4096
"""The longest request that is read, in bytes. The names in it are short."""

_HEAD = Struct(">ihhi")  # size, API key, version, correlation id
_SIZE_AND_KEY = Struct(">ih")
_REST = Struct(">hhi")
_NO_TAGS = b"\0"
# What brokers note for a client that sends no name of its software (version 0 to 2).
_UNKNOWN_SOFTWARE = string(b"unknown", compact=True) * 2


@dataclass(frozen=True, slots=True)
class VersionsRequest:
    """An ApiVersions request of the usual shape, version 0 to 5, without tagged fields.

    Its correlation id is left out, so all connections of one client send the same one.
    """

    version: int
    client_id: bytes
    """The client id with its length, as it stands in the header."""
    software: bytes
    """The name and the version of the software, as version 3 and later have them."""
    cluster_id: str | None
    """The cluster that the client expects; None if it expects none."""
    node_id: int
    """The node that the client expects; -1 if it expects none."""

    @classmethod
    def named(cls, name: bytes) -> VersionsRequest:
        """Return a request of a client with this client id and software, without a version of the software."""
        software = string(name, compact=True) + string(b"unknown", compact=True)
        return cls(ADDRESSED, string(name, compact=False), software, None, -1)

    def addressed_to(self, cluster_id: str, node_id: int) -> bytes:
        """Return the frame of this request in version 5, to this node of this cluster.

        Its correlation id is the API key, as in all requests of kproxy's own.
        """
        name = string(cluster_id.encode(), compact=True)
        body = b"".join((self.client_id, _NO_TAGS, self.software, name, INT32.pack(node_id), _NO_TAGS))
        head = _REST.pack(ApiKey.API_VERSIONS, ADDRESSED, ApiKey.API_VERSIONS)
        return INT32.pack(len(head) + len(body)) + head + body


def is_begun(data: Buffer) -> bool:
    """Check whether more bytes may complete an ApiVersions request that these bytes begin."""
    if len(data) < _SIZE_AND_KEY.size:
        return True
    size, key = _SIZE_AND_KEY.unpack_from(data)
    return bool(key == ApiKey.API_VERSIONS and len(data) < 4 + size <= LONGEST)


def read_versions_request(data: bytes) -> VersionsRequest | None:
    """Return the ApiVersions request with which these bytes begin.

    None: it is another request, it is not whole, or it has not the usual shape, so that only the broker may judge it.
    """
    if len(data) < _HEAD.size:
        return None
    size, key, version, _ = _HEAD.unpack_from(data)
    end = 4 + size
    if key != ApiKey.API_VERSIONS or not 0 <= version <= ADDRESSED or not _HEAD.size <= end <= min(len(data), LONGEST):
        return None
    return _read_behind_correlation_id(version, data[_HEAD.size : end])


@lru_cache(maxsize=64)  # a client sends the same on each connection
def _read_behind_correlation_id(version: int, data: bytes) -> VersionsRequest | None:
    """Return the request of this version whose client id and body these bytes are; None as `read_versions_request`."""
    end = len(data)
    if end < INT16.size:
        return None
    (length,) = INT16.unpack_from(data)
    at = INT16.size + max(0, length)
    if length < -1 or at > end:
        return None
    client_id, software = data[:at], _UNKNOWN_SOFTWARE
    cluster_id: bytes | None = None
    node_id = -1
    try:
        if version >= 3:
            begin = at = _skip_no_tags(data, at, end)
            for _ in range(2):
                _, at = read_string(data, at, end, compact=True, nullable=False)
            software = data[begin:at]
            if version >= ADDRESSED:
                cluster_id, at = read_string(data, at, end, compact=True, nullable=True)
                if end - at < 4:
                    return None
                (node_id,) = INT32.unpack_from(data, at)
                at += 4
            at = _skip_no_tags(data, at, end)
        if at != end or (cluster_id is None) != (node_id == -1):  # a broker refuses one without the other
            return None
        expected = None if cluster_id is None else cluster_id.decode()
    except (Underflow, WireError, UnicodeDecodeError):
        return None
    return VersionsRequest(version, client_id, software, expected, node_id)


def _skip_no_tags(data: bytes, at: int, end: int) -> int:
    """Return the index behind an empty section of tagged fields. Raises Underflow if there is another one."""
    if at >= end or data[at]:
        raise Underflow
    return at + 1


def rebootstrap_required(correlation_id: int) -> bytes:
    """Return the response, version 5, of a broker that is not the one that the request names."""
    # Error code, no API, throttle time, no tagged fields.
    body = INT32.pack(correlation_id) + INT16.pack(ErrorCode.REBOOTSTRAP_REQUIRED) + b"\1" + INT32.pack(0) + _NO_TAGS
    return INT32.pack(len(body)) + body
