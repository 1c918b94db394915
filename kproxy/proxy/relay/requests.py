"""The parts of requests beyond their first 12 bytes: whether kproxy can pass them on, acks, SASL messages.

After SaslHandshake v0, clients send SASL tokens without a header, as bare size and bytes (KIP-43).
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from kproxy.base.errors import WireError
from kproxy.base.messages.sessions import API_UNKNOWN, REQUEST_TOO_LARGE, VERSION_UNKNOWN
from kproxy.protocol.rewrite.apiversions import TABLE_VERSIONS, newest_version
from kproxy.protocol.wire import headers
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.primitives import (
    INT16,
    INT32,
    Buffer,
    Underflow,
    malformed,
    read_string,
    read_uvarint,
    skip_tags,
)
from kproxy.proxy.relay.calls import Call
from kproxy.proxy.switching.producers import producer_kind

# No request header has any tagged field so far; they are walked over again with each chunk.
_MAX_HEADER_TAGS = 32
# The least bytes of a request: API key and version, correlation id, the length of a client id.
SMALLEST = 10
# What may be remembered of a Produce request, in bytes from its beginning to its acks.
_MAX_HEAD = 512
# An ApiVersions request has two short strings.
_MAX_API_VERSIONS = 128 * 1024


def check_size(head: bytes, max_request: int) -> None:
    """Raise WireError if a request that begins with these bytes is smaller than any.

    No more of it will come, so the size must show it, if it has come.
    """
    if len(head) >= 4:
        (size,) = INT32.unpack_from(head)
        if size < SMALLEST:
            check_answerable(size, -1, max_request, TABLE_VERSIONS)


def check_answerable(size: int, code: int, max_request: int, highest: Mapping[int, int]) -> None:
    """Return if kproxy itself answers this request of `size` bytes, which it cannot pass on; else raise WireError.

    It answers ApiVersions requests of a version that it does not support.
    """
    key, version = code >> 16, code & 0xFFFF
    api = APIS.get(key)
    if size > max_request or size < SMALLEST:
        too_large = size > max_request and api is not None
        text = REQUEST_TOO_LARGE(
            api="" if api is None else f"{api.name} ",
            size=size,
            max_request=max_request,
            option=" (--max-request-size)" if too_large else "",
        )
        raise WireError(REQUEST_TOO_LARGE.reason, text) if too_large else malformed(text)
    if api is None:
        raise WireError(*API_UNKNOWN.with_reason(key=key))
    if key != ApiKey.API_VERSIONS:
        raise WireError(
            *VERSION_UNKNOWN.with_reason(
                name=api.name, version=version, oldest=api.oldest, newest=newest_version(api, highest)
            )
        )
    if size > _MAX_API_VERSIONS:
        raise malformed(f"the client sent an ApiVersions request of {size} bytes")


class Acks:
    """The Produce requests of a connection that have a response: those with acks other than 0.

    A producer writes the same client id, transactional id and acks into all its requests, so those bytes of the last
    request with a response are remembered. `produces`: how it writes, "" until a request has shown it.
    """

    __slots__ = ("_call", "_head", "produces")

    def __init__(self) -> None:
        self._call: Call | None = None  # of the last one that has a response,
        self._head = b""  # and what stood between its correlation id and the end of its acks
        self.produces = ""

    def expects_response(self, chunk: Buffer, at: int, after: int, end: int, call: Call) -> bool | None:
        """Check whether the request at chunk[at:after] has a response; return None if its acks have not come yet.

        `end` is the end of the bytes that have come, perhaps with other requests. Raises WireError if there are no
        acks.
        """
        stop = at + 12 + len(self._head)
        if call is self._call and stop <= after and stop <= end and headers.matches_at(self._head, chunk, at + 12):
            return True
        acks_at = find_acks(chunk, at, after if after < end else end, call.version)
        if acks_at is None:
            if after <= end:
                raise malformed("a Produce request ends before its acks")
            return None
        stop = acks_at + 2
        expects = chunk[acks_at] != 0 or chunk[acks_at + 1] != 0
        if not self.produces:
            self.produces = producer_kind(chunk, at, after if after < end else end, call.version) or ""
        if self.produces and expects and stop - at <= _MAX_HEAD:
            self._call, self._head = call, bytes(chunk[at + 12 : stop])
        return expects


def find_acks(chunk: Buffer, at: int, end: int, version: int) -> int | None:
    """Return the index of the acks, an int16, of the Produce request at chunk[at:end]; None if they have not come yet.

    They stand first (v0-2), or behind the nullable TransactionalId (v3+); before them the request header with a
    nullable ClientId, and from v9 on its tag section. Raises WireError if they cannot be found.
    """
    try:
        at = _skip_string(chunk, at + 12, end)
        if ApiKey.PRODUCE.is_flexible(version):
            fields, at = read_uvarint(chunk, at, end)
            if fields > _MAX_HEADER_TAGS:
                raise malformed(f"a request's header has {fields} tagged fields")
            for _ in range(fields):
                _, at = read_uvarint(chunk, at, end)
                size, at = read_uvarint(chunk, at, end)
                at += size
            length, at = read_uvarint(chunk, at, end)
            at += max(0, length - 1)
        elif version >= 3:
            at = _skip_string(chunk, at, end)
    except Underflow:
        return None
    return at if end - at >= 2 else None


def find_mechanism(chunk: Buffer, at: int, end: int) -> str:
    """Return the mechanism in the SaslHandshake request at chunk[at:end]; "" if it cannot be read, or has not come."""
    try:
        name, _ = read_string(chunk, _skip_string(chunk, at + 12, end), end, compact=False, nullable=False)
    except (Underflow, WireError):
        return ""
    return (name or b"").decode("ascii", "replace")


def find_token(chunk: Buffer, at: int, end: int, version: int) -> bytes:
    """Return the SASL message in the SaslAuthenticate request at chunk[at:end], as far as it has come.

    AuthBytes stands first: with an int32 for its length, or from v2 on with a varint, behind the header's tag section.
    b"" if it cannot be read.
    """
    try:
        at = _skip_string(chunk, at + 12, end)
        if ApiKey.SASL_AUTHENTICATE.is_flexible(version):
            at = skip_tags(chunk, at, end)
            length, at = read_uvarint(chunk, at, end)
            length -= 1
        elif end - at >= 4:
            (length,) = INT32.unpack_from(chunk, at)
            at += 4
        else:
            return b""
    except (Underflow, WireError):
        return b""
    return bytes(chunk[at : min(end, at + max(0, length))])


def _skip_string(chunk: Buffer, at: int, end: int) -> int:
    if end - at < 2:
        raise Underflow
    (length,) = INT16.unpack_from(chunk, at)
    if length < -1:
        raise malformed("a request's header has a string of negative length")
    return at + 2 + max(0, int(length))


# A broker takes SASL tokens up to sasl.server.max.receive.size, by default as many bytes.
MAX_TOKEN = 524_288
# Where a token may stand, a frame is a request if its API key and version are below and up to these: room for
# those that are not known yet, so that they are refused. No token begins so: a PLAIN one has printable characters
# among its third and fourth byte, SCRAM and OAUTHBEARER begin with a letter, GSSAPI with 0x60 or 0x05.
_KEYS = 128
_VERSIONS = 30

_read_call = Struct(">hH").unpack_from  # API key and version


def skip_tokens(chunk: Buffer, at: int, end: int, max_request: int) -> tuple[int, bool]:
    """Skip the client's tokens; return the index behind them, and whether more tokens may come.

    At that index bytes are missing, or a request begins, which ends the tokens. Raises WireError.
    """
    while end - at >= 4:
        (size,) = INT32.unpack_from(chunk, at)
        if not 0 <= size <= max_request:
            raise malformed(f"the client sent a SASL token of {size} bytes")
        if size >= 10:
            if end - at < 12:
                break
            key, version = _read_call(chunk, at + 4)
            if 0 <= key < _KEYS and version <= _VERSIONS:
                return at, False
        if size > MAX_TOKEN:
            raise malformed(f"the client sent a SASL token of {size} bytes; brokers take {MAX_TOKEN}")
        at += 4 + size
    return at, True
