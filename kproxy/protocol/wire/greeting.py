"""Connections that do not speak Kafka: recognising their protocol by its first bytes, and the messages for them.

A Kafka connection begins with an int32 size of at most 100 MiB (so a first byte of 0 to 6) and an API key. Sources: RFC
8446 §5.1 (TLS records), RFC 9112 and 9113 (HTTP), RFC 4253 §4.2 (SSH), RFC 1928 (SOCKS5), the SOCKS4 memo, the PROXY
protocol specification.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct

from kproxy.base.errors import WireError
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

_CLIENT_SPOKE = {
    Greeting.TLS: "TLS; kproxy expects plaintext there: set security.protocol to PLAINTEXT"
    " (or SASL_PLAINTEXT) in the client, or give kproxy a certificate with --client-tls-cert",
    Greeting.TLS_ALERT: "a TLS alert; kproxy expects plaintext there: set security.protocol to PLAINTEXT in the client",
    Greeting.HTTP: "HTTP; this is a Kafka port: give it to a Kafka client as bootstrap.servers"
    " (metrics and status are on the --admin port)",
    Greeting.SSH: "SSH; this is a Kafka port: give it to a Kafka client as bootstrap.servers",
    Greeting.SOCKS: "SOCKS; this is a Kafka port, not a SOCKS proxy: set it as bootstrap.servers"
    " and remove the proxy setting (socksProxyHost) from the client",
    Greeting.PROXY: "the PROXY protocol; turn it off in the load balancer in front of kproxy (send-proxy)",
}

_UPSTREAM_SPOKE = {
    Greeting.TLS: "TLS without being asked; the server is not a Kafka broker:"
    " check the address and port of --bootstrap-servers",
    Greeting.TLS_ALERT: "a TLS alert: its listener is SSL or SASL_SSL: use --tls",
    Greeting.HTTP: "HTTP: the server is a web server or an HTTP proxy, not a Kafka broker:"
    " check the address and port of --bootstrap-servers",
    Greeting.SSH: "SSH: the server is an SSH server, not a Kafka broker:"
    " check the address and port of --bootstrap-servers",
    Greeting.SOCKS: "SOCKS: the server is a SOCKS proxy, not a Kafka broker: check the address of --bootstrap-servers",
    Greeting.PROXY: "the PROXY protocol, which no broker speaks: check the address of --bootstrap-servers",
}


def wrong_client(greeting: Greeting) -> WireError:
    """Return the error for a client that does not speak Kafka."""
    return WireError(f"client-speaks-{greeting.value}", f"the client spoke {_CLIENT_SPOKE[greeting]}")


def plaintext_client() -> WireError:
    """Return the error for a client without TLS where kproxy has a certificate for its clients."""
    return WireError(
        "client-speaks-plaintext",
        "the client spoke plaintext; kproxy expects TLS there (--client-tls-cert): set security.protocol to SSL"
        " (or SASL_SSL) in the client",
    )


def wrong_upstream(greeting: Greeting) -> WireError:
    """Return the error for an upstream address that does not speak Kafka."""
    return WireError(f"upstream-speaks-{greeting.value}", f"the broker's side spoke {_UPSTREAM_SPOKE[greeting]}")


def client_login_error() -> WireError:
    """Return the error for a client that logs in on a connection where kproxy has done so (--sasl)."""
    return WireError(
        "client-logs-in",
        "the client sent a login, but kproxy itself logs in (--sasl): remove the credentials from the client"
        " (security.protocol=PLAINTEXT)",
    )


def explain_host_bound_login(mechanism: str) -> str:
    """Return the message for a login by a mechanism that includes the dialled host; "" for other mechanisms."""
    if mechanism not in ("GSSAPI", "AWS_MSK_IAM"):
        return ""
    return (
        f"a client logs in with {mechanism}, which includes the host that the client connects to; a broker"
        f" refuses a local address. Let kproxy log in instead: --sasl {mechanism}, and in the client"
        " security.protocol=PLAINTEXT"
    )
