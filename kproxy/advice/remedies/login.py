"""Faults of logins and rights."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== login-needed: The listener requires a login
The listener speaks SASL. It closes the connection of a client that asks for anything before it has logged in.
Check: The broker's log says `Unexpected Kafka request of type METADATA during SASL handshake`.
Fix: Set `security.protocol` of the client to `SASL_PLAINTEXT` or `SASL_SSL`, and `sasl.mechanism` and the
credentials. Or give the credentials to kproxy (`--sasl`).
java> Cancelled in-flight METADATA request with correlation id …
java> Timed out waiting for a node assignment
librdkafka> Disconnected: verify that security.protocol is correctly configured
kafka-python> KafkaConnectionError: socket disconnected
kafka-python> socket disconnected
aiokafka> Connection at … broken
aiokafka> Connection at … closed
kafkajs> KafkaJSConnectionClosedError: Closed connection
kafkajs> Connection closed by the server
sarama> kafka: client has run out of available brokers to talk to
sarama> kafka: client has run out of available brokers to talk to: EOF
sarama> client/metadata got error from broker … while fetching metadata: EOF
sarama> client/metadata got error from broker … while fetching metadata: unexpected EOF
broker> Unexpected Kafka request of type … during SASL handshake.
broker> IllegalSaslStateException: Unexpected Kafka request of type … during SASL

== login-not-offered: The listener has no SASL
The client wants to log in with SASL, and the listener is a PLAINTEXT or SSL listener. kproxy with `--sasl` logs in
itself, and looks the same to its clients.
Check: `listener.security.protocol.map` of the broker shows the protocol of the listener.
Fix: Set `security.protocol` of the client to `PLAINTEXT` or `SSL`, or connect to the port of a SASL listener.
java> Unexpected handshake request with client mechanism …, enabled mechanisms are []
java> IllegalSaslStateException: Unexpected handshake request with client mechanism
librdkafka> Broker: Request not valid in current SASL state
librdkafka!> mechanism handshake failed: Broker: Request not valid in current SASL state: broker's supported mechanisms
kafka-python> SaslHandshake failed: IllegalSaslStateError
kafka-python> IllegalSaslStateError
aiokafka> IllegalSaslStateError
franz-go> ILLEGAL_SASL_STATE: …
sarama> kafka server: This most likely occurs because of a request being malformed by the client library
sarama> kafka server: Request is not valid given the current SASL state
Note: If the connection has worked before, its login has expired (`connections.max.reauth.ms` of the broker), and the client
does not log in again: update the client.
any> Request is not valid given the current SASL state
Note:

== sasl-mechanism: The broker has not enabled the SASL mechanism
The client logs in with a mechanism that the listener does not offer.
Check: The message lists the enabled mechanisms. In the broker, `sasl.enabled.mechanisms` has them.
Fix: Set `sasl.mechanism` of the client to one of the enabled mechanisms, or enable the client's mechanism in the
broker.
java> UnsupportedSaslMechanismException: Client SASL mechanism '…' not enabled in the server, enabled mechanisms are
java> Client SASL mechanism '…' not enabled in the server, enabled mechanisms are
librdkafka> …SASL … mechanism handshake failed: Broker: Unsupported SASL mechanism
librdkafka> Broker: Unsupported SASL mechanism
kafka-python> Kafka broker does not support … sasl mechanism. Enabled mechanisms: …
kafka-python> SaslHandshake failed: UnsupportedSaslMechanismError
kafka-python> UnsupportedSaslMechanismError
kafka-python> KafkaConnectionError: socket disconnected
kafka-python> socket disconnected
aiokafka> UnsupportedSaslMechanismError
kafkajs> SASL … mechanism is not supported by the server
kafkajs> The broker does not support the requested SASL mechanism
franz-go> UNSUPPORTED_SASL_MECHANISM: …
sarama> kafka server: The broker does not support the requested SASL mechanism
sarama> Invalid SASL Mechanism : …
broker> Unsupported SASL mechanism … requested by client

== credentials-refused: The broker refuses the user or password
The broker knows the mechanism, but not this user with this password or token. With SCRAM, the user may exist on
another cluster only, or for another mechanism.
Check: `kafka-configs --describe --entity-type users --bootstrap-server HOST:PORT` lists the users of SCRAM. The
broker's log has a line `Failed authentication with`.
Fix: Correct `sasl.jaas.config`, `sasl.username` and `sasl.password`. Look for quotes, spaces and special characters
in the password. For tokens, check issuer, audience, scope and expiry.
java> SaslAuthenticationException: Authentication failed: Invalid username or password
java> SaslAuthenticationException: Authentication failed during authentication due to invalid credentials with SASL mechanism
java> failed authentication due to: Authentication failed…
java> SaslAuthenticationException: {"status":"invalid_token"}
java> SaslAuthenticationException: …
librdkafka> SASL authentication error: Authentication failed: Invalid username or password
librdkafka> SASL authentication error: Authentication failed during authentication due to invalid credentials
librdkafka> SASL authentication error: …
librdkafka> Local: Authentication failure
librdkafka> Broker: SASL Authentication failed
kafka-python> SaslAuthenticationFailedError
kafka-python> Failed to authenticate via SASL
kafka-python> KafkaConnectionError: socket disconnected
kafka-python> socket disconnected
aiokafka> AuthenticationFailedError
aiokafka> AuthenticationFailed
kafkajs> SASL PLAIN authentication failed: …
kafkajs> SASL SCRAM SHA… authentication failed: …
kafkajs> KafkaJSSASLAuthenticationError
franz-go> SASL_AUTHENTICATION_FAILED: …
franz-go> unable to initialize sasl
sarama> kafka server: SASL Authentication failed
sarama> client/metadata failed SASL authentication
sarama> kafka: client has run out of available brokers to talk to: … SASL Authentication failed
broker> Failed authentication with … (Authentication failed…)
broker> Failed authentication with … (channelId=…) (Authentication failed

== credentials-unreadable: The client cannot read its credentials
The file, the command, the login module or the token endpoint that has the client's credentials cannot be used. The
client has not asked the broker yet.
Check: Open the file or run the command by hand, as the user of the client.
Fix: Correct the path, the rights, or the class of the login module in `sasl.jaas.config`.
java> Failed to load SSL keystore … of type …
java> Modification time of key store could not be obtained
librdkafka> ssl.ca.location failed: …
librdkafka> ssl.key.location failed: …
librdkafka> ssl.certificate.location failed: …
librdkafka> ssl.keystore.location failed: …
librdkafka> Failed to acquire SASL OAUTHBEARER token: …
librdkafka> sasl.username and sasl.password must be set
kafka-python> sasl_plain_username required for
kafka-python> sasl_plain_password required for
aiokafka> sasl_plain_username and sasl_plain_password required for PLAIN sasl
kafkajs> SASL Plain: Invalid username or password
kafkajs> SASL OAUTHBEARER: Missing OAuth bearer token provider
sarama> Net.SASL.User must not be empty when SASL is enabled

== kerberos: The login with Kerberos fails
The client has no ticket, the KDC does not know the service principal of the broker's host name, or the clocks differ.
Kerberos binds the login to the name to which the client has connected.
Check: `klist` shows the ticket. `kvno kafka/BROKER-HOST` asks the KDC for the service.
Fix: Correct `sasl.kerberos.service.name`, the keytab and krb5.conf. Through kproxy, let kproxy log in (`--sasl
GSSAPI`), because the client knows another host name.
java> An error: (java.security.PrivilegedActionException: javax.security.sasl.SaslException: GSS initiate failed
java?> GSSException: No valid credentials provided (Mechanism level: …
java> Could not login: the client is being asked for a password, but the Kafka client code does not currently support
java?> KrbException: Server not found in Kerberos database (7)
java?> KrbException: Clock skew too great (37)
librdkafka> SASL handshake failed (step): SASL(-1): generic failure: GSSAPI Error: …
librdkafka> SASL(-1): generic failure: GSSAPI Error: …
librdkafka> kinit command …rdkafka… failed
librdkafka> Kerberos ticket refresh failed: …
kafka-python> GSSError: Major (…
kafka-python> gssapi.raw.misc.GSSError: Major (…
sarama> Kerberos client login error: …
sarama> Kerberos service ticket error for …
sarama> Kerberos init error as …

== not-authorized: The user lacks a right (ACL)
The login is fine, or the cluster needs none, but an ACL does not allow this user this operation on the topic, group,
transaction or cluster. Or kproxy refuses it: `--read-only`, `rules`.
Check: `kafka-acls --list --bootstrap-server HOST:PORT` shows the rules. The broker's log (`kafka.authorizer.logger`)
names the principal, the operation and the resource. If kproxy refused it, kproxy's log says so (`refused … of the client`).
Fix: Let an administrator add the rule: `kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:NAME
--operation OPERATION --topic TOPIC` (or `--group`, `--cluster`, `--transactional-id`).
java> TopicAuthorizationException: Not authorized to access topics: […]
java> GroupAuthorizationException: Not authorized to access group: …
java> ClusterAuthorizationException: …
java> TransactionalIdAuthorizationException: …
java> Error while fetching metadata with correlation id … : {…=TOPIC_AUTHORIZATION_FAILED}
java> Not authorized to access topics: [
java> Topic '…' does not exist as expected
java> TopicAuthorizationException: …
java> GroupAuthorizationException: …
librdkafka> Broker: Topic authorization failed
librdkafka> Broker: Group authorization failed
librdkafka> Broker: Cluster authorization failed
librdkafka> Broker: Transactional Id authorization failed
kafka-python> TopicAuthorizationFailedError
kafka-python> GroupAuthorizationFailedError
kafka-python> ClusterAuthorizationFailedError
kafka-python> TransactionalIdAuthorizationFailedError
kafka-python> is not authorized for this client
kafkajs> Not authorized to access topics: [Topic authorization failed]
kafkajs> Not authorized to access group: Group authorization failed
kafkajs> Not authorized to access group
franz-go> TOPIC_AUTHORIZATION_FAILED: …
franz-go> GROUP_AUTHORIZATION_FAILED: …
franz-go> CLUSTER_AUTHORIZATION_FAILED: …
sarama> kafka server: The client is not authorized to access this topic
sarama> kafka server: The client is not authorized to access this group
sarama> kafka server: The client is not authorized to send this request type
sarama> client is not authorized to access this topic. The topics were
broker> Principal = … is Denied operation = … from host = … on resource = …
Note: A controller or broker does not accept another node: the principal of the nodes needs the rights of the cluster. List it
in `super.users` of all nodes. Where the controllers' listener is PLAINTEXT, the principal is `User:ANONYMOUS`.
broker!> is Denied operation = CLUSTER_ACTION … request = BrokerRegistration
broker!> is Denied operation = CLUSTER_ACTION … request = BrokerHeartbeat
broker!> is Denied operation = CLUSTER_ACTION … request = Fetch
broker!> is Denied operation = CLUSTER_ACTION … request = Vote
broker!> is Denied operation = CLUSTER_ACTION … request = ControllerRegistration

== clock: A clock is wrong
Certificates, tokens and Kerberos tickets are valid for a time, and one machine has the wrong time.
Check: Compare `date -u` on the client's machine and on the broker.
Fix: Let the machine take its time from a time server (NTP).
java?> KrbException: Clock skew too great (37)
java> InvalidTimestampException: …
librdkafka> Broker: Invalid timestamp
librdkafka> SSL handshake failed: …certificate is not yet valid
kafka-python> InvalidTimestampError
kafka-python> certificate verify failed: certificate is not yet valid
""")
