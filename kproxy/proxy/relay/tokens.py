"""SASL tokens without a header: after SaslHandshake v0, both sides send them as bare size and bytes (KIP-43)."""

from __future__ import annotations

from struct import Struct

from kproxy.protocol.wire.primitives import INT32, Buffer, malformed

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
