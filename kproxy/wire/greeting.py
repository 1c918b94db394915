"""Whose protocol the first bytes of a connection are, when they are not Kafka's.

A Kafka connection begins with an int32 size of at most 100 MiB (so a first byte of 0 to 6) and an API key.
Sources: RFC 8446 §5.1 (TLS records), RFC 9112 and 9113 (HTTP), RFC 4253 §4.2 (SSH), RFC 1928 (SOCKS5), the
SOCKS4 memo, the PROXY protocol specification.
"""

from __future__ import annotations

from enum import Enum

# Enough to tell all of them apart.
ENOUGH = 12


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
    *((word + b" ", Greeting.HTTP) for word in
      (b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"PATCH", b"TRACE", b"PRI")),
    (b"HTTP/", Greeting.HTTP),
)  # fmt: skip


def recognise(first: bytes) -> Greeting | None:
    """The protocol that a connection's first bytes belong to; None if they may be Kafka's."""
    if len(first) >= 3 and first[1] == 3 and first[2] <= 4:
        if first[0] == 0x16:
            return Greeting.TLS
        if first[0] == 0x15:
            return Greeting.TLS_ALERT
    for prefix, greeting in _PREFIXES:
        if first.startswith(prefix):
            return greeting
    # As a frame's size these would be 67 MB and more, as a first request impossible.
    if len(first) >= 3 and first[0] == 5 and len(first) == 2 + first[1]:
        return Greeting.SOCKS
    if len(first) >= 9 and first[0] == 4 and first[1] in (1, 2) and first[-1] == 0:
        return Greeting.SOCKS
    return None
