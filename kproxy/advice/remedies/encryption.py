"""Faults of TLS, except certificates."""

from __future__ import annotations

from kproxy.advice.remedies.network import DISCONNECTED_PYTHON, SARAMA_EOF
from kproxy.advice.remedies.remedy import Remedy, SharedText, program_messages
from kproxy.base.faults import Fault

TABLE: tuple[Remedy, ...] = (
    Remedy(
        Fault.TLS_TO_PLAINTEXT,
        "The client speaks TLS, and the listener does not",
        "The client begins a TLS handshake with a plaintext listener. The broker takes the first bytes of the "
        "handshake for the size of a message: 0x16030100 to 0x16030303 are 369295616 to 369296131. It closes the "
        "connection.",
        "`openssl s_client -connect HOST:PORT` gets no certificate. `kcat -b HOST:PORT -L` without TLS works.",
        "Set `security.protocol` of the client to `PLAINTEXT` or `SASL_PLAINTEXT`, or connect to the port of an SSL "
        "listener.",
        program_messages(
            java=(
                "SslAuthenticationException: SSL handshake failed",
                SharedText("javax.net.ssl.SSLException: Unsupported or unrecognized SSL message"),
                "failed authentication due to: SSL handshake failed",
                "Connection to node … terminated during authentication. This may happen due to any of the following",
            ),
            librdkafka=(
                "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?",
                "SSL handshake failed: …: connecting to a PLAINTEXT broker listener?",
                "SSL handshake failed: …wrong version number",
                "SSL handshake failed: …unexpected eof while reading",
                "SSL routines::unexpected eof while reading (after …ms in state SSL_HANDSHAKE)",
            ),
            kafka_python=(
                "Handshake failed: [SSL: UNEXPECTED_EOF_WHILE_READING]",
                "Handshake failed: [SSL: WRONG_VERSION_NUMBER]",
                "Handshake failed: …",
            ),
            aiokafka=(
                'Unable connect to "…": ',
                'Unable connect to "…": [SSL: WRONG_VERSION_NUMBER]',
                'Unable connect to "…": [SSL: UNEXPECTED_EOF_WHILE_READING]',
                'Unable connect to "…": SSL handshake is taking longer than',
            ),
            kafkajs=(
                "Connection error: Client network socket disconnected before secure TLS connection was established",
                "Connection error: …wrong version number",
            ),
            franz_go=(
                "unable to open connection to broker due to an immediate EOF, which often means the client is using "
                "TLS when the broker is not expecting it",
                "unable to dial: tls: first record does not look like a TLS handshake",
            ),
            sarama=(
                "Failed to send ApiVersionsRequest V… to …: tls: first record does not look like a TLS handshake",
                "Failed to send ApiVersionsRequest V… to …: EOF",
                *SARAMA_EOF,
            ),
            broker=(
                "Unexpected error from …; closing connection",
                "InvalidReceiveException: Invalid receive (size = 369295616 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 369296128 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 369296129 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 369295617 larger than …)",
            ),
        ),
    ),
    Remedy(
        Fault.PLAINTEXT_TO_TLS,
        "The listener speaks TLS, and the client does not",
        "The client speaks plaintext to a TLS listener. The listener answers with a TLS alert and closes the "
        "connection. The client takes the alert for the size of a message: 0x15030300 is 352518912, about 350 MB.",
        "`openssl s_client -connect HOST:PORT` shows a certificate.",
        "Set `security.protocol` of the client to `SSL` or `SASL_SSL`, and its trust store, or connect to the port of "
        "a plaintext listener.",
        program_messages(
            java=(
                "java.lang.OutOfMemoryError: Java heap space … at org.apache.kafka.common.network.NetworkReceive.readFrom",
                "The AdminClient thread has exited.",
                "InvalidReceiveException: Invalid receive (size = 352518912 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 352518400 larger than …)",
                "Bootstrap broker … disconnected",
            ),
            librdkafka=(
                "Receive failed: Invalid response size 352518912 (0..…): increase receive.message.max.bytes",
                "Receive failed: Invalid response size 352518400 (0..…): increase receive.message.max.bytes",
                "Disconnected: connection closed by peer: receive 0 after POLLIN (after …ms in state APIVERSION_QUERY)",
                "Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol configuration",
                "verify that security.protocol is correctly configured, broker might require SSL encryption",
            ),
            kafka_python=DISCONNECTED_PYTHON,
            aiokafka=("Connection at … closed", "Connection at … broken"),
            kafkajs=("KafkaJSConnectionClosedError: Closed connection", "Connection closed by the server"),
            franz_go=(
                "the first three bytes received appear to be a tls alert record for …; is this a plaintext connection "
                "speaking to a tls endpoint?",
                "read from broker received EOF during api versions discovery, which often happens when the broker "
                "requires TLS and the client is not using it",
            ),
            sarama=(
                "Failed to read ApiVersionsResponse V… header from …: unexpected EOF",
                *SARAMA_EOF,
                "kafka: error decoding packet: message of length 352518912 too large or too small",
                "kafka: error decoding packet: message of length 352518400 too large or too small",
            ),
            broker=(
                "Failed authentication with … (SSL handshake failed)",
                SharedText("javax.net.ssl.SSLException: Unsupported or unrecognized SSL message"),
            ),
        ),
    ),
    Remedy(
        Fault.TLS_VERSION,
        "The two sides have no TLS version or cipher suite in common",
        "The client and the broker speak TLS, but neither accepts a version or a cipher suite of the other.",
        "`openssl s_client -connect HOST:PORT -tls1_2` and `-tls1_3` show which versions the broker accepts.",
        "Compare `ssl.enabled.protocols` and `ssl.cipher.suites` of both sides. Upgrade a Java before 8u261, which has no "
        "TLS 1.3.",
        program_messages(
            java=(
                SharedText("javax.net.ssl.SSLHandshakeException: Received fatal alert: protocol_version"),
                SharedText(
                    "javax.net.ssl.SSLHandshakeException: No appropriate protocol (protocol is disabled or cipher suites are"
                ),
                SharedText(
                    "javax.net.ssl.SSLHandshakeException: The client supported protocol versions … are not accepted by"
                ),
                SharedText("javax.net.ssl.SSLHandshakeException: no cipher suites in common"),
            ),
            librdkafka=(
                "SSL handshake failed: …alert protocol version",
                "SSL handshake failed: …unsupported protocol",
                "SSL handshake failed: …no protocols available",
            ),
            kafka_python=("[SSL: TLSV1_ALERT_PROTOCOL_VERSION]", "[SSL: UNSUPPORTED_PROTOCOL]"),
            kafkajs=("Connection error: …alert protocol version", "Connection error: …unsupported protocol"),
            franz_go=("remote error: tls: protocol version not supported",),
            broker=(SharedText("javax.net.ssl.SSLHandshakeException: no cipher suites in common"),),
        ),
    ),
    Remedy(
        Fault.TLS_FAILED,
        "The TLS handshake fails",
        "The handshake fails for a reason that the client does not name.",
        "The broker's log has a line `Failed authentication with …`, and `openssl s_client -connect HOST:PORT` shows "
        "where the handshake ends.",
        "Compare the client's trust store, certificate, TLS versions and cipher suites with the broker's.",
        program_messages(
            java=(
                "SslAuthenticationException: SSL handshake failed",
                "failed authentication due to: SSL handshake failed",
                "SslAuthenticationException: Failed to process post-handshake messages",
            ),
            librdkafka=("SSL handshake failed: …", "Local: SSL error"),
            kafka_python=("Handshake failed: …",),
            aiokafka=('Unable connect to "…": [SSL: …',),
            sarama=(
                "Failed to send ApiVersionsRequest V… to …: remote error: tls: …",
                "Failed to send ApiVersionsRequest V… to …: tls: …",
            ),
            broker=("Failed authentication with … (SSL handshake failed)",),
        ),
    ),
)
