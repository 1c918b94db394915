"""Messages of clients about a connection: opening it, its TLS handshake, its login, its end.

Sources: rdkafka_broker.c, rdkafka_transport.c, rdkafka_cgrp.c, rdkafka_txnmgr.c and rdkafka_sasl*.c of librdkafka; broker.go,
client.go and consumer.go of Sarama; pkg/kgo and pkg/sasl of franz-go; dialer.go and consumergroup.go of kafka-go;
connection.rb, broker.rb, cluster.rb and produce_operation.rb of ruby-kafka; src/network and src/broker of kafkajs;
kafkaClient.js of kafka-node; connection.rs, messenger.rs and transport.rs of rskafka; kafka/net and kafka/coordinator of
kafka-python; conn.py of aiokafka; clients/ and connect/runtime of Apache Kafka; KafkaAdmin.java of Spring;
KafkaStore.java of Schema Registry; proxy/ of grepplabs/kafka-proxy.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages

_UNREACHABLE = "name-not-resolved port-closed filtered login-needed silent closed"
_ENDED = "closed plaintext-to-tls login-needed not-kafka"

MESSAGES = parse_messages(
    f"""
== {_UNREACHABLE}
Note: The client has failed to connect. The words after it, or a line around it, have the reason.
librdkafka!> Failed to connect to broker at …: …
kafka-go!> Failed to get controller., OriginalError
librdkafka!> Failed to get cluster metadata
librdkafka!> No brokers available for
librdkafka!> queued but broker not up
librdkafka!> Failed to fetch offsets from brokers
librdkafka> Timeout exceeded while fetching topic metadata
librdkafka> Timeout exceeded while fetching
kafka-go!> error dialing all brokers, one of the errors
kafka-go!> negotating API versions with kafka broker at
kafka-go!> Unable to establish connection to consumer group coordinator for group
kafka-go> failed to open connection to
sarama> Failed to connect to broker
sarama!> client/metadata got error from broker
sarama!> client/coordinator request to broker … failed
sarama!> client/seedbrokers close seed broker
sarama!> client/brokers close broker
sarama!> client/metadata skipping last retries
sarama!> client/metadata not fetching metadata from broker
sarama!> Client background metadata update
sarama!> Failed refreshing metadata because of
sarama!> producer/broker/… state change to [closing] because
sarama!> while looking up for new leader
sarama!> disconnecting due to error processing FetchRequest
franz-go!> no partitions available after attempting to refresh metadata
franz-go!> unable to request brokers
franz-go> unable to make metadata request
franz-go!> unable to request broker info
franz-go!> failed to test kafka connectivity
franz-go!> failed to test Kafka connection, going to retry
franz-go> failed to request api versions
franz-go> failed to get metadata from cluster
franz-go> failed to get broker ids
franz-go!> Kafka API is not reachable from console
ruby-kafka> Failed to connect to …: …
ruby-kafka!> Connection error while trying to join group
ruby-kafka> Connection error while fetching messages
ruby-kafka!> Could not connect to leader for partition
ruby-kafka!> Could not connect to broker
ruby-kafka!> Failed to get coordinator info from
kafkajs> Failed to connect: …
kafkajs!> No brokers in the broker pool
kafka-node!> failed to connect to brokers
kafka-node!> error initializing broker after
rskafka> error getting cluster metadata
rskafka> Failed to connect to broker
rskafka!> metadata request encountered fatal error
kafka-python> Unable to bootstrap from
kafka-python!> Bootstrap connection to … failed
kafka-python!> Bootstrap attempt to … failed
kafka-python> Bootstrap failed: …
kafka-python!> No node available for metadata refresh
kafka-python!> Metadata refresh: failed
kafka-python> Node … not ready after …
aiokafka!> Unable to bootstrap from
aiokafka!> Unable to request metadata from
aiokafka!> Unable to update metadata from
aiokafka!> Unable to get cluster metadata over all known brokers
aiokafka!> Unable connect to node with id
aiokafka!> No connection to broker at
java> Connection to … failed.
java!> Timed out waiting to get existing topics
java!> Timed out waiting for create topics results
java> Could not obtain cluster info
java> Could not configure topics
java> Error connecting to cluster
java!> AdminClient for the cluster … is invalidated due to
java!> Could not get Kafka authorized operations
java!> No available broker found to fetch config info
java!> Failed to find brokers to send ListGroups
java!> The committed offsets request timed out
schema-registry!> Failed to get Kafka cluster ID
schema-registry!> No live Kafka brokers
schema-registry!> Put operation timed out while waiting for an ack from Kafka
schema-registry!> Write to the Kafka store timed out
connect!> Failed to write connector configuration to Kafka
connect!> Error writing connector configuration to Kafka
connect!> Failed to read from the offsets topic
connect!> KafkaOffsetBackingStore Future timed out
connect!> Didn't reach end of config log quickly enough
connect!> Failed to start Connect

== {_ENDED}
Note: The server has ended the connection in place of an answer, or has answered something else than Kafka.
librdkafka!> ApiVersionRequest failed
librdkafka!> Disconnected: hung up from peer
sarama!> Error while sending ApiVersionsRequest
sarama!> Failed to send ApiVersionsRequest
sarama!> Failed to read ApiVersionsResponse
franz-go!> unable to read ApiVersions response
franz-go!> short response from ApiVersions request
franz-go> connection initialization failed
rskafka> cannot sync versions
kafka-node!> getApiVersions response was empty for broker
kafka-node!> ApiVersions failed with unexpected error
kafka-python> Connection closed during connect
kafka-python> closed during connect; discarding
kafka-python> Connection lost: …
aiokafka> Connection at … broken
kafkajs> Broker not connected
java> was disconnected before the response was read
java> Attempt to send a request to node … which is not ready
aiokafka> Attempt to send a request to node which is not ready
any!> kpro_req, … :closed
any!> kpro_req, … closed
any!> {{kpro_req … closed}}
any!> {{:kpro_req … :closed}}
proxy!> failed to read SASL handshake header
proxy!> failed to read SASL handshake payload

== plaintext-to-tls login-needed tls-to-plaintext closed not-kafka
Note:
sarama> kafka: client has run out of available brokers to talk to: EOF
sarama> client/metadata got error from broker … while fetching metadata: EOF
sarama> client/metadata got error from broker … while fetching metadata: unexpected EOF

== plaintext-to-tls login-needed port-closed silent closed filtered
Note: If nothing listens at the address, clients since 1.0 say `could not be established` in the line before. Without that line, a
server has accepted the connection and ended it: mostly the client and the listener differ in TLS or SASL.
java> Bootstrap broker … disconnected

== plaintext-to-tls not-kafka closed
Note: A server has accepted the connection and ended it in place of its first answer.
java> Cancelled in-flight API_VERSIONS request with correlation id … due to node … being disconnected

== login-needed closed
Note: The server has answered the client's first request, and ended the connection at the second one.
java> Cancelled in-flight METADATA request with correlation id … due to node -… being disconnected

== closed
Note: The client itself was closed while it logged in, for example by a program that makes a client for each message: the
broker has refused nothing.
librdkafka!> SaslAuthenticateRequest failed: Local: Broker handle destroyed
Note: The connection ends during the login. The broker has not refused the password in words: it is stopping, or a device
between client and broker has cut the connection.
librdkafka!> SaslAuthenticateRequest failed
librdkafka!> SaslAuthenticateRequest failed: Local: Broker transport failure
librdkafka!> SaslHandshakeRequest failed: Local: Broker transport failure
librdkafka!> mechanism handshake failed: Local: Broker transport failure: broker's supported mechanisms: (n/a)
Note: A connection that was in use has ended: the broker was restarted, the connection was idle for long (brokers, clouds and
load balancers close such), or a device between has cut it. Clients connect again by themselves.
java> Cancelled … request with correlation id … due to node … being disconnected
librdkafka> Disconnected (after …ms in state UP
librdkafka> SSL connection closed by peer (after …ms in state UP
librdkafka> Connection reset by peer (after …ms in state UP
librdkafka> Receive failed: … (after …ms in state UP
librdkafka> Send failed: … (after …ms in state UP
librdkafka!> Broker changed state UP -> DOWN
librdkafka> Receive failed: SSL syscall error
Note: The client opens a new connection by itself: a broker closes unused ones after `connections.max.idle.ms`.
ruby-kafka!> Connection has been unused for too long, re-connecting

== not-kafka broker-too-new
Note: The client cannot read the answer. Another program answers, or a proxy between them changes the bytes.
librdkafka!> protocol parse failure
librdkafka> Protocol parse failure
sarama!> Failed to parse ApiVersionsResponse
sarama!> Failed to parse SASL handshake
rskafka> Data left at the end of the message
kafka-python!> No in-flight-request found for server response
java!> server returned information about unknown correlation ID
kafka-python> correlation id does not match request

== silent
librdkafka!> Timed out MetadataRequest in flight
librdkafka!> Timed out ApiVersionRequest in flight
librdkafka!> Timed out SaslHandshakeRequest in flight
librdkafka!> Timed out FindCoordinatorRequest in flight
any*> read tcp …: i/o timeout
sarama!> client/metadata got error from broker … while fetching metadata: read tcp …: i/o timeout
any!> {{kpro_req … timeout}}
any!> {{:kpro_req … :timeout}}
kafka-python!> SASL Authentication timed out
ruby-kafka!> Timed out while writing
kafka-node!> Heartbeat timed out
Note: The connection was there, and the other side no longer takes what the client sends: a firewall, NAT or load
balancer has forgotten the connection, or the broker's machine hangs.
any*> write tcp …: i/o timeout
Note:

== silent closed
Note: The client itself closes a connection on which no answer comes in time: a broker has taken the request and has not
answered, or a device between lets no more packets through. It looks the same if the server ends the connection.
java> Cancelled listTopics request with correlation id … due to node … being disconnected
java> Cancelled createTopics request with correlation id … due to node … being disconnected
java> Cancelled deleteTopics request with correlation id … due to node … being disconnected
java> Cancelled describeTopics request with correlation id … due to node … being disconnected
java> Cancelled describeCluster request with correlation id … due to node … being disconnected
java> Cancelled describeConfigs request with correlation id … due to node … being disconnected
java> Cancelled listNodes request with correlation id … due to node … being disconnected
java> Cancelled findCoordinator request with correlation id … due to node … being disconnected
java> Cancelled listConsumerGroups request with correlation id … due to node … being disconnected
java> Cancelled describeConsumerGroups request with correlation id … due to node … being disconnected

== port-closed
Note: The machine refuses the connection, because nothing listens there. Windows takes two seconds for it, and
librdkafka has no word for it.
librdkafka> Connect to … failed: Unknown error (after 20…ms in state CONNECT)
Note:

== filtered
Note: Nothing answers at this address. Windows gives up after 21 seconds, and librdkafka has no word for it.
librdkafka> Connect to … failed: Unknown error (after 21…ms in state CONNECT)
Note: AWS Lambda does not reach the brokers from the subnets of its event source: the security groups must allow the
brokers' port from themselves, and the subnets need a NAT gateway, or VPC endpoints for Lambda, STS and Secrets Manager.
any!> Please check your event source connection configuration
Note: The client's own machine forbids the connection, so that no packet leaves it: a local firewall, SELinux, a sandbox
or the program's own permissions. Allow the program to connect to the brokers' addresses and ports.
librdkafka!> Connect to … failed: Permission denied
librdkafka!> Connect to … failed: Operation not permitted
librdkafka!> Failed to connect to broker at …: Permission denied
librdkafka!> Failed to connect to broker at …: Operation not permitted
any*> connect: permission denied
any*> connect: operation not permitted
any*> connect EACCES
any*> connect EPERM
any?> java.net.SocketException: Permission denied
any?> java.net.SocketException: Operation not permitted
any?> access a socket in a way forbidden by its access permissions
Note:

== silent plaintext-to-tls tls-to-plaintext
Note: The server accepts the connection and does not answer: another protocol, or a device in between that holds it.
librdkafka!> Connection setup timed out in state AUTH
librdkafka!> Connection setup timed out in state …

== hop-failed
kafka-python!> Socks5 proxy authentication failure
kafka-python!> HTTP CONNECT to proxy failed
kafka-python!> Proxy connection timeout
kafka-python> via proxy
rskafka!> Cannot establish SOCKS5 connection
proxy!> connect server using proxy error
kafka-python> Unrecognized SOCKS

== tls-to-plaintext
Note: The server ends the connection during the TLS handshake, without an alert of TLS.
librdkafka!> SSL handshake failed: SSL syscall error
librdkafka!> SSL handshake failed: Disconnected: SSL connection closed by peer
librdkafka!> SSL handshake failed: Disconnected: connection closed by peer
librdkafka!> Disconnected: SSL connection closed by peer …in state SSL_HANDSHAKE
librdkafka!> Disconnected: connection closed by peer …in state SSL_HANDSHAKE

== tls-to-plaintext tls-inspection closed
Note: The connection ended during the TLS handshake. The listener does not speak TLS, or a firewall or proxy between cuts
TLS on this port.
java!> java.io.IOException: Connection reset by peer … at org.apache.kafka.common.network.SslTransportLayer.doHandshake
java!> java.io.IOException: Connection reset … at org.apache.kafka.common.network.SslTransportLayer.doHandshake

== tls-to-plaintext closed
librdkafka!> SSL handshake failed: Disconnected: connection reset by peer
librdkafka!> Disconnected: connection reset by peer …in state SSL_HANDSHAKE

== name-not-resolved port-closed filtered
kafka-python!> Unable to connect to any of the names for

== name-not-resolved library-lacks-feature
Note: The resolver of this system does not take the options with which the library asks it. Install a build of the library
for this system.
librdkafka!> Failed to resolve '…': invalid flags value
librdkafka!> Failed to resolve '…': Bad value for ai_flags
librdkafka!> Failed to resolve '…': Invalid value for ai_flags

== port-closed filtered no-route
Note: The attempt to connect has failed: the machine has refused it, or has not answered.
librdkafka> Connect to … failed: …
Note: The client has found the coordinator of its group, and cannot connect to the address that the coordinator advertises.
java!> is unavailable or invalid due to cause: coordinator unavailable.isDisconnected: false
java!> is unavailable or invalid due to cause: coordinator unavailable. isDisconnected: false

== tls-failed
Note: The server ends the TLS handshake without saying why: behind a load balancer or a route, no server has the name
that the client sends (SNI); or the listener wants a certificate of the client, or a proxy is in between.
any*> Received close_notify during handshake
Note:
java> SSL handshake failed
librdkafka!> No further error information available
any?> SSLProtocolException: Unexpected handshake message
librdkafka!> SSL transport error
librdkafka!> Broker did not provide a certificate
kafka-python!> Error during TLS Handshake

== tls-failed credentials-refused
Note: The connection fails in its TLS handshake or login: the words after it have the reason.
java!> failed authentication due to: …

== certificate-untrusted
Note: The client's CA file has a CA with the right name and another key: an older CA, or the CA of another cluster. Give the
client the certificate of the CA that has signed the broker's certificate.
librdkafka!> error:…rsa routines:…invalid padding
librdkafka!> error:…rsa routines:…padding check failed
librdkafka!> error:…rsa routines:RSA_padding_check_PKCS1_type_1:
any?> certificate verify failed: certificate signature failure
any?> "crypto/rsa: verification error" while trying to verify candidate authority certificate
any?> PKIX path validation failed: java.security.cert.CertPathValidatorException: signature check failed

== client-certificate-missing client-certificate-refused
Note: With TLS 1.3, a broker checks the client's certificate when the client's own handshake has ended. The broker's log
has the reason.
java> Failed to process post-handshake messages
java> SslAuthenticationException: Failed to process post-handshake messages

== client-certificate-refused client-certificate-missing
proxy!> tls: no client certificate presented for any of the defined client subjects
proxy!> Client cert sent by proxy client does not match brokers client cert
proxy!> Client cert not found in TLS connection

== kerberos
librdkafka!> Failed to acquire CredentialsHandle
librdkafka!> InitializeSecurityContext failed
librdkafka!> Query credentials failed
librdkafka!> Validate token: …
librdkafka!> Incomplete credentials: invalid or untrusted certificate
sarama!> SASL Kerberos authenticate error
sarama!> Kerberos read error
sarama!> Kerberos write error
ruby-kafka!> GSSAPI context verification failed
ruby-kafka!> GSSAPI negotiation failed
proxy!> Failed to send GSSAPI
any> Init security context failure

== kerberos closed
sarama!> Error while performing GSSAPI Kerberos Authentication

== kerberos
Note:
java!> Failed to create SaslClient with mechanism GSSAPI
Note: The Kerberos library (Cyrus SASL) gives no reason: its plugin for GSSAPI may be missing (package
`libsasl2-modules-gssapi-mit` of Debian, `cyrus-sasl-gssapi` of Red Hat), or there is no ticket or readable keytab.
librdkafka!> Failed to initialize SASL authentication: generic failure

== kerberos credentials-unreadable
librdkafka!> Failed to initialize SASL authentication: …

== sasl-mechanism
librdkafka!> mechanism handshake failed: …broker's supported mechanisms
any> unsupported_sasl_mechanism
aiokafka!> sasl mechanism. Enabled mechanisms are
kafka-python!> sasl mechanism. Enabled mechanisms are
ruby-kafka!> Unsupported SASL mechanism … Supported are
java> SaslException: Unsupported SASL mechanism
proxy!> SASL Mechanism not valid

== login-not-offered
Note: The mechanisms that the broker lists are those of its SASL listeners; this listener is none of them.
java!> Unexpected handshake request with client mechanism …, enabled mechanisms are …

== login-not-offered broker-too-old
librdkafka!> SASL GSSAPI authentication not supported by broker

== login-needed
broker!> Unexpected Kafka request of type … during SASL authentication

== credentials-refused
Note: The user or password is wrong, or the user has no credentials for this mechanism.
java!> Authentication failed: Invalid username or password
java!> Authentication failed: Invalid user credentials
java!> Authentication failed: Credentials could not be obtained
java!> Authentication failed: credentials for user could not be verified
java!> Authentication failed: Invalid client final message
java!> Token Authentication failed
java!> Invalid SASL/PLAIN response: expected 3 tokens
java> Invalid client credentials
java!> Sasl authentication using … failed with error
librdkafka!> SASL authentication failure
sarama!> SASL authentication failed
sarama!> failed to advance the SCRAM exchange
sarama!> SASL/SCRAM-SHA-… authentication failed
franz-go!> server sent authentication error
franz-go> sasl reauth failed
kafka-go> SASL authentication process has failed
kafka-go> SASL authentication process could not be started
kafka-python> SaslHandshake failed
kafka-python!> SASL re-authentication failed
kafkajs> : Invalid username or password
kafkajs!> SASL AWS-IAM authentication failed
ruby-kafka!> SASL AWS_MSK_IAM authentication failed
ruby-kafka> SASL … authentication failed
proxy!> SASL/PLAIN auth for user … failed
proxy!> SASL authentication failed, error message is
broker!> SASL session expired for
Note: The two sides do not prove the same password to each other: it is wrong, or another server answers.
java!> Invalid server nonce: does not start with client nonce
java!> Invalid server signature in server final message
java!> Sasl server signature verification failed
franz-go!> server signature mismatch
franz-go!> server did not reply with nonce beginning with client nonce
kafkajs!> Invalid server signature in server final message
kafkajs!> Invalid server nonce, it does not start with the client nonce
kafka-python> Server sent wrong signature
kafka-python> Server nonce, did not start with client nonce
aiokafka> Server sent wrong signature
aiokafka> Server nonce, did not start with client nonce
ruby-kafka> Invalid server signature
librdkafka!> Server/client nonce mismatch in server-first-message
Note: The broker refuses the OAuth token: it has expired, or its issuer, audience, scope or signature is not the one
that the broker expects.
java> Token validation failed
java> Token check failed
java> Signature check failed: Invalid token signature
java> The token expired at
java> Token expired at
java!> Invalid OAUTHBEARER client first message
java> Authentication with OAuth token has failed
java> Username doesn't match the token
proxy!> local oauth verify token failed

== overloaded
Note: The broker closes new connections from this address, because it has as many as `max.connections.per.ip` or
`max.connections` allows: look for clients that open connections and do not close them.
broker!> Rejected connection from
broker!> Too many connections from
broker!> already has the configured maximum of
"""
)
