"""Messages for a peer that does not speak Kafka: which side, which protocol, which setting to change."""

from __future__ import annotations

from kproxy.base.errors import WireError
from kproxy.protocol.wire.greeting import Greeting

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
