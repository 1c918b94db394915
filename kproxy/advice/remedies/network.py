"""Faults of the network between the client and an address."""

from __future__ import annotations

from kproxy.advice.remedies.advertised import (
    NOT_ESTABLISHED,
    OLD_NOT_ESTABLISHED,
    UNREACHED_AIOKAFKA,
    UNREACHED_JAVA,
    UNREACHED_PYTHON,
    UNREACHED_SARAMA,
    UNREACHED_SPARK,
)
from kproxy.advice.remedies.remedy import Remedy, SharedText, program_messages
from kproxy.base.faults import Fault

# kafka-python's messages when a connection ends, even if the broker has just sent the reason.
DISCONNECTED_PYTHON = ("KafkaConnectionError: socket disconnected", "socket disconnected")

# Sarama's messages when a connection ends, whatever the reason.
SARAMA_EOF = (
    *UNREACHED_SARAMA,
    "kafka: client has run out of available brokers to talk to: EOF",
    "client/metadata got error from broker … while fetching metadata: EOF",
    "client/metadata got error from broker … while fetching metadata: unexpected EOF",
)

TABLE: tuple[Remedy, ...] = (
    Remedy(
        Fault.PORT_CLOSED,
        "Nothing listens on the port",
        "The machine is up and refuses the connection, because nothing listens on that port there. The broker is down "
        "or listens on another port or interface, a port-forward has ended, or the name means the wrong machine.",
        "`nc -vz HOST PORT` from the client's machine says `Connection refused`. On the broker, `ss -ltn` shows where "
        "it listens.",
        "Start the broker or the port-forward. If the address is a broker's advertised address and not what you "
        "connect to otherwise, run kproxy: it dials the reachable address instead. Inside a container, 127.0.0.1 is "
        "the container itself.",
        program_messages(
            java=(
                NOT_ESTABLISHED,
                OLD_NOT_ESTABLISHED,
                *UNREACHED_JAVA,
                SharedText("java.net.ConnectException: Connection refused"),
            ),
            spark=UNREACHED_SPARK,
            librdkafka=("Connect to … failed: Connection refused", "…/… brokers are down"),
            kafka_python=(
                "unable to connect: [Errno 111] Connection refused",
                "KafkaConnectionError: 111 ECONNREFUSED",
                "KafkaConnectionError: 61 ECONNREFUSED",
                "unable to connect: [Errno 61] Connection refused",
                *UNREACHED_PYTHON,
            ),
            aiokafka=(
                *UNREACHED_AIOKAFKA,
                'Unable connect to "…": [Errno 111] Connect call failed (…)',
                "Unable connect to node with id …: [Errno 111] Connect call failed (…)",
                "Unable connect to node with id …: Multiple exceptions: [Errno 111] Connect call failed (…)",
                'Unable connect to "…": Multiple exceptions: [Errno 111] Connect call failed (…)',
            ),
            kafkajs=("Connection error: connect ECONNREFUSED …", "Failed to connect: connect ECONNREFUSED …"),
            franz_go=(
                "unable to open connection to broker; addr: …, err: dial tcp …: connect: connection refused",
                "unable to dial: dial tcp …: connect: connection refused",
            ),
            sarama=(
                "Failed to connect to broker …: dial tcp …: connect: connection refused",
                "kafka: client has run out of available brokers to talk to: dial tcp …: connect: connection refused",
                *UNREACHED_SARAMA,
            ),
        ),
    ),
    Remedy(
        Fault.FILTERED,
        "The address does not answer",
        "Nothing answers at this address, not even with a refusal. A firewall or security group drops the packets, the "
        "VPN is off, or the host is down. It is typical of a private advertised address.",
        "`nc -vz -w 5 HOST PORT` from the client's machine ends with a timeout.",
        "Connect the VPN, or open the port in the firewall. Or run kproxy with addresses that the client's machine can "
        "reach (`--map`), or along a machine that reaches the brokers (`--via`).",
        program_messages(
            java=(
                "Disconnecting from node … due to socket connection setup timeout. The timeout value is … ms.",
                *UNREACHED_JAVA,
            ),
            spark=UNREACHED_SPARK,
            librdkafka=(
                "Connection setup timed out in state CONNECT",
                "Connect to … failed: Connection timed out",
                "Connect to … failed: Operation timed out",
            ),
            kafka_python=("KafkaConnectionError: Connection timed out", *UNREACHED_PYTHON),
            aiokafka=(
                *UNREACHED_AIOKAFKA,
                'Unable connect to "…": ',
                'Unable connect to "…": [Errno 110] Connect call failed (…)',
                "Unable connect to node with id …: [Errno 110] Connect call failed (…)",
            ),
            kafkajs=(
                "Connection error: connect ETIMEDOUT …",
                "Failed to connect: Connection timeout",
                "KafkaJSConnectionError: Connection timeout",
            ),
            franz_go=(
                "unable to open connection to broker; addr: …, err: dial tcp …: i/o timeout",
                "unable to dial: dial tcp …: i/o timeout",
            ),
            sarama=(
                "Failed to connect to broker …: dial tcp …: i/o timeout",
                "kafka: client has run out of available brokers to talk to: dial tcp …: i/o timeout",
                *UNREACHED_SARAMA,
            ),
        ),
    ),
    Remedy(
        Fault.NO_ROUTE,
        "There is no route to the address",
        "The client's machine or a router has no route to this address: the VPN or the network is down, or the address "
        "is IPv6 and the machine has no IPv6. Some firewalls answer like this too.",
        "`ip route get ADDRESS` on the client's machine shows no route, or `ping` says `Destination unreachable`.",
        "Connect the VPN, or correct the routes or the firewall. Or run kproxy along a machine that has a route "
        "(`--via`).",
        program_messages(
            java=(
                NOT_ESTABLISHED,
                OLD_NOT_ESTABLISHED,
                SharedText("java.net.NoRouteToHostException: No route to host"),
                SharedText("java.net.ConnectException: Network is unreachable"),
            ),
            librdkafka=(
                "Connect to … failed: No route to host",
                "Connect to … failed: Network is unreachable",
                "Connect to … failed: Host is unreachable",
            ),
            kafka_python=(
                "unable to connect: [Errno 113] No route to host",
                "unable to connect: [Errno 101] Network is unreachable",
                "KafkaConnectionError: 113 EHOSTUNREACH",
                "KafkaConnectionError: 101 ENETUNREACH",
            ),
            aiokafka=(
                "Unable connect to node with id …: [Errno 113] Connect call failed (…)",
                'Unable connect to "…": [Errno 113] Connect call failed (…)',
                "Unable connect to node with id …: [Errno 101] Connect call failed (…)",
                'Unable connect to "…": [Errno 101] Connect call failed (…)',
            ),
            kafkajs=("Connection error: connect EHOSTUNREACH …", "Connection error: connect ENETUNREACH …"),
            franz_go=(
                "unable to open connection to broker; addr: …, err: dial tcp …: connect: no route to host",
                "unable to dial: dial tcp …: connect: no route to host",
                "unable to dial: dial tcp …: connect: network is unreachable",
            ),
            sarama=(
                "Failed to connect to broker …: dial tcp …: connect: no route to host",
                "Failed to connect to broker …: dial tcp …: connect: network is unreachable",
            ),
        ),
    ),
    Remedy(
        Fault.IPV6_ONLY,
        "The address is IPv6, and the client uses IPv4 only, or the reverse",
        "The name has addresses of one family only, and the client or its network uses the other.",
        "`getent ahosts NAME` shows which families the name has. The client's setting is `broker.address.family` "
        "(librdkafka), or `java.net.preferIPv4Stack` (Java).",
        "Let the client use both families, give the name an address of the other family, or run kproxy on a machine "
        "that has both.",
        program_messages(
            java=(SharedText("java.net.SocketException: Protocol family unavailable"),),
            librdkafka=(
                "Connect to ipv6#… failed: Network is unreachable",
                "Connect to ipv6#… failed: Cannot assign requested address",
                "Failed to resolve '…': Address family for hostname not supported",
            ),
            kafka_python=("DNS lookup failed for …Address family for hostname not supported",),
        ),
    ),
    Remedy(
        Fault.SILENT,
        "The server accepts the connection and answers nothing",
        "Something accepts the connection and then sends nothing: a port-forward or load balancer whose target is "
        "down, a broker that hangs, or a server of another kind that waits for another protocol.",
        "`kcat -b HOST:PORT -L -d broker` connects and then waits. `nc HOST PORT` stays open.",
        "Check what is behind the address: the target of the port-forward, the health of the broker, the port.",
        program_messages(
            java=(
                "Disconnecting from node … due to request timeout.",
                "Cancelled in-flight API_VERSIONS request with correlation id …",
                *UNREACHED_JAVA[1:],
            ),
            librdkafka=(
                "ApiVersionRequest failed: Local: Timed out",
                "Connection setup timed out in state APIVERSION_QUERY",
                "Connection setup timed out in state SSL_HANDSHAKE",
                "… request(s) timed out: disconnect",
            ),
            kafka_python=("Timeout during ApiVersions check", "Request timed out after … ms", *UNREACHED_PYTHON),
            aiokafka=(*UNREACHED_AIOKAFKA, 'Unable connect to "…": ', "RequestTimedOutError"),
            kafkajs=("Request … timed out",),
            sarama=("Error while sending ApiVersionsRequest …: read tcp …: i/o timeout",),
        ),
    ),
    Remedy(
        Fault.CLOSED,
        "The server closes the connection without an answer",
        "Something accepts the connection and closes it before it answers. Often only one side uses TLS or SASL. Other "
        "reasons: the broker is stopping, the load balancer has no healthy target, or the server is not Kafka.",
        "The broker's log has a line for the connection, such as `Invalid receive` or `Failed authentication`. If it "
        "has none, the connection did not reach a broker.",
        "Compare the client's `security.protocol` with the listener's protocol in "
        "`listener.security.protocol.map` of the broker.",
        program_messages(
            java=(
                "Connection to node … terminated during authentication. This may happen due to any of the following",
                "Bootstrap broker … disconnected",
                "Cancelled in-flight API_VERSIONS request with correlation id … due to node … being disconnected",
                SharedText("java.io.EOFException"),
                SharedText("java.io.IOException: Connection reset by peer"),
                *UNREACHED_JAVA[1:],
            ),
            librdkafka=(
                "Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol configuration",
                "Disconnected: connection closed by peer: receive 0 after POLLIN (after …ms in state APIVERSION_QUERY)",
                "Disconnected: connection closed by peer",
                "Disconnected (after …ms in state APIVERSION_QUERY",
                "Receive failed: Connection reset by peer",
                "Local: Broker transport failure",
                "Disconnected (after …",
            ),
            kafka_python=(*DISCONNECTED_PYTHON, *UNREACHED_PYTHON),
            aiokafka=(*UNREACHED_AIOKAFKA, "Connection at … closed", "Connection at … broken"),
            kafkajs=("KafkaJSConnectionClosedError: Closed connection", "Connection closed by the server"),
            franz_go=("the broker connection has died",),
            sarama=(
                *SARAMA_EOF,
                "Error while sending ApiVersionsRequest …: EOF",
            ),
        ),
    ),
    Remedy(
        Fault.HOP_FAILED,
        "A proxy or SSH server on the path fails",
        "The proxy or SSH server through which the client connects cannot be reached, does not accept the login, or "
        "does not connect to the broker.",
        "Connect through the same hop by hand: `curl -x PROXY telnet://HOST:PORT`, `ssh -W HOST:PORT SERVER`.",
        "Correct the hop's address or login, or let the hop's rules allow the brokers' addresses and ports.",
        program_messages(
            java=(SharedText("java.net.SocketException: SOCKS: …"), SharedText("Can't connect to SOCKS proxy:…")),
            librdkafka=(),
            kafka_python=("Unable to connect to proxy", "proxy_url requires scheme://"),
        ),
    ),
    Remedy(
        Fault.KPROXY_NEEDED,
        "Only kproxy reaches the brokers",
        "A Kafka client connects to brokers by itself, at the addresses that they advertise. It uses no SSH server, no "
        "Kubernetes API server and no map, and Java's and librdkafka's clients use no proxy either.",
        "`nc -vz HOST PORT` on the client's machine, for each advertised address.",
        "Let kproxy run for as long as clients need it: `kproxy up` runs it in the background. Or let the client's machine "
        "reach the brokers: a VPN, a route, a firewall rule, their names in DNS.",
        (),
    ),
    Remedy(
        Fault.PROXY_LOOP,
        "The address leads back to kproxy",
        "The cluster advertises the address on which kproxy itself listens, for example `localhost:9092`. A connection "
        "to it would come back to kproxy.",
        "Compare `kcat -b BOOTSTRAP -L`, without kproxy, with `--listen`.",
        "Set the broker's real address with `--map`, or another address with `--listen`.",
        (),
    ),
    Remedy(
        Fault.TOO_MANY_FILES,
        "The process has too many open files",
        "Each connection and each log segment needs a file descriptor, and the process has reached its limit.",
        "`ls /proc/PID/fd | wc -l` is near the limit in `/proc/PID/limits`.",
        "Raise the limit (`ulimit -n`, `LimitNOFILE=` in systemd), or find the program that opens so many connections: often "
        "it creates a new client again and again instead of reusing one.",
        program_messages(
            java=(
                SharedText("java.net.SocketException: Too many open files"),
                SharedText("java.io.IOException: Too many open files"),
            ),
            librdkafka=("Failed to create socket: Too many open files",),
            kafka_python=(SharedText("[Errno 24] Too many open files"),),
            broker=("Error while accepting connection (kafka.network.Acceptor)",),
        ),
    ),
)
