"""Faults of TLS."""

from __future__ import annotations

from kproxy.remedies.faults import Fault
from kproxy.remedies.remedy import Remedy, Shared, said

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
        said(
            java=(
                "SslAuthenticationException: SSL handshake failed",
                Shared("javax.net.ssl.SSLException: Unsupported or unrecognized SSL message"),
                "failed authentication due to: SSL handshake failed",
                "Connection to node … terminated during authentication. This may happen due to any of the following",
            ),
            librdkafka=(
                "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?",
                "SSL handshake failed: …: connecting to a PLAINTEXT broker listener?",
                "SSL handshake failed: …wrong version number",
                "SSL handshake failed: …unexpected eof while reading",
            ),
            kafka_python=(
                "Handshake failed: [SSL: UNEXPECTED_EOF_WHILE_READING]",
                "Handshake failed: [SSL: WRONG_VERSION_NUMBER]",
                "Handshake failed: …",
            ),
            aiokafka=(
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
                "Failed to connect to broker …: tls: first record does not look like a TLS handshake",
                "Failed to connect to broker …: EOF",
            ),
            broker=(
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
        said(
            java=(
                "OutOfMemoryError: Java heap space …NetworkReceive",
                "InvalidReceiveException: Invalid receive (size = 352518912 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 352518400 larger than …)",
                "Uncaught exception in thread 'kafka-admin-client-thread",
                "Connection to node … terminated during authentication. This may happen due to any of the following",
                "Bootstrap broker … disconnected",
            ),
            librdkafka=(
                "Receive failed: Invalid response size 352518912 (0..…): increase receive.message.max.bytes",
                "Receive failed: Invalid response size 352518400 (0..…): increase receive.message.max.bytes",
                "Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol configuration",
                "verify that security.protocol is correctly configured, broker might require SSL encryption",
            ),
            kafka_python=("KafkaConnectionError: socket disconnected", "socket disconnected"),
            aiokafka=("Connection at … broken",),
            kafkajs=("KafkaJSConnectionClosedError: Closed connection", "Connection closed by the server"),
            franz_go=(
                "the first three bytes received appear to be a tls alert record for …; is this a plaintext connection "
                "speaking to a tls endpoint?",
                "read from broker received EOF during api versions discovery, which often happens when the broker "
                "requires TLS and the client is not using it",
            ),
            sarama=(
                "kafka: error decoding packet: message of length 352518912 too large or too small",
                "kafka: error decoding packet: message of length 352518400 too large or too small",
            ),
            broker=(
                "Failed authentication with … (channelId=…) (SSL handshake failed)",
                Shared("javax.net.ssl.SSLException: Unsupported or unrecognized SSL message"),
            ),
        ),
    ),
    Remedy(
        Fault.CERTIFICATE_NAME,
        "The certificate is for another name",
        "The broker's certificate does not contain the name or address to which the client has connected. Such a name "
        "is often an advertised address, an IP address, or `localhost` of a port-forward.",
        "`openssl s_client -connect HOST:PORT | openssl x509 -noout -ext subjectAltName` shows the names.",
        "Connect to a name in the certificate, or issue a certificate with all names that clients use. kproxy expects "
        "the advertised name, whichever address it dials (`--tls`, `--tls-server-name`). To turn the check off "
        "(`ssl.endpoint.identification.algorithm=`) also turns off the protection against impostors.",
        said(
            java=(
                Shared("java.security.cert.CertificateException: No subject alternative DNS name matching … found"),
                Shared(
                    "java.security.cert.CertificateException: No subject alternative names matching IP address … found"
                ),
                Shared("java.security.cert.CertificateException: No name matching … found"),
                Shared("java.security.cert.CertificateException: No subject alternative names present"),
            ),
            librdkafka=(
                "SSL handshake failed: …hostname mismatch",
                "SSL handshake failed: …IP address mismatch",
                "broker certificate could not be verified…hostname mismatch",
            ),
            kafka_python=(
                "certificate verify failed: Hostname mismatch, certificate is not valid for '…'",
                "certificate verify failed: IP address mismatch, certificate is not valid for '…'",
            ),
            aiokafka=(
                'Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch',
                'Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: IP address mismatch',
            ),
            kafkajs=("Connection error: Hostname/IP does not match certificate's altnames",),
            franz_go=(
                "unable to dial: tls: failed to verify certificate: x509: certificate is valid for …, not …",
                "unable to dial: tls: failed to verify certificate: x509: cannot validate certificate for … because",
            ),
            sarama=(
                "Failed to connect to broker …: tls: failed to verify certificate: x509: certificate is valid for …, not …",
                "Failed to connect to broker …: tls: failed to verify certificate: x509: cannot validate certificate for",
            ),
        ),
    ),
    Remedy(
        Fault.CERTIFICATE_EXPIRED,
        "A certificate has expired",
        "The broker's or the client's certificate, or a CA certificate above it, has expired. Or the clock of one "
        "machine is wrong.",
        "`openssl s_client -connect HOST:PORT | openssl x509 -noout -dates` shows the dates. `date -u` shows the clock.",
        "Renew the certificate, and let the broker or the client load it. Correct the clock.",
        said(
            java=(
                Shared("java.security.cert.CertificateExpiredException: NotAfter: …"),
                Shared("javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_expired"),
            ),
            librdkafka=(
                "SSL handshake failed: …certificate has expired",
                "SSL handshake failed: …alert certificate expired",
            ),
            kafka_python=("certificate verify failed: certificate has expired",),
            aiokafka=(
                'Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired',
            ),
            kafkajs=("Connection error: certificate has expired",),
            franz_go=("x509: certificate has expired or is not yet valid",),
            sarama=("Failed to connect to broker …: tls: failed to verify certificate: x509: certificate has expired",),
        ),
    ),
    Remedy(
        Fault.CERTIFICATE_NOT_YET_VALID,
        "A certificate is not valid yet",
        "The certificate begins to be valid in the future. Mostly the clock of one machine is wrong.",
        "Compare `date -u` on both machines with `openssl s_client -connect HOST:PORT | openssl x509 -noout -dates`.",
        "Correct the clock.",
        said(
            java=(Shared("java.security.cert.CertificateNotYetValidException: NotBefore: …"),),
            librdkafka=("SSL handshake failed: …certificate is not yet valid",),
            kafka_python=("certificate verify failed: certificate is not yet valid",),
            aiokafka=(
                'Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet',
            ),
            kafkajs=("Connection error: certificate is not yet valid",),
            sarama=("Failed to connect to broker …: tls: failed to verify certificate: x509: …is before …",),
        ),
    ),
    Remedy(
        Fault.CERTIFICATE_UNTRUSTED,
        "The client does not trust the certificate's CA",
        "The broker's certificate is self-signed or from a CA of the company, and the client's trust store does not "
        "contain this CA. Or the broker does not send an intermediate certificate.",
        "`openssl s_client -connect HOST:PORT -CAfile ca.pem` says `Verify return code: 0` if `ca.pem` is the right CA.",
        "Give the client the CA: `ssl.truststore.location` (Java), `ssl.ca.location` (librdkafka), `ssl_cafile` "
        "(kafka-python). With kproxy: `--tls-ca`.",
        said(
            java=(
                Shared(
                    "sun.security.provider.certpath.SunCertPathBuilderException: unable to find valid certification path to"
                ),
                Shared("PKIX path building failed"),
                Shared("PKIX path validation failed: …Path does not chain with any of the trust anchors"),
            ),
            librdkafka=(
                "SSL handshake failed: …broker certificate could not be verified, verify that ssl.ca.location is correctly",
                "SSL handshake failed: …certificate verify failed",
            ),
            kafka_python=(
                "certificate verify failed: self-signed certificate in certificate chain",
                "certificate verify failed: self-signed certificate",
                "certificate verify failed: self signed certificate",
                "certificate verify failed: unable to get local issuer certificate",
            ),
            aiokafka=(
                'Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate',
                'Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer',
            ),
            kafkajs=(
                "Connection error: self-signed certificate",
                "Connection error: self signed certificate",
                "Connection error: unable to verify the first certificate",
                "Connection error: unable to get local issuer certificate",
            ),
            franz_go=(
                "unable to dial: tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
            sarama=(
                "Failed to connect to broker …: tls: failed to verify certificate: x509: certificate signed by unknown",
            ),
            broker=(
                "Failed authentication with … (SSL handshake failed)",
                Shared("javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_unknown"),
            ),
        ),
    ),
    Remedy(
        Fault.CLIENT_CERTIFICATE_MISSING,
        "The broker requires a client certificate",
        "The listener has `ssl.client.auth=required`, and the client has shown no certificate.",
        "`openssl s_client -connect HOST:PORT` lists `Acceptable client certificate CA names`, and ends with an alert.",
        "Give the client a certificate: `ssl.keystore.location` (Java), `ssl.certificate.location` and "
        "`ssl.key.location` (librdkafka), `ssl_certfile` and `ssl_keyfile` (kafka-python). With kproxy: `--tls-cert`.",
        said(
            java=(
                Shared("javax.net.ssl.SSLHandshakeException: Received fatal alert: bad_certificate"),
                Shared("javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_required"),
            ),
            librdkafka=(
                "SSL handshake failed: …alert bad certificate",
                "…alert certificate required: SSL alert number 116",
                "Receive failed: …certificate required",
                "Receive failed: …bad certificate",
            ),
            kafka_python=("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED]", "[SSL: SSLV3_ALERT_BAD_CERTIFICATE]"),
            kafkajs=("Connection error: …alert bad certificate", "Connection error: …alert certificate required"),
            franz_go=("remote error: tls: certificate required", "remote error: tls: bad certificate"),
            broker=(Shared("javax.net.ssl.SSLHandshakeException: Empty client certificate chain"),),
        ),
    ),
    Remedy(
        Fault.CLIENT_CERTIFICATE_REFUSED,
        "The broker refuses the client's certificate",
        "The broker does not accept the certificate that the client shows: it is from a CA that the broker does not "
        "trust, has expired, or is not for clients.",
        "The broker's log has the reason beside `Failed authentication with`.",
        "Use a certificate from a CA in the broker's `ssl.truststore.location`, or add the CA there.",
        said(
            java=(
                Shared("javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_unknown"),
                Shared("javax.net.ssl.SSLHandshakeException: Received fatal alert: unknown_ca"),
            ),
            librdkafka=(
                "SSL handshake failed: …alert unknown ca",
                "SSL handshake failed: …alert certificate unknown",
                "Receive failed: …alert certificate unknown",
                "Receive failed: …alert unknown ca",
            ),
            kafka_python=("[SSL: SSLV3_ALERT_CERTIFICATE_UNKNOWN]", "[SSL: TLSV1_ALERT_UNKNOWN_CA]"),
            kafkajs=("Connection error: …alert certificate unknown", "Connection error: …alert unknown ca"),
            franz_go=("remote error: tls: unknown certificate",),
            broker=(Shared("PKIX path building failed"),),
        ),
    ),
    Remedy(
        Fault.TLS_VERSION,
        "The two sides have no TLS version or cipher suite in common",
        "The client and the broker speak TLS, but neither accepts a version or a cipher suite of the other.",
        "`openssl s_client -connect HOST:PORT -tls1_2` and `-tls1_3` show which versions the broker accepts.",
        "Compare `ssl.enabled.protocols` and `ssl.cipher.suites` of both sides. Upgrade a Java before 8u261, which has no "
        "TLS 1.3.",
        said(
            java=(
                Shared("javax.net.ssl.SSLHandshakeException: Received fatal alert: protocol_version"),
                Shared(
                    "javax.net.ssl.SSLHandshakeException: No appropriate protocol (protocol is disabled or cipher suites are"
                ),
                Shared(
                    "javax.net.ssl.SSLHandshakeException: The client supported protocol versions … are not accepted by"
                ),
                Shared("javax.net.ssl.SSLHandshakeException: no cipher suites in common"),
            ),
            librdkafka=(
                "SSL handshake failed: …alert protocol version",
                "SSL handshake failed: …unsupported protocol",
                "SSL handshake failed: …no protocols available",
            ),
            kafka_python=("[SSL: TLSV1_ALERT_PROTOCOL_VERSION]", "[SSL: UNSUPPORTED_PROTOCOL]"),
            kafkajs=("Connection error: …alert protocol version", "Connection error: …unsupported protocol"),
            franz_go=("remote error: tls: protocol version not supported",),
            broker=(Shared("javax.net.ssl.SSLHandshakeException: no cipher suites in common"),),
        ),
    ),
    Remedy(
        Fault.TLS_FAILED,
        "The TLS handshake fails",
        "The handshake fails for a reason that the client does not name.",
        "The broker's log has a line `Failed authentication with …`, and `openssl s_client -connect HOST:PORT` shows "
        "where the handshake ends.",
        "Compare the client's trust store, certificate, TLS versions and cipher suites with the broker's.",
        said(
            java=(
                "SslAuthenticationException: SSL handshake failed",
                "failed authentication due to: SSL handshake failed",
                "SslAuthenticationException: Failed to process post-handshake messages",
            ),
            librdkafka=("SSL handshake failed: …", "Local: SSL error"),
            kafka_python=("Handshake failed: …",),
            aiokafka=('Unable connect to "…": [SSL: …',),
            sarama=("Failed to connect to broker …: remote error: tls: …", "Failed to connect to broker …: tls: …"),
            broker=("Failed authentication with … (SSL handshake failed)",),
        ),
    ),
)
