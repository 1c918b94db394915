"""Recognising the protocol of a connection that is not Kafka's, by its first bytes.

A Kafka connection begins with an int32 size of at most 100 MiB (so a first byte of 0 to 6) and an API key. Sources: RFC
8446 §5.1 (TLS records), RFC 9112 and 9113 (HTTP), RFC 4253 §4.2 (SSH), RFC 1928 (SOCKS5), the SOCKS4 memo, the PROXY
protocol specification.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct

from kproxy.protocol.wire.api import APIS

# The bytes that are enough to tell all of them apart.
ENOUGH = 12

_CALL = Struct(">hh")  # API key and version


class Greeting(Enum):
    """A protocol that is not Kafka's. The value is a fixed word, fit for a metric label."""

    TLS = "tls"
    TLS_ALERT = "tls-alert"
    HTTP = "http"
    SSH = "ssh"
    SOCKS = "socks"
    PROXY = "proxy-protocol"


_PREFIXES = (
    (b"PROXY ", Greeting.PROXY),
    (b"\r\n\r\n\x00\r\nQUIT\n", Greeting.PROXY),
    (b"SSH-", Greeting.SSH),
    *(
        (word + b" ", Greeting.HTTP)
        for word in (b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"PATCH", b"TRACE", b"PRI")
    ),
    (b"HTTP/", Greeting.HTTP),
)


def recognise(first: bytes, *, from_upstream: bool = False) -> Greeting | None:
    """Return the protocol of a connection's first bytes; None if they may be Kafka's.

    `from_upstream` is true for a response: only SOCKS has other first bytes then.
    """
    if first[:1] == b"\0":  # a Kafka frame of less than 16 MiB, and no other protocol
        return None
    if len(first) >= 3 and first[1] == 3 and first[2] <= 4:
        if first[0] == 0x16:
            return Greeting.TLS
        if first[0] == 0x15:
            return Greeting.TLS_ALERT
    for prefix, greeting in _PREFIXES:
        if first.startswith(prefix):
            return greeting
    if _is_socks_refusal(first) if from_upstream else _is_socks_request(first):
        return Greeting.SOCKS
    return None


def _is_socks_request(first: bytes) -> bool:
    """Return whether these are the first bytes of a SOCKS client.

    As a frame's size they would mean 67 MB and more; a request of that size has a known API and version.
    """
    if len(first) >= 8:
        key, version = _CALL.unpack_from(first, 4)
        if key in APIS and 0 <= version <= APIS[key].newest:
            return False
    if len(first) >= 3 and first[0] == 5:
        return len(first) == 2 + first[1]
    return len(first) >= 9 and first[0] == 4 and first[1] in (1, 2) and first[-1] == 0


def _is_socks_refusal(first: bytes) -> bool:
    """Return whether this is the answer of a SOCKS5 server to another protocol: no acceptable method (RFC 1928 §3)."""
    return first == b"\x05\xff"
