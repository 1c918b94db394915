"""The words of operating systems, languages and TLS libraries, which each client passes on in its own messages.

They prove nothing by themselves: another sign of Kafka must stand beside them, or the answer says that it holds only if
a Kafka client has printed them.

Sources: strerror and gai_strerror of glibc, musl, macOS and Windows (WSAE…); Go's net, crypto/tls and crypto/x509; the
JDK's sun.security; Node.js' lib/net.js, lib/tls.js and deps/openssl; Rust's std::io and rustls; Ruby's socket and
openssl; .NET's System.Net; OpenSSL's crypto/x509/x509_txt.c and ssl/ssl_err.c.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages

MESSAGES = parse_messages("""
== name-not-resolved
any*> no such host
any*> getaddrinfo ENOTFOUND
any*> ENOTFOUND
any*> Name or service not known
any*> nodename nor servname provided, or not known
any*> No address associated with hostname
any*> Name does not resolve
any*> No such host is known
any*> getaddrinfo failed
any*> failed to lookup address information
any*> php_network_getaddresses
any*> java.net.UnknownHostException
any*> java.nio.channels.UnresolvedAddressException
any?> Unknown host
any*> Can't resolve address
any?> Could not resolve hostname
any?> nor servname provided
any*> [Errno 11001]
any*> [Errno -2]
any*> [Errno -5]
any*> os error 11001
any*> Der Name oder der Dienst ist nicht bekannt
any*> Es ist kein solcher Host bekannt
any*> Nombre o servicio desconocido
any*> Host desconocido
any*> Nom ou service inconnu
any*> Nome o servizio sconosciuto
any*> Host sconosciuto
any*> Naam of dienst is niet bekend
any*> nxdomain
any*> Could not resolve host
any*> Host not found
Note: Go's own resolver has failed, which reads `/etc/resolv.conf` and knows neither mDNS nor other sources of names:
`GODEBUG=netdns=cgo` lets the program ask the resolver of the operating system.
any*> lookup …: device or resource busy
sarama> Failed to connect to broker …: dial tcp: lookup …: device or resource busy
Note:

== name-not-resolved dns-silent
any*> server misbehaving
any*> getaddrinfo EAI_AGAIN
any*> EAI_AGAIN
any*> Temporary failure in name resolution
any*> [Errno -3]
any*> Errore temporaneo nella risoluzione del nome

== dns-silent
any*> read udp …:53: i/o timeout
any*> lookup …: i/o timeout
Note: Go names no address, because its time was over before a resolver had answered.
any*> dial tcp: i/o timeout

== port-closed
any*> Connection refused
any*> connection refused
any*> ECONNREFUSED
any*> target machine actively refused it
any?> ConnectionRefused
any*> econnrefused
any*> [Errno 111]
any*> [Errno 61]
any*> [Errno 10061]
any*> [WinError 10061]
any*> [WinError 1225]
any*> os error 111
any*> os error 10061
any*> Verbindungsaufbau abgelehnt
any*> da der Zielcomputer die Verbindung verweigerte
any*> Connessione rifiutata
any*> Rifiuto persistente del computer di destinazione
any*> Verbinding is geweigerd
any*> No connection could be made because the target machine actively refused it

== filtered
any*> i/o timeout
any*> ETIMEDOUT
any*> Connection timed out
any*> Operation timed out
any*> connect timed out
any*> Connect timed out
any*> connection timed out
any*> etimedout
any*> timed out while connecting
any*> did not properly respond after a period of time
any*> Connecting to broker timed out
any*> [Errno 110]
any*> [Errno 10060]
any*> [WinError 10060]
any*> [WinError 121]
any?> execution expired
any*> os error 110
any*> os error 10060
any*> da die Gegenstelle nach einer bestimmten Zeitspanne nicht
any*> Connessione scaduta

== no-route
any*> ehostunreach
any*> Host is unreachable
any*> [Errno 113]
any*> [Errno 101]
any*> [WinError 10065]
any*> [WinError 10051]
any*> os error 113
any*> os error 101
any*> Keine Route zum Zielrechner
any*> Das Netzwerk ist nicht erreichbar
any*> Nessun instradamento per l'host
any*> La red es inaccesible
any*> No route to host
any*> no route to host
any*> EHOSTUNREACH
any*> Network is unreachable
any*> network is unreachable
any*> Network unreachable
any*> ENETUNREACH
any*> was attempted to an unreachable network
any*> was attempted to an unreachable host

== no-leader
Note: The address is empty: the metadata has none for the leader, because the partition has no leader, or because the
topic does not exist yet. The next attempt works if the topic is only just being created.
any*> dial tcp :0
any*> dial tcp :0: connect: can't assign requested address
any*> dial tcp :0: connect: cannot assign requested address

== ipv6-only too-many-files
Note: The client's machine has no free local port, because connections are opened and closed all the time (`ss -s` counts
them): keep clients and their connections. Or it has no address of the family (IPv4 or IPv6) of the broker's address.
any*> connect EADDRNOTAVAIL
any*> can't assign requested address
any*> cannot assign requested address
any*> Cannot assign requested address
any*> Can't assign requested address
any?> eaddrnotavail
any?> EADDRNOTAVAIL
any*> [Errno 99]
any*> [WinError 10049]
any*> os error 99

== closed plaintext-to-tls login-needed tls-to-plaintext not-kafka
any*> connection reset by peer
any*> Connection reset by peer
any?> Connection reset
any*> ECONNRESET
any*> forcibly closed by the remote host
any?> EOFError
any?> unexpected EOF
any?> early eof
any?> broken pipe
any?> Broken pipe
any?> EPIPE
any?> EOF
any?> Connection aborted
any?> socket closed
any?> Socket closed
any?> econnreset
any?> [Errno 104]
any?> [WinError 10054]
any?> [Errno 10054]
any?> os error 104
any?> os error 10054
any?> vorhandene Verbindung wurde vom Remotehost geschlossen
any?> Connessione interrotta dal corrispondente
any?> An established connection was aborted by the software in your host machine

== plaintext-to-tls tls-to-plaintext
Note: A program that terminates TLS prints it about a client that speaks no TLS; a client prints it about a server that
speaks none.
any?> not an SSL/TLS record
any*> NotSslRecordException

== tls-to-plaintext
Note:
any*> first record does not look like a TLS handshake
any*> wrong version number
any*> server hello A: unknown protocol
any*> WRONG_VERSION_NUMBER
any?> InvalidContentType
any?> packet length too long
any*> Unsupported or unrecognized SSL message
any*> Unrecognized SSL message, plaintext connection
any?> ssl3_get_record
any*> Received fatal alert: unexpected_message
any*> Client network socket disconnected before secure TLS connection was established
any*> peer closed connection without sending TLS close_notify
any*> tls: oversized record
any*> The handshake failed due to an unexpected packet format
any*> Cannot determine the frame size or a corrupted frame was received
any*> SSL_connect returned=1 errno=0 state=error: wrong version number

== tls-to-plaintext closed
any*> SSL_connect SYSCALL returned=5

== certificate-untrusted
any*> certificate signed by unknown authority
any*> self-signed certificate
any*> self signed certificate
any*> unable to get local issuer certificate
any*> unable to get issuer certificate
any*> unable to verify the first certificate
any*> UnknownIssuer
any?> unknown issuer
any*> PKIX path building failed
any*> PKIX path validation failed
any*> unable to find valid certification path
any*> Path does not chain with any of the trust anchors
any*> SELF_SIGNED_CERT_IN_CHAIN
any*> DEPTH_ZERO_SELF_SIGNED_CERT
any*> UNABLE_TO_VERIFY_LEAF_SIGNATURE
any*> UNABLE_TO_GET_ISSUER_CERT_LOCALLY
any*> UntrustedRoot
any?> PartialChain
any*> “…” certificate is not trusted
any*> certificate is not trusted
any*> No trusted certificate found
librdkafka!> Failed to verify broker certificate: …
librdkafka!> Failed to verify broker certificate: self-signed certificate
librdkafka!> Failed to verify broker certificate: unable to get local issuer certificate

== certificate-untrusted certificate-name certificate-expired
librdkafka!> SSL handshake failed: …broker certificate could not be verified
any?> certificate verify failed
any?> CERTIFICATE_VERIFY_FAILED
any*> The remote certificate is invalid according to the validation procedure

== certificate-name
any*> x509: certificate is valid for …, not …
any*> x509: certificate is not valid for any names
any*> doesn't contain any IP SANs
any*> cannot validate certificate for
any*> certificate relies on legacy Common Name field
any*> No subject alternative DNS name matching … found
any*> No subject alternative names matching IP address … found
any*> No subject alternative names present
any*> No name matching … found
any*> does not match certificate's altnames
any*> ERR_TLS_CERT_ALTNAME_INVALID
any*> certificate not valid for name
any*> NotValidForName
any*> Hostname mismatch
any*> hostname mismatch
any*> IP address mismatch
any*> does not match the server certificate
any*> RemoteCertificateNameMismatch
any*> certificate name mismatch

== certificate-expired
any*> certificate has expired
any*> CERT_HAS_EXPIRED
any*> CertificateExpiredException
any?> certificate expired
any*> invalid peer certificate: Expired
any*> NotTimeValid
any*> alert certificate expired
any*> certificate_expired
librdkafka!> Failed to verify broker certificate: certificate has expired
java!> Certificate with common name … expired on

== certificate-not-yet-valid
any*> certificate is not yet valid
any*> certificate has expired or is not yet valid: current time … is before
any*> CertificateNotYetValidException
any*> invalid peer certificate: NotValidYet

== client-certificate-missing
any*> remote error: tls: bad certificate
any*> remote error: tls: certificate required
any*> Received fatal alert: bad_certificate
any*> Received fatal alert: certificate_required
any*> alert bad certificate
any*> alert certificate required
any*> ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED
any*> ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE
any?> CertificateRequired
any?> BadCertificate
any*> Empty client certificate chain
any*> Empty server certificate chain
librdkafka!> client authentication might be required (see broker log)

== client-certificate-refused
any*> remote error: tls: unknown certificate authority
any*> remote error: tls: unknown certificate
any*> Received fatal alert: certificate_unknown
any*> Received fatal alert: unknown_ca
any*> alert unknown ca
any*> alert certificate unknown

== client-certificate-missing tls-version
Note: A broker that asks for a client certificate and receives none may end the handshake like this.
any?> ossl_statem_client_read_transition:unexpected message
any*> local error: tls: unexpected message
any?> SSL routines::unexpected message
any?> ssl3_get_message:unexpected message
any?> tls_process_server_certificate:unexpected message

== tls-version client-certificate-missing
Note:
any*> remote error: tls: handshake failure
any*> Received fatal alert: handshake_failure
any?> alert handshake failure
any?> HandshakeFailure
any?> SSLV3_ALERT_HANDSHAKE_FAILURE
any?> sslv3 alert handshake failure

== tls-version
any*> remote error: tls: protocol version not supported
any*> tls: server selected unsupported protocol version
any*> Received fatal alert: protocol_version
any*> alert protocol version
any*> no protocols available
any?> unsupported protocol
any*> No appropriate protocol
any*> no cipher suites in common
any?> NO_CIPHERS_AVAILABLE
any*> ee key too small
any*> dh key too small
any*> ca md too weak

== tls-failed
any?> SSLHandshakeException
any?> TLS handshake failed
any?> Authentication failed, see inner exception
any*> local error: tls: bad record MAC
Note: The server ends the TLS handshake with an error of its own: a route, gateway or load balancer has no server of the name
that the client sends (SNI), or the server cannot use its key or certificate. Use the name that the route has, and look into the
server's log.
any*> remote error: tls: internal error
any*> remote error: tls: unrecognized name
any*> alert internal error
any*> alert unrecognized name
any*> Received fatal alert: internal_error
any*> Received fatal alert: unrecognized_name
any*> TLSV1_ALERT_INTERNAL_ERROR
any*> TLSV1_UNRECOGNIZED_NAME
Note:
any?> Remote host terminated the handshake
any?> Remote host closed connection during handshake

== too-many-files
any?> Too many open files
any?> too many open files
any?> EMFILE

== tls-inspection
any*> SSL handshake has read 0 bytes
""")
