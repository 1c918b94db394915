"""Connections that do not speak Kafka: recognising their protocol by its first bytes, and the messages for them.

A Kafka connection begins with an int32 size of at most 100 MiB (so a first byte of 0 to 6) and an API key. Sources: RFC
8446 §5.1 (TLS records), RFC 9112 and 9113 (HTTP), RFC 4253 §4.2 (SSH), RFC 1928 (SOCKS5), the SOCKS4 memo, the PROXY
protocol specification.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct

from kproxy.base.errors import WireError
from kproxy.base.messages.logins import HOST_BOUND_LOGIN
from kproxy.base.messages.sessions import (
    CLIENT_LOGS_IN,
    CLIENT_SPEAKS_HTTP,
    CLIENT_SPEAKS_PLAINTEXT,
    CLIENT_SPEAKS_PROXY_PROTOCOL,
    CLIENT_SPEAKS_SOCKS,
    CLIENT_SPEAKS_SSH,
    CLIENT_SPEAKS_TLS,
    CLIENT_SPEAKS_TLS_ALERT,
    UPSTREAM_SPEAKS_HTTP,
    UPSTREAM_SPEAKS_PROXY_PROTOCOL,
    UPSTREAM_SPEAKS_SOCKS,
    UPSTREAM_SPEAKS_SSH,
    UPSTREAM_SPEAKS_TLS,
    UPSTREAM_SPEAKS_TLS_ALERT,
)
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


# Messages: which side speaks which protocol, and which setting to change

_CLIENT_SPEAKS = {
    Greeting.TLS: CLIENT_SPEAKS_TLS,
    Greeting.TLS_ALERT: CLIENT_SPEAKS_TLS_ALERT,
    Greeting.HTTP: CLIENT_SPEAKS_HTTP,
    Greeting.SSH: CLIENT_SPEAKS_SSH,
    Greeting.SOCKS: CLIENT_SPEAKS_SOCKS,
    Greeting.PROXY: CLIENT_SPEAKS_PROXY_PROTOCOL,
}
_UPSTREAM_SPEAKS = {
    Greeting.TLS: UPSTREAM_SPEAKS_TLS,
    Greeting.TLS_ALERT: UPSTREAM_SPEAKS_TLS_ALERT,
    Greeting.HTTP: UPSTREAM_SPEAKS_HTTP,
    Greeting.SSH: UPSTREAM_SPEAKS_SSH,
    Greeting.SOCKS: UPSTREAM_SPEAKS_SOCKS,
    Greeting.PROXY: UPSTREAM_SPEAKS_PROXY_PROTOCOL,
}


def wrong_client(greeting: Greeting) -> WireError:
    """Return the error for a client that does not speak Kafka."""
    return WireError(*_CLIENT_SPEAKS[greeting].with_reason())


def plaintext_client() -> WireError:
    """Return the error for a client without TLS where kproxy has a certificate for its clients."""
    return WireError(*CLIENT_SPEAKS_PLAINTEXT.with_reason())


def wrong_upstream(greeting: Greeting) -> WireError:
    """Return the error for an upstream address that does not speak Kafka."""
    return WireError(*_UPSTREAM_SPEAKS[greeting].with_reason())


def client_login_error() -> WireError:
    """Return the error for a client that logs in on a connection where kproxy has done so (--sasl)."""
    return WireError(*CLIENT_LOGS_IN.with_reason())


def explain_host_bound_login(mechanism: str) -> str:
    """Return the message for a login by a mechanism that includes the dialled host; "" for other mechanisms."""
    return HOST_BOUND_LOGIN(mechanism=mechanism) if mechanism in ("GSSAPI", "AWS_MSK_IAM") else ""
