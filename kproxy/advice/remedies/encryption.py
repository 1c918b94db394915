"""Faults of TLS and certificates."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== tls-to-plaintext: The client speaks TLS, and the listener does not
The client begins a TLS handshake with a plaintext listener. The broker takes the first bytes of the handshake for the
size of a message: 0x16030100 to 0x16030303 are 369295616 to 369296131. It closes the connection.
Check: `openssl s_client -connect HOST:PORT` gets no certificate. `kcat -b HOST:PORT -L` without TLS works.
Fix: Set `security.protocol` of the client to `PLAINTEXT` or `SASL_PLAINTEXT`, or connect to the port of an SSL
listener.
java> SslAuthenticationException: SSL handshake failed
java?> javax.net.ssl.SSLException: Unsupported or unrecognized SSL message
java> failed authentication due to: SSL handshake failed
java> Connection to node … terminated during authentication
librdkafka> SSL handshake failed: Disconnected
librdkafka> SSL handshake failed: …wrong version number
librdkafka> SSL handshake failed: …unexpected eof while reading
librdkafka> SSL routines::unexpected eof while reading (after …ms in state SSL_HANDSHAKE)
kafka-python> Handshake failed: [SSL: UNEXPECTED_EOF_WHILE_READING]
kafka-python> Handshake failed: [SSL: WRONG_VERSION_NUMBER]
kafka-python> Handshake failed: …
aiokafka> Unable connect to "…":
aiokafka> Unable connect to "…": [SSL: WRONG_VERSION_NUMBER]
aiokafka> Unable connect to "…": [SSL: UNEXPECTED_EOF_WHILE_READING]
aiokafka> Unable connect to "…": SSL handshake is taking longer than
kafkajs> Connection error: Client network socket disconnected before secure TLS connection was established
kafkajs> Connection error: …wrong version number
franz-go> unable to open connection to broker due to an immediate EOF
franz-go> unable to dial: tls: first record does not look like a TLS handshake
sarama> Failed to send ApiVersionsRequest V… to …: tls: first record does not look like a TLS handshake
sarama> Failed to send ApiVersionsRequest V… to …: EOF
sarama> kafka: client has run out of available brokers to talk to
sarama> kafka: client has run out of available brokers to talk to: EOF
sarama> client/metadata got error from broker … while fetching metadata: EOF
sarama> client/metadata got error from broker … while fetching metadata: unexpected EOF
broker> Unexpected error from …; closing connection
broker> InvalidReceiveException: Invalid receive (size = 369295616 larger than …)
broker> InvalidReceiveException: Invalid receive (size = 369296128 larger than …)
broker> InvalidReceiveException: Invalid receive (size = 369296129 larger than …)
broker> InvalidReceiveException: Invalid receive (size = 369295617 larger than …)

== plaintext-to-tls: The listener speaks TLS, and the client does not
The client speaks plaintext to a TLS listener. The listener answers with a TLS alert and closes the connection. The
client takes the alert for the size of a message: 0x15030300 is 352518912, about 350 MB.
Check: `openssl s_client -connect HOST:PORT` shows a certificate.
Fix: Set `security.protocol` of the client to `SSL` or `SASL_SSL`, and its trust store, or connect to the port of a
plaintext listener.
java> java.lang.OutOfMemoryError: Java heap space … at org.apache.kafka.common.network.NetworkReceive.readFrom
java!> java.lang.OutOfMemoryError: Java heap space … thread 'kafka-
java!> java.lang.OutOfMemoryError: Direct buffer memory … thread 'kafka-
java!> java.lang.OutOfMemoryError: Direct buffer memory … at org.apache.kafka.common.network.NetworkReceive.readFrom
java> The AdminClient thread has exited.
java> InvalidReceiveException: Invalid receive (size = 352518912 larger than …)
java> InvalidReceiveException: Invalid receive (size = 352518400 larger than …)
java> Failed to update metadata after … ms
java> Call(callName=…, deadlineMs=…) timed out at …
java> Topic … not present in metadata after … ms
java> Timeout expired while fetching topic metadata
java> Timed out waiting for a node assignment
librdkafka> Receive failed: Invalid response size 352518912 (0..…): increase receive.message.max.bytes
librdkafka> Receive failed: Invalid response size 352518400 (0..…): increase receive.message.max.bytes
librdkafka> Disconnected: connection closed by peer: receive 0 after POLLIN (after …ms in state APIVERSION_QUERY)
librdkafka> Disconnected while requesting ApiVersion
librdkafka> Disconnected: verify that security.protocol is correctly configured
kafka-python> KafkaConnectionError: socket disconnected
kafka-python> socket disconnected
aiokafka> Connection at … closed
aiokafka> Connection at … broken
kafkajs> KafkaJSConnectionClosedError: Closed connection
kafkajs> Connection closed by the server
franz-go> the first three bytes received appear to be a tls alert record
franz-go> read from broker received EOF during api versions discovery
sarama> Failed to read ApiVersionsResponse V… header from …: unexpected EOF
sarama> kafka: client has run out of available brokers to talk to
sarama> kafka: client has run out of available brokers to talk to: EOF
sarama> client/metadata got error from broker … while fetching metadata: EOF
sarama> client/metadata got error from broker … while fetching metadata: unexpected EOF
sarama> kafka: error decoding packet: message of length 352518912 too large or too small
sarama> kafka: error decoding packet: message of length 352518400 too large or too small
broker!> Failed authentication with … (SSL handshake failed)
broker?> javax.net.ssl.SSLException: Unsupported or unrecognized SSL message

== tls-version: The two sides have no TLS version or cipher suite in common
The client and the broker speak TLS, but neither accepts a version or a cipher suite of the other.
Check: `openssl s_client -connect HOST:PORT -tls1_2` and `-tls1_3` show which versions the broker accepts.
Fix: Compare `ssl.enabled.protocols` and `ssl.cipher.suites` of both sides. Upgrade a Java before 8u261, which has no
TLS 1.3.
java?> javax.net.ssl.SSLHandshakeException: Received fatal alert: protocol_version
java?> javax.net.ssl.SSLHandshakeException: No appropriate protocol (protocol is disabled or cipher suites are
java?> javax.net.ssl.SSLHandshakeException: The client supported protocol versions … are not accepted by
java?> javax.net.ssl.SSLHandshakeException: no cipher suites in common
librdkafka> SSL handshake failed: …alert protocol version
librdkafka> SSL handshake failed: …unsupported protocol
librdkafka> SSL handshake failed: …no protocols available
kafka-python> [SSL: TLSV1_ALERT_PROTOCOL_VERSION]
kafka-python> [SSL: UNSUPPORTED_PROTOCOL]
kafkajs> Connection error: …alert protocol version
kafkajs> Connection error: …unsupported protocol
franz-go> remote error: tls: protocol version not supported
broker?> javax.net.ssl.SSLHandshakeException: no cipher suites in common

== tls-failed: The TLS handshake fails
The handshake fails for a reason that the client does not name.
Check: The broker's log has a line `Failed authentication with …`, and `openssl s_client -connect HOST:PORT` shows
where the handshake ends.
Fix: Compare the client's trust store, certificate, TLS versions and cipher suites with the broker's.
java> SslAuthenticationException: SSL handshake failed
java> failed authentication due to: SSL handshake failed
librdkafka> SSL handshake failed: …
librdkafka> Local: SSL error
kafka-python> Handshake failed: …
aiokafka> Unable connect to "…": [SSL: …
sarama> Failed to send ApiVersionsRequest V… to …: remote error: tls: …
sarama> Failed to send ApiVersionsRequest V… to …: tls: …
broker!> Failed authentication with … (SSL handshake failed)

== certificate-name: The certificate is for another name
The broker's certificate does not contain the name or address to which the client has connected. Such a name is often
an advertised address, an IP address, or `localhost` of a port-forward.
Check: `openssl s_client -connect HOST:PORT | openssl x509 -noout -ext subjectAltName` shows the names.
Fix: Connect to a name in the certificate, or issue a certificate with all names that clients use. kproxy expects the
advertised name, whichever address it dials (`--tls`, `--tls-server-name`). To turn the check off
(`ssl.endpoint.identification.algorithm=`) also turns off the protection against impostors.
java?> java.security.cert.CertificateException: No subject alternative DNS name matching … found
java?> java.security.cert.CertificateException: No subject alternative names matching IP address … found
java?> java.security.cert.CertificateException: No name matching … found
java?> java.security.cert.CertificateException: No subject alternative names present
librdkafka> SSL handshake failed: …hostname mismatch
librdkafka> SSL handshake failed: …IP address mismatch
librdkafka> SSL handshake failed: …broker certificate could not be verified
librdkafka> SSL routines::certificate verify failed (after …ms in state SSL_HANDSHAKE)
kafka-python> certificate verify failed: Hostname mismatch, certificate is not valid for '…'
kafka-python> certificate verify failed: IP address mismatch, certificate is not valid for '…'
aiokafka> Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch
aiokafka> Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: IP address mismatch
kafkajs> Connection error: Hostname/IP does not match certificate's altnames
franz-go> unable to dial: tls: failed to verify certificate: x509: certificate is valid for …, not …
franz-go> unable to dial: tls: failed to verify certificate: x509: cannot validate certificate for … because
sarama> Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: certificate is valid for …, not …
sarama> Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: cannot validate certificate for

== certificate-expired: A certificate has expired
The broker's or the client's certificate, or a CA certificate above it, has expired. Or the clock of one machine is
wrong.
Check: `openssl s_client -connect HOST:PORT | openssl x509 -noout -dates` shows the dates. `date -u` shows the clock.
Fix: Renew the certificate, and let the broker or the client load it. Correct the clock.
java?> java.security.cert.CertificateExpiredException: NotAfter: …
java?> javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_expired
librdkafka> SSL handshake failed: …certificate has expired
librdkafka> SSL handshake failed: …broker certificate could not be verified
librdkafka> SSL routines::certificate verify failed (after …ms in state SSL_HANDSHAKE)
librdkafka> SSL handshake failed: …alert certificate expired
kafka-python> certificate verify failed: certificate has expired
aiokafka> Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired
kafkajs> Connection error: certificate has expired
franz-go> x509: certificate has expired or is not yet valid
sarama> Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: certificate has expired

== certificate-not-yet-valid: A certificate is not valid yet
The certificate begins to be valid in the future. Mostly the clock of one machine is wrong.
Check: Compare `date -u` on both machines with `openssl s_client -connect HOST:PORT | openssl x509 -noout -dates`.
Fix: Correct the clock.
java?> java.security.cert.CertificateNotYetValidException: NotBefore: …
librdkafka> SSL handshake failed: …certificate is not yet valid
kafka-python> certificate verify failed: certificate is not yet valid
aiokafka> Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet
kafkajs> Connection error: certificate is not yet valid
sarama> Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: …is before …

== certificate-untrusted: The client does not trust the certificate's CA
The broker's certificate is self-signed or from a CA of the company, and the client's trust store does not contain
this CA. Or the broker does not send an intermediate certificate.
Check: `openssl s_client -connect HOST:PORT -CAfile ca.pem` says `Verify return code: 0` if `ca.pem` is the right CA.
Fix: Give the client the CA: `ssl.truststore.location` (Java), `ssl.ca.location` (librdkafka), `ssl_cafile`
(kafka-python). With kproxy: `--tls-ca`.
java?> sun.security.provider.certpath.SunCertPathBuilderException: unable to find valid certification path to
java?> PKIX path building failed
java?> PKIX path validation failed: …Path does not chain with any of the trust anchors
librdkafka> SSL handshake failed: …broker certificate could not be verified
librdkafka> SSL routines::certificate verify failed (after …ms in state SSL_HANDSHAKE)
librdkafka> SSL handshake failed: …certificate verify failed
kafka-python> certificate verify failed: self-signed certificate in certificate chain
kafka-python> certificate verify failed: self-signed certificate
kafka-python> certificate verify failed: self signed certificate
kafka-python> certificate verify failed: unable to get local issuer certificate
aiokafka> Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate
aiokafka> Unable connect to "…": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer
kafkajs> Connection error: self-signed certificate
kafkajs> Connection error: self signed certificate
kafkajs> Connection error: unable to verify the first certificate
kafkajs> Connection error: unable to get local issuer certificate
franz-go> unable to dial: tls: failed to verify certificate: x509: certificate signed by unknown authority
sarama> Failed to send ApiVersionsRequest V… to …: tls: failed to verify certificate: x509: certificate signed by unknown
broker!> Failed authentication with … (SSL handshake failed)
broker?> javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_unknown

== client-certificate-missing: The broker requires a client certificate
The listener has `ssl.client.auth=required`, and the client has shown no certificate.
Check: `openssl s_client -connect HOST:PORT` lists `Acceptable client certificate CA names`, and ends with an alert.
Fix: Give the client a certificate: `ssl.keystore.location` (Java), `ssl.certificate.location` and `ssl.key.location`
(librdkafka), `ssl_certfile` and `ssl_keyfile` (kafka-python). With kproxy: `--tls-cert`.
java?> javax.net.ssl.SSLHandshakeException: Received fatal alert: bad_certificate
java?> javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_required
librdkafka> SSL handshake failed: …alert bad certificate
librdkafka> …alert certificate required: SSL alert number 116
librdkafka> Receive failed: …certificate required
librdkafka> Receive failed: …bad certificate
kafka-python> [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED]
kafka-python> [SSL: SSLV3_ALERT_BAD_CERTIFICATE]
kafkajs> Connection error: …alert bad certificate
kafkajs> Connection error: …alert certificate required
franz-go> remote error: tls: certificate required
franz-go> remote error: tls: bad certificate
broker?> javax.net.ssl.SSLHandshakeException: Empty client certificate chain
broker!> Failed authentication with … (SSL handshake failed)

== client-certificate-refused: The broker refuses the client's certificate
The broker does not accept the certificate that the client shows: it is from a CA that the broker does not trust, has
expired, or is not for clients.
Check: The broker's log has the reason beside `Failed authentication with`.
Fix: Use a certificate from a CA in the broker's `ssl.truststore.location`, or add the CA there.
java?> javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_unknown
java?> javax.net.ssl.SSLHandshakeException: Received fatal alert: unknown_ca
librdkafka> SSL handshake failed: …alert unknown ca
librdkafka> SSL handshake failed: …alert certificate unknown
librdkafka> Receive failed: …alert certificate unknown
librdkafka> Receive failed: …alert unknown ca
kafka-python> [SSL: SSLV3_ALERT_CERTIFICATE_UNKNOWN]
kafka-python> [SSL: TLSV1_ALERT_UNKNOWN_CA]
kafkajs> Connection error: …alert certificate unknown
kafkajs> Connection error: …alert unknown ca
franz-go> remote error: tls: unknown certificate
broker?> PKIX path building failed
""")
