"""kproxy's messages about brokers that it cannot reach."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section
from kproxy.base.faults import Fault

SECTION = Section(
    title="Reaching brokers",
    head=(
        "message",
        "reason",
        "meaning, and what to do",
    ),
    before=(
        "These messages follow `cannot be reached:` or `no bootstrap server answers:`. The column `reason` has\n"
        "the value of the label `reason` of the metric `kproxy_upstream_dial_failures_total`."
    ),
    rows=(
        OwnMessage(
            "`the name … cannot be resolved here`",
            "This machine cannot resolve the advertised name. Use `--map`, or list more bootstrap servers.",
            reason="`resolve`",
            fault=Fault.NAME_NOT_RESOLVED,
        ),
        OwnMessage(
            "`connection refused: nothing listens on that port`",
            "The machine is up, but the broker or the port-forward is not. Or the name resolves to a wrong "
            "address, often 127.0.0.1.",
            reason="`refused`",
            fault=Fault.PORT_CLOSED,
        ),
        OwnMessage(
            "`no answer within … s (a firewall drops the packets, or the host is down)`",
            "This is typical for private advertised addresses without the VPN: use `--map`. If the network is "
            "slow, set a longer `--connect-timeout`.",
            reason="`timeout`",
            fault=Fault.FILTERED,
        ),
        OwnMessage(
            "`no route to that host`, `no route to that network`",
            "The VPN or the network is down, or the address is IPv6 and this machine has no IPv6.",
            reason="`unreachable`",
            fault=Fault.NO_ROUTE,
        ),
        OwnMessage(
            "`answers, but it is another cluster (id …)`, `answers, but it is … of this cluster, not …`",
            "See [above](#kproxy-at-start).",
            reason="`wrong-cluster`, `wrong-node`",
            fault=Fault.WRONG_CLUSTER,
        ),
        OwnMessage(
            "`closed the connection without answering: its listener may expect TLS`",
            "The server is a TLS listener, is not a Kafka broker, or is stopping.",
            reason="`closed`",
            fault=Fault.CLOSED,
        ),
        OwnMessage(
            "`is kproxy's own listener: to connect there would be a loop`",
            "The cluster advertises the address on which kproxy listens, for example `localhost:9092`. Set the "
            "broker's real address with `--map`.",
            reason="`loop`",
            fault=Fault.PROXY_LOOP,
        ),
        OwnMessage(
            "`too many open files: raise the limit (ulimit -n)`",
            "Each session needs two file descriptors.",
            reason="`limit`",
            fault=Fault.TOO_MANY_FILES,
        ),
        OwnMessage(
            "`the name … was not resolved within … s (no answer from DNS)`",
            "The resolver of this machine does not answer. Check the VPN and `/etc/resolv.conf`.",
            reason="`resolve`",
            fault=Fault.DNS_SILENT,
        ),
        OwnMessage(
            "`is not a port`",
            "The broker advertises an invalid port.",
            reason="`other`",
        ),
        OwnMessage(
            "`TLS: the broker's certificate is for …, not for …:`",
            "kproxy expects the advertised host, even if it connects to another address. For a bootstrap server, "
            "it expects the host in `--bootstrap-servers`. Set the right name with `--tls-server-name`: "
            "[TLS](configuration.md#tls).",
            reason="`tls-name`",
            fault=Fault.CERTIFICATE_NAME,
        ),
        OwnMessage(
            "`TLS: the server does not know the name that kproxy sent: check --tls-server-name`",
            "A proxy in front of the brokers selects brokers by name, and does not know this name.",
            reason="`tls-name`",
            fault=Fault.CERTIFICATE_NAME,
        ),
        OwnMessage(
            "`TLS: the broker's certificate is from a CA that kproxy does not trust: set the CA with --tls-ca`",
            "Use the unchanged trust store of another client of this cluster.",
            reason="`tls-untrusted`",
            fault=Fault.CERTIFICATE_UNTRUSTED,
        ),
        OwnMessage(
            "`TLS: the broker's certificate, or one above it, has expired: renew it`",
            "Renew the certificate in the broker. A similar message is `TLS: the broker's certificate is not "
            "valid yet: check the clocks`.",
            reason="`tls-expired`",
            fault=Fault.CERTIFICATE_EXPIRED,
        ),
        OwnMessage(
            "`TLS: the broker requires a client certificate: give one with --tls-cert`",
            "The broker has `ssl.client.auth=required`.",
            reason="`tls-client-certificate`",
            fault=Fault.CLIENT_CERTIFICATE_MISSING,
        ),
        OwnMessage(
            "`TLS: the broker says that kproxy showed …: check --tls-cert`",
            "The broker rejects the client certificate: it has expired, it is from another CA, or kproxy has none.",
            reason="`tls-client-certificate`",
            fault=Fault.CLIENT_CERTIFICATE_REFUSED,
        ),
        OwnMessage(
            "`TLS: the broker supports neither TLS 1.2 nor TLS 1.3: check ssl.enabled.protocols`",
            "Change this setting in the broker.",
            reason="`tls-version`",
            fault=Fault.TLS_VERSION,
        ),
        OwnMessage(
            "`TLS: the server at this address does not speak TLS: leave out --tls, or use the port of an SSL listener`",
            "The port is wrong, or the server is not a Kafka broker.",
            reason="`tls-plaintext`",
            fault=Fault.TLS_TO_PLAINTEXT,
        ),
        OwnMessage(
            "`TLS: the connection was closed during the handshake: its listener may be PLAINTEXT or SASL_PLAINTEXT`",
            "A plaintext listener takes the handshake for a frame of 369 MB, and closes the connection.",
            reason="`tls-closed`",
            fault=Fault.TLS_TO_PLAINTEXT,
        ),
        OwnMessage(
            "`TLS: no answer to the handshake within … s`",
            "The server is not a broker, or the network drops large packets (MTU).",
            reason="`timeout`",
            fault=Fault.SILENT,
        ),
        OwnMessage(
            "`TLS: the broker refused the handshake: no cipher suite in common, or it requires a client certificate`",
            "Check `ssl.cipher.suites` and `ssl.client.auth` in the broker.",
            reason="`tls`",
            fault=Fault.TLS_FAILED,
        ),
    ),
)
