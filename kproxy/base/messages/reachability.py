"""Messages about brokers that kproxy cannot reach."""

from __future__ import annotations

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message, alike

NAME_NOT_RESOLVED = Message(
    "{address}: the name '{host}' cannot be resolved here",
    "This machine cannot resolve the advertised name. Use `--map`, or list more bootstrap servers.",
    fault=Fault.NAME_NOT_RESOLVED,
    reason="resolve",
)
CONNECTION_REFUSED = Message(
    "connection refused: nothing listens on that port",
    "The machine is up, but the broker or the port-forward is not. Or the name resolves to a wrong address, often "
    "127.0.0.1.",
    fault=Fault.PORT_CLOSED,
    reason="refused",
)
CONNECT_TIMEOUT = Message(
    "{address}: no answer within {seconds:g} s (a firewall drops the packets, or the host is down)",
    "This is typical for private advertised addresses without the VPN: use `--map`. If the network is slow, set a "
    "longer `--connect-timeout`.",
    fault=Fault.FILTERED,
    reason="timeout",
)
NO_ROUTE_TO_HOST, NO_ROUTE_TO_NETWORK = alike(
    "The VPN or the network is down, or the address is IPv6 and this machine has no IPv6.",
    "no route to that host",
    "no route to that network",
    fault=Fault.NO_ROUTE,
    reason="unreachable",
)
CLOSED_WITHOUT_ANSWER = Message(
    "closed the connection without answering: its listener may expect TLS (SSL, SASL_SSL): use --tls; or a client certificate: --tls-cert; or the server is not a Kafka broker",
    "The server is a TLS listener, is not a Kafka broker, or is stopping.",
    fault=Fault.CLOSED,
    reason="closed",
)
PROXY_LOOP = Message(
    "{address} is kproxy's own listener: to connect there would be a loop",
    "The cluster advertises the address on which kproxy listens, for example `localhost:9092`. Set the broker's real "
    "address with `--map`.",
    fault=Fault.PROXY_LOOP,
    reason="loop",
)
TOO_MANY_OPEN_FILES = Message(
    "too many open files: raise the limit (ulimit -n)",
    "Each session needs two file descriptors.",
    fault=Fault.TOO_MANY_FILES,
    reason="limit",
)
DNS_TIMEOUT = Message(
    "{address}: the name '{host}' was not resolved within {seconds:g} s (no answer from DNS)",
    "The resolver of this machine does not answer. Check the VPN and `/etc/resolv.conf`.",
    fault=Fault.DNS_SILENT,
    reason="resolve",
)
INVALID_PORT = Message(
    "{address}: {port} is not a port",
    "The broker advertises an invalid port.",
    reason="other",
)
CERTIFICATE_NAME = Message(
    "TLS: the broker's certificate is for {shown}, not for {expected}: set the right name with --tls-server-name",
    "kproxy expects the advertised host, even if it connects to another address. For a bootstrap server, it expects "
    "the host in `--bootstrap-servers`. Set the right name with `--tls-server-name`: [TLS](configuration.md#tls).",
    fault=Fault.CERTIFICATE_NAME,
    reason="tls-name",
)
SERVER_NAME_UNKNOWN = Message(
    "TLS: the server does not know the name that kproxy sent: check --tls-server-name",
    "A proxy in front of the brokers selects brokers by name, and does not know this name.",
    fault=Fault.CERTIFICATE_NAME,
    reason="tls-name",
)
CERTIFICATE_UNTRUSTED = Message(
    "TLS: the broker's certificate is from a CA that kproxy does not trust: set the CA with --tls-ca",
    "Use the unchanged trust store of another client of this cluster.",
    fault=Fault.CERTIFICATE_UNTRUSTED,
    reason="tls-untrusted",
)
CERTIFICATE_EXPIRED = Message(
    "TLS: the broker's certificate, or one above it, has expired: renew it",
    "Renew the certificate in the broker.",
    fault=Fault.CERTIFICATE_EXPIRED,
    reason="tls-expired",
)
CERTIFICATE_NOT_YET_VALID = Message(
    "TLS: the broker's certificate is not valid yet: check the clocks",
    "Compare the clocks of the broker, of this machine and of the one that made the certificate.",
    fault=Fault.CERTIFICATE_NOT_YET_VALID,
    reason="tls-expired",
)
CLIENT_CERTIFICATE_REQUIRED = Message(
    "TLS: the broker requires a client certificate: give one with --tls-cert",
    "The broker has `ssl.client.auth=required`.",
    fault=Fault.CLIENT_CERTIFICATE_MISSING,
    reason="tls-client-certificate",
)
CLIENT_CERTIFICATE_REFUSED = Message(
    "TLS: the broker says that kproxy showed {shown}: check --tls-cert",
    "The broker rejects the client certificate: it has expired, it is from another CA, or kproxy has none.",
    fault=Fault.CLIENT_CERTIFICATE_REFUSED,
    reason="tls-client-certificate",
)
TLS_VERSION_UNSUPPORTED = Message(
    "TLS: the broker supports neither TLS 1.2 nor TLS 1.3: check ssl.enabled.protocols",
    "Change this setting in the broker.",
    fault=Fault.TLS_VERSION,
    reason="tls-version",
)
SERVER_SPEAKS_NO_TLS = Message(
    "TLS: the server at this address does not speak TLS: leave out --tls, or use the port of an SSL listener",
    "The port is wrong, or the server is not a Kafka broker.",
    fault=Fault.TLS_TO_PLAINTEXT,
    reason="tls-plaintext",
)
HANDSHAKE_CLOSED = Message(
    "TLS: the connection was closed during the handshake: its listener may be PLAINTEXT or SASL_PLAINTEXT (leave out --tls), or it requires a client certificate (--tls-cert)",
    "A plaintext listener takes the handshake for a frame of 369 MB, and closes the connection.",
    fault=Fault.TLS_TO_PLAINTEXT,
    reason="tls-closed",
)
HANDSHAKE_TIMEOUT = Message(
    "TLS: no answer to the handshake within {seconds:g} s",
    "The server is not a broker, or the network drops large packets (MTU).",
    fault=Fault.SILENT,
    reason="timeout",
)
HANDSHAKE_REFUSED = Message(
    "TLS: the broker refused the handshake: no cipher suite in common, or it requires a client certificate (--tls-cert)",
    "Check `ssl.cipher.suites` and `ssl.client.auth` in the broker.",
    fault=Fault.TLS_FAILED,
    reason="tls",
)
