"""kproxy's messages about sessions that it ends or refuses."""

from __future__ import annotations

from kproxy.advice.remedies.own.section import OwnMessage, Section
from kproxy.base.faults import Fault

SECTION = Section(
    title="Sessions that kproxy ends",
    head=(
        "message",
        "reason",
        "meaning, and what to do",
    ),
    before=(
        "These lines begin with `closed a connection to …` or `refused a connection from …`. The column `reason` has the value of\n"
        "the label `reason` of the metric `kproxy_refused_total`."
    ),
    rows=(
        OwnMessage(
            "`the client spoke TLS; kproxy expects plaintext there: set security.protocol to PLAINTEXT`",
            "In the client, change `security.protocol=SSL` to `PLAINTEXT`, or `SASL_SSL` to `SASL_PLAINTEXT`. Or "
            "give kproxy a certificate: `--client-tls-cert`.",
            reason="`client-speaks-tls`",
            fault=Fault.TLS_TO_PLAINTEXT,
        ),
        OwnMessage(
            "`the client spoke plaintext; kproxy expects TLS there (--client-tls-cert): set security.protocol to SSL`",
            "Set `security.protocol` in the client as the message says, or remove `--client-tls-cert`.",
            reason="`client-speaks-plaintext`",
            fault=Fault.PLAINTEXT_TO_TLS,
        ),
        OwnMessage(
            "`TLS: the client showed no certificate, which --client-tls-ca requires: set ssl.keystore in the client`",
            "Or remove `--client-tls-ca`.",
            reason="`client-tls-certificate`",
            fault=Fault.CLIENT_CERTIFICATE_MISSING,
        ),
        OwnMessage(
            "`TLS: the client's certificate is not valid: …`",
            "The certificate has expired, or is from another CA than `--client-tls-ca`.",
            reason="`client-tls-certificate`",
            fault=Fault.CLIENT_CERTIFICATE_MISSING,
        ),
        OwnMessage(
            "`TLS: the client says that kproxy showed …: check --client-tls-cert and`",
            "The client does not trust the CA of `--client-tls-cert`. Check its trust store "
            "(`ssl.truststore.location`, `ssl.ca.location`).",
            reason="`client-tls-refused`",
            fault=Fault.CERTIFICATE_UNTRUSTED,
        ),
        OwnMessage(
            "`TLS: the client closed the connection during the handshake; it may not trust the certificate of`",
            "The same. Or the certificate does not contain the name that the client uses for kproxy "
            "(`--advertise`, `localhost`).",
            reason="`client-tls-closed`",
            fault=Fault.CERTIFICATE_UNTRUSTED,
        ),
        OwnMessage(
            "`TLS: the client did not finish the handshake within … s`",
            "The client hangs, or is not a Kafka client.",
            reason="`client-tls-timeout`",
        ),
        OwnMessage(
            "`the client spoke HTTP; this is a Kafka port: …`",
            "A browser, a probe or a scraper uses the wrong port. Metrics and health are on the admin port, 19091.",
            reason="`client-speaks-http`",
            fault=Fault.CLIENT_NOT_KAFKA,
        ),
        OwnMessage(
            "`the client spoke SOCKS; this is a Kafka port, not a SOCKS proxy: …`",
            "kproxy is a bootstrap server, not a proxy server for the client. Remove `socksProxyHost` from the client.",
            reason="`client-speaks-socks`",
            fault=Fault.CLIENT_NOT_KAFKA,
        ),
        OwnMessage(
            "`the client sent a login, but kproxy itself logs in (--sasl): remove the credentials from the "
            "client (security.protocol=PLAINTEXT)`",
            "With `--sasl`, clients need no login.",
            reason="`client-logs-in`",
            fault=Fault.LOGIN_NOT_OFFERED,
        ),
        OwnMessage(
            "`the client spoke SSH; …`",
            "An SSH client uses the wrong port.",
            reason="`client-speaks-ssh`",
            fault=Fault.CLIENT_NOT_KAFKA,
        ),
        OwnMessage(
            "`the client spoke the PROXY protocol; turn it off in the load balancer in front of kproxy (send-proxy)`",
            "Change the load balancer as the message says.",
            reason="`client-speaks-proxy-protocol`",
            fault=Fault.CLIENT_NOT_KAFKA,
        ),
        OwnMessage(
            "`the broker's side spoke a TLS alert: its listener is SSL or SASL_SSL: use --tls`",
            "Use `--tls`.",
            reason="`upstream-speaks-tls-alert`",
            fault=Fault.PLAINTEXT_TO_TLS,
        ),
        OwnMessage(
            "`closed the connection before it answered the client's first request`",
            "The broker was stopping, or its log has the reason.",
            reason="`no-answer`",
            fault=Fault.CLOSED,
        ),
        OwnMessage(
            "`the broker's side spoke HTTP: the server is a web server or an HTTP proxy, not a Kafka broker: …`",
            "Check the address and the port.",
            reason="`upstream-speaks-http`",
            fault=Fault.NOT_KAFKA,
        ),
        OwnMessage(
            "`the client sent … version …; this kproxy supports versions … to …, as it announces in ApiVersions`",
            "The client is newer than this kproxy, and does not ask for the supported versions "
            "(`api.version.request=false`, `broker.version.fallback`). Let the client ask.",
            reason="`unknown-version`",
            fault=Fault.CLIENT_TOO_OLD,
        ),
        OwnMessage(
            "`the client sent a request with API key …, which kproxy does not forward`",
            "The sender is a broker or a controller, or a client that is newer than this kproxy.",
            reason="`unknown-api`",
        ),
        OwnMessage(
            "`request of … bytes; allowed are 10 to …`",
            "Raise `--max-request-size`, and `socket.request.max.bytes` in the broker.",
            reason="`request-too-large`",
            fault=Fault.FRAME_SIZE,
        ),
        OwnMessage(
            "`the broker answered with correlation id … instead of …`",
            "A device between kproxy and the broker mixes connections up. If not, this is a defect: please report it.",
            reason="`correlation-mismatch`",
        ),
        OwnMessage(
            "`the broker sent a response without a request`",
            "The same.",
            reason="`unsolicited-response`",
        ),
        OwnMessage(
            "`a … response of … bytes ends before its last field` and other reasons of the kind `malformed`",
            "The data is not the Kafka protocol, or the stream is damaged. If everything else works, please report it.",
            reason="`malformed`",
        ),
        OwnMessage(
            "`connections, the limit of --max-connections`, and `one was refused`",
            "A client leaks connections, or the limit is too low. `/readyz` reports this too.",
            reason="`too-many-connections`",
            fault=Fault.TOO_MANY_FILES,
        ),
        OwnMessage(
            "`kproxy has … connections, the limit with … open files: raise that limit (ulimit -n)`",
            "A client leaks connections, or the limit is too low: raise `ulimit -n`, or `LimitNOFILE=` in "
            "systemd. A connection needs two file descriptors.",
            reason="`too-many-connections`",
            fault=Fault.TOO_MANY_FILES,
        ),
        OwnMessage(
            "`the limit of connections is reached; kproxy closes silent and waiting connections to make room`",
            "Some program connects and sends nothing: a scanner, or a TCP probe that does not close the "
            "connection. Kafka clients send data immediately, so they can still connect.",
            reason="`silent`",
        ),
        OwnMessage(
            "`the cluster has … nodes, more than the range of ports: widen --node-ports`",
            "The cluster has over 1,000 more nodes than there are node ports. This is not a normal cluster, or "
            "`--node-ports` is far too small.",
            reason="`too-many-nodes`",
        ),
        OwnMessage(
            "`the cluster names … new nodes, and has named so many before that kproxy takes in no more for now`",
            "The brokers name other nodes each time. This is not a normal cluster. A cluster whose nodes are all replaced "
            "once, even a large one, is none of those.",
            reason="`too-many-new-nodes`",
        ),
        OwnMessage(
            "`kproxy already listens on … ports, the limit with … open files`",
            "Each node needs one file descriptor: raise the limit (`ulimit -n`, `LimitNOFILE=` in systemd). Half of the "
            "files are for listeners, and each cluster has an equal share of them. kproxy closes a connection instead of "
            "passing on a response that names a node without a port.",
            reason="`no-local-port`",
        ),
        OwnMessage(
            "`too many open files: kproxy refused a connection; …`",
            "Raise the limit: `ulimit -n`, or `LimitNOFILE=` in systemd.",
            fault=Fault.TOO_MANY_FILES,
        ),
    ),
)
