"""Messages about sessions that kproxy ends or refuses."""

from __future__ import annotations

from kproxy.base.faults import Fault
from kproxy.base.messages.message import Message, alike

CLIENT_SPEAKS_TLS = Message(
    "the client spoke TLS; kproxy expects plaintext there: set security.protocol to PLAINTEXT (or SASL_PLAINTEXT) in the client, or give kproxy a certificate with --client-tls-cert",
    "In the client, change `security.protocol=SSL` to `PLAINTEXT`, or `SASL_SSL` to `SASL_PLAINTEXT`. Or give kproxy "
    "a certificate: `--client-tls-cert`.",
    fault=Fault.TLS_TO_PLAINTEXT,
    reason="client-speaks-tls",
)
CLIENT_SPEAKS_TLS_ALERT = Message(
    "the client spoke a TLS alert; kproxy expects plaintext there: set security.protocol to PLAINTEXT in the client",
    "In the client, change `security.protocol=SSL` to `PLAINTEXT`, or `SASL_SSL` to `SASL_PLAINTEXT`.",
    fault=Fault.TLS_TO_PLAINTEXT,
    reason="client-speaks-tls-alert",
)
CLIENT_SPEAKS_PLAINTEXT = Message(
    "the client spoke plaintext; kproxy expects TLS there (--client-tls-cert): set security.protocol to SSL (or SASL_SSL) in the client",
    "Set `security.protocol` in the client as the message says, or remove `--client-tls-cert`.",
    fault=Fault.PLAINTEXT_TO_TLS,
    reason="client-speaks-plaintext",
)
CLIENT_CERTIFICATE_MISSING = Message(
    "TLS: the client showed no certificate, which --client-tls-ca requires: set ssl.keystore in the client",
    "Or remove `--client-tls-ca`.",
    fault=Fault.CLIENT_CERTIFICATE_MISSING,
    reason="client-tls-certificate",
)
CLIENT_CERTIFICATE_INVALID = Message(
    "TLS: the client's certificate is not valid: {error} (--client-tls-ca)",
    "The certificate has expired, or is from another CA than `--client-tls-ca`.",
    fault=Fault.CLIENT_CERTIFICATE_MISSING,
    reason="client-tls-certificate",
)
CLIENT_DISTRUSTS = Message(
    "TLS: the client says that kproxy showed {shown}: check --client-tls-cert and the client's trust store",
    "The client does not trust the CA of `--client-tls-cert`. Check its trust store (`ssl.truststore.location`, "
    "`ssl.ca.location`).",
    fault=Fault.CERTIFICATE_UNTRUSTED,
    reason="client-tls-refused",
)
CLIENT_CLOSED_HANDSHAKE = Message(
    "TLS: the client closed the connection during the handshake; it may not trust the certificate of --client-tls-cert, or not find its own name for kproxy in it",
    "The same. Or the certificate does not contain the name that the client uses for kproxy (`--advertise`, "
    "`localhost`).",
    fault=Fault.CERTIFICATE_UNTRUSTED,
    reason="client-tls-closed",
)
CLIENT_HANDSHAKE_TIMEOUT = Message(
    "TLS: the client did not finish the handshake within {seconds:g} s",
    "The client hangs, or is not a Kafka client.",
    reason="client-tls-timeout",
)
CLIENT_SPEAKS_HTTP = Message(
    "the client spoke HTTP; this is a Kafka port: give it to a Kafka client as bootstrap.servers (metrics and status are on the --admin port)",
    "A browser, a probe or a scraper uses the wrong port. Metrics and health are on the admin port, 19091.",
    fault=Fault.CLIENT_NOT_KAFKA,
    reason="client-speaks-http",
)
CLIENT_SPEAKS_SOCKS = Message(
    "the client spoke SOCKS; this is a Kafka port, not a SOCKS proxy: set it as bootstrap.servers and remove the proxy setting (socksProxyHost) from the client",
    "kproxy is a bootstrap server, not a proxy server for the client. Remove `socksProxyHost` from the client.",
    fault=Fault.CLIENT_NOT_KAFKA,
    reason="client-speaks-socks",
)
CLIENT_LOGS_IN = Message(
    "the client sent a login, but kproxy itself logs in (--sasl): remove the credentials from the client (security.protocol=PLAINTEXT)",
    "With `--sasl`, clients need no login.",
    fault=Fault.LOGIN_NOT_OFFERED,
    reason="client-logs-in",
)
CLIENT_SPEAKS_SSH = Message(
    "the client spoke SSH; this is a Kafka port: give it to a Kafka client as bootstrap.servers",
    "An SSH client uses the wrong port.",
    fault=Fault.CLIENT_NOT_KAFKA,
    reason="client-speaks-ssh",
)
CLIENT_SPEAKS_PROXY_PROTOCOL = Message(
    "the client spoke the PROXY protocol; turn it off in the load balancer in front of kproxy (send-proxy)",
    "Change the load balancer as the message says.",
    fault=Fault.CLIENT_NOT_KAFKA,
    reason="client-speaks-proxy-protocol",
)
UPSTREAM_SPEAKS_TLS_ALERT = Message(
    "the broker's side spoke a TLS alert: its listener is SSL or SASL_SSL: use --tls",
    "Use `--tls`.",
    fault=Fault.PLAINTEXT_TO_TLS,
    reason="upstream-speaks-tls-alert",
)
REQUEST_REFUSED = Message(
    "cluster {cluster}: refused {api}{what} of the client {client}: {reason}{allowed}",
    "The client wanted to change something that the access rules forbid: `--read-only`, or a rule in `rules`. The client "
    "got Kafka's error for it. If it may do that, add the group to `--allow-groups`, or an `allow` rule; `kproxy config "
    "check FILE FAMILY NAME` says which rule decides.",
    fault=Fault.NOT_AUTHORIZED,
)
ACCESS_API_REFUSED = Message(
    "the client sent a {api} request, an API between brokers: the access rules refuse it",
    "Clients do not use this API. Without `--read-only` and `rules`, kproxy passes it on.",
    reason="api-refused",
    fault=Fault.NOT_AUTHORIZED,
)
ACCESS_PRODUCE_WITHOUT_ACKS = Message(
    "the client sent a Produce request with acks=0 to topic {topic}, which gets no answer, so that kproxy closes the connection: {text}",
    "Nothing else shows a producer with acks=0 that its records are refused. Set `acks=1` or `acks=all` in it, so that it "
    "gets the error.",
    reason="produce-refused",
    fault=Fault.NOT_AUTHORIZED,
)
ACCESS_REQUEST_TOO_LARGE = Message(
    "the client sent a {api} request of {size} bytes that the access rules must judge; kproxy reads at most {most} bytes of one",
    "Split the request, for example into one for each topic. Or change the rules (`--read-only`, `rules`) so that they "
    "allow the whole family of the API.",
    reason="refused-request-too-large",
    fault=Fault.NOT_AUTHORIZED,
)
CLOSED_BEFORE_FIRST_ANSWER = Message(
    "{node} closed the connection before it answered the client's first request",
    "The broker was stopping, or its log has the reason.",
    fault=Fault.CLOSED,
    reason="no-answer",
)
UPSTREAM_SPEAKS_HTTP = Message(
    "the broker's side spoke HTTP: the server is a web server or an HTTP proxy, not a Kafka broker: check the address and port of --bootstrap-servers",
    "Check the address and the port.",
    fault=Fault.NOT_KAFKA,
    reason="upstream-speaks-http",
)
UPSTREAM_SPEAKS_SSH = Message(
    "the broker's side spoke SSH: the server is an SSH server, not a Kafka broker: check the address and port of --bootstrap-servers",
    "Check the address and the port.",
    fault=Fault.NOT_KAFKA,
    reason="upstream-speaks-ssh",
)
UPSTREAM_SPEAKS_SOCKS = Message(
    "the broker's side spoke SOCKS: the server is a SOCKS proxy, not a Kafka broker: check the address of --bootstrap-servers",
    "Check the address and the port.",
    fault=Fault.NOT_KAFKA,
    reason="upstream-speaks-socks",
)
UPSTREAM_SPEAKS_PROXY_PROTOCOL = Message(
    "the broker's side spoke the PROXY protocol, which no broker speaks: check the address of --bootstrap-servers",
    "Check the address and the port.",
    fault=Fault.NOT_KAFKA,
    reason="upstream-speaks-proxy-protocol",
)
UPSTREAM_SPEAKS_TLS = Message(
    "the broker's side spoke TLS without being asked; the server is not a Kafka broker: check the address and port of --bootstrap-servers",
    "Check the address and the port.",
    fault=Fault.NOT_KAFKA,
    reason="upstream-speaks-tls",
)
VERSION_UNKNOWN = Message(
    "the client sent {name} version {version}; this kproxy supports versions {oldest} to {newest}, as it announces in ApiVersions",
    "The client is newer than this kproxy, and does not ask for the supported versions (`api.version.request=false`, "
    "`broker.version.fallback`). Let the client ask.",
    fault=Fault.CLIENT_TOO_OLD,
    reason="unknown-version",
)
API_UNKNOWN = Message(
    "the client sent a request with API key {key}, which kproxy does not forward (it is for brokers only, or newer than this kproxy)",
    "The sender is a broker or a controller, or a client that is newer than this kproxy.",
    reason="unknown-api",
)
API_KEPT_FROM_CLIENTS = Message(
    "the broker offers the API with key {key}, which this kproxy does not know and keeps from clients, because its responses may have addresses: what needs this API fails through kproxy alone. Use a newer kproxy. The first client without it: {client}",
    "The broker is newer than this kproxy. The line comes once for each API, with the first client that asked for the "
    "versions; it need not be one that uses the API. A client that can do without the API does so, as with an older "
    "broker; Java's tools report `UnsupportedVersionException`.",
)
REQUEST_TOO_LARGE = Message(
    "the client sent a {api}request of {size} bytes; allowed are 10 to {max_request}{option}",
    "Raise `--max-request-size`, and `socket.request.max.bytes` in the broker.",
    fault=Fault.FRAME_SIZE,
    reason="request-too-large",
)
CORRELATION_MISMATCH = Message(
    "the broker answered with correlation id {correlation_id} instead of {expected}",
    "A device between kproxy and the broker mixes connections up. If not, this is a defect: please report it.",
    reason="correlation-mismatch",
)
UNSOLICITED_RESPONSE = Message(
    "the broker sent a response without a request",
    "The same.",
    reason="unsolicited-response",
)
RESPONSE_TOO_LARGE = Message(
    "{part} takes more than {kib} KiB",
    "kproxy keeps the part of a response before its last address, and for a while after a switch some responses that "
    "must be examined. This one has more bytes than kproxy keeps. The client connects again.",
    reason="response-too-large",
)
RESPONSE_TOO_SHORT = Message(
    "a {api} response of {size} bytes ends before its last field",
    "This and other messages with this reason: the data is not the Kafka protocol, or the stream is damaged. If "
    "everything else works, please report it.",
    reason="malformed",
)
CONNECTION_LIMIT, ONE_REFUSED = alike(
    "A client leaks connections, or the limit is too low. `/readyz` reports this too.",
    "cluster {name} has {most} connections, the limit of --max-connections",
    "{problem}: one was refused",
    fault=Fault.TOO_MANY_FILES,
    reason="too-many-connections",
)
DESCRIPTOR_LIMIT = Message(
    "kproxy has {in_use} connections, the limit with {files} open files: raise that limit (ulimit -n)",
    "A client leaks connections, or the limit is too low: raise `ulimit -n`, or `LimitNOFILE=` in systemd. A "
    "connection needs two file descriptors.",
    fault=Fault.TOO_MANY_FILES,
    reason="too-many-connections",
)
ROOM_FOR_CONNECTIONS = Message(
    "cluster {name}: the limit of connections is reached; kproxy closes silent and waiting connections to make room",
    "Some program connects and sends nothing: a scanner, or a TCP probe that does not close the connection. Kafka "
    "clients send data immediately, so they can still connect.",
    reason="silent",
)
TOO_MANY_NODES = Message(
    "the cluster has {nodes} nodes, more than the range of ports: widen --node-ports",
    "The cluster has over 1,000 more nodes than there are node ports. This is not a normal cluster, or "
    "`--node-ports` is far too small.",
    reason="too-many-nodes",
)
TOO_MANY_NEW_NODES = Message(
    "the cluster names {new} new nodes, and has named so many before that kproxy takes in no more for now",
    "The brokers name other nodes each time. This is not a normal cluster. A cluster whose nodes are all replaced "
    "once, even a large one, is none of those.",
    reason="too-many-new-nodes",
)
NO_LOCAL_PORT = Message(
    "kproxy already listens on {listening} ports, the limit with {files} open files: raise that limit (ulimit -n)",
    "Each node needs one file descriptor: raise the limit (`ulimit -n`, `LimitNOFILE=` in systemd). Half of the "
    "files are for listeners, and each cluster has an equal share of them. kproxy closes a connection instead of "
    "passing on a response that names a node without a port.",
    reason="no-local-port",
)
NO_FILE_FOR_CONNECTION = Message(
    "too many open files: kproxy refused a connection; raise the limit (ulimit -n) or --max-connections is too high for it",
    "Raise the limit: `ulimit -n`, or `LimitNOFILE=` in systemd.",
    fault=Fault.TOO_MANY_FILES,
)
