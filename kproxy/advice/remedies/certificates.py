"""Faults of certificates."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import Remedy, SharedText, program_messages
from kproxy.base.faults import Fault

TABLE: tuple[Remedy, ...] = (
    Remedy(
        Fault.CERTIFICATE_NAME,
        "The certificate is for another name",
        "The broker's certificate does not contain the name or address to which the client has connected. Such a name "
        "is often an advertised address, an IP address, or `localhost` of a port-forward.",
        "`openssl s_client -connect HOST:PORT | openssl x509 -noout -ext subjectAltName` shows the names.",
        "Connect to a name in the certificate, or issue a certificate with all names that clients use. kproxy expects "
        "the advertised name, whichever address it dials (`--tls`, `--tls-server-name`). To turn the check off "
        "(`ssl.endpoint.identification.algorithm=`) also turns off the protection against impostors.",
        program_messages(
            java=(
                SharedText("java.security.cert.CertificateException: No subject alternative DNS name matching … found"),
                SharedText(
                    "java.security.cert.CertificateException: No subject alternative names matching IP address … found"
                ),
                SharedText("java.security.cert.CertificateException: No name matching … found"),
                SharedText("java.security.cert.CertificateException: No subject alternative names present"),
            ),
            librdkafka=(
                "SSL handshake failed: …hostname mismatch",
                "SSL handshake failed: …IP address mismatch",
                "SSL handshake failed: …broker certificate could not be verified, verify that ssl.ca.location is correctly",
                "SSL routines::certificate verify failed (after …ms in state SSL_HANDSHAKE)",
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
                "Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: certificate is valid for …, not …",
                "Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: cannot validate certificate for",
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
        program_messages(
            java=(
                SharedText("java.security.cert.CertificateExpiredException: NotAfter: …"),
                SharedText("javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_expired"),
            ),
            librdkafka=(
                "SSL handshake failed: …certificate has expired",
                "SSL handshake failed: …broker certificate could not be verified, verify that ssl.ca.location is correctly",
                "SSL routines::certificate verify failed (after …ms in state SSL_HANDSHAKE)",
                "SSL handshake failed: …alert certificate expired",
            ),
            kafka_python=("certificate verify failed: certificate has expired",),
            aiokafka=(
                'Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired',
            ),
            kafkajs=("Connection error: certificate has expired",),
            franz_go=("x509: certificate has expired or is not yet valid",),
            sarama=(
                "Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: certificate has expired",
            ),
        ),
    ),
    Remedy(
        Fault.CERTIFICATE_NOT_YET_VALID,
        "A certificate is not valid yet",
        "The certificate begins to be valid in the future. Mostly the clock of one machine is wrong.",
        "Compare `date -u` on both machines with `openssl s_client -connect HOST:PORT | openssl x509 -noout -dates`.",
        "Correct the clock.",
        program_messages(
            java=(SharedText("java.security.cert.CertificateNotYetValidException: NotBefore: …"),),
            librdkafka=("SSL handshake failed: …certificate is not yet valid",),
            kafka_python=("certificate verify failed: certificate is not yet valid",),
            aiokafka=(
                'Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet',
            ),
            kafkajs=("Connection error: certificate is not yet valid",),
            sarama=(
                "Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: …is before …",
            ),
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
        program_messages(
            java=(
                SharedText(
                    "sun.security.provider.certpath.SunCertPathBuilderException: unable to find valid certification path to"
                ),
                SharedText("PKIX path building failed"),
                SharedText("PKIX path validation failed: …Path does not chain with any of the trust anchors"),
            ),
            librdkafka=(
                "SSL handshake failed: …broker certificate could not be verified, verify that ssl.ca.location is correctly",
                "SSL routines::certificate verify failed (after …ms in state SSL_HANDSHAKE)",
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
                "Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: certificate signed by unknown",
            ),
            broker=(
                "Failed authentication with … (SSL handshake failed)",
                SharedText("javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_unknown"),
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
        program_messages(
            java=(
                SharedText("javax.net.ssl.SSLHandshakeException: Received fatal alert: bad_certificate"),
                SharedText("javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_required"),
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
            broker=(SharedText("javax.net.ssl.SSLHandshakeException: Empty client certificate chain"),),
        ),
    ),
    Remedy(
        Fault.CLIENT_CERTIFICATE_REFUSED,
        "The broker refuses the client's certificate",
        "The broker does not accept the certificate that the client shows: it is from a CA that the broker does not "
        "trust, has expired, or is not for clients.",
        "The broker's log has the reason beside `Failed authentication with`.",
        "Use a certificate from a CA in the broker's `ssl.truststore.location`, or add the CA there.",
        program_messages(
            java=(
                SharedText("javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_unknown"),
                SharedText("javax.net.ssl.SSLHandshakeException: Received fatal alert: unknown_ca"),
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
            broker=(SharedText("PKIX path building failed"),),
        ),
    ),
)
