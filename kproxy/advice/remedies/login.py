"""Faults of logins and rights."""

from __future__ import annotations

from kproxy.advice.remedies.network import DISCONNECTED_PYTHON, SARAMA_EOF
from kproxy.advice.remedies.remedy import Remedy, SharedText, program_messages
from kproxy.base.faults import Fault

TABLE: tuple[Remedy, ...] = (
    Remedy(
        Fault.LOGIN_NEEDED,
        "The listener requires a login",
        "The listener speaks SASL. It closes the connection of a client that asks for anything before it has logged in.",
        "The broker's log says `Unexpected Kafka request of type METADATA during SASL handshake`.",
        "Set `security.protocol` of the client to `SASL_PLAINTEXT` or `SASL_SSL`, and `sasl.mechanism` and the "
        "credentials. Or give the credentials to kproxy (`--sasl`).",
        program_messages(
            java=(
                "Cancelled in-flight METADATA request with correlation id …",
                "Bootstrap broker … disconnected",
                "Timed out waiting for a node assignment",
            ),
            librdkafka=(
                "Disconnected: verify that security.protocol is correctly configured, broker might require SASL",
            ),
            kafka_python=DISCONNECTED_PYTHON,
            aiokafka=("Connection at … broken",),
            kafkajs=("KafkaJSConnectionClosedError: Closed connection", "Connection closed by the server"),
            franz_go=("killing connection after 0 successful responses (is SASL missing?)",),
            sarama=SARAMA_EOF,
            broker=(
                "Unexpected Kafka request of type … during SASL handshake.",
                "IllegalSaslStateException: Unexpected Kafka request of type … during SASL",
            ),
        ),
    ),
    Remedy(
        Fault.LOGIN_NOT_OFFERED,
        "The listener has no SASL",
        "The client wants to log in with SASL, and the listener is a PLAINTEXT or SSL listener. kproxy with `--sasl` "
        "logs in itself, and looks the same to its clients.",
        "`listener.security.protocol.map` of the broker shows the protocol of the listener.",
        "Set `security.protocol` of the client to `PLAINTEXT` or `SSL`, or connect to the port of a SASL listener.",
        program_messages(
            java=(
                "Unexpected handshake request with client mechanism …, enabled mechanisms are []",
                "IllegalSaslStateException: Unexpected handshake request with client mechanism",
                "Request is not valid given the current SASL state.",
            ),
            librdkafka=("Broker: Request not valid in current SASL state",),
            kafka_python=("SaslHandshake failed: IllegalSaslStateError", "IllegalSaslStateError"),
            aiokafka=("IllegalSaslStateError",),
            kafkajs=("Request is not valid given the current SASL state",),
            franz_go=("ILLEGAL_SASL_STATE: …",),
            sarama=(
                "kafka server: This most likely occurs because of a request being malformed by the client library",
                "kafka server: Request is not valid given the current SASL state",
            ),
        ),
    ),
    Remedy(
        Fault.SASL_MECHANISM,
        "The broker has not enabled the SASL mechanism",
        "The client logs in with a mechanism that the listener does not offer.",
        "The message lists the enabled mechanisms. In the broker, `sasl.enabled.mechanisms` has them.",
        "Set `sasl.mechanism` of the client to one of the enabled mechanisms, or enable the client's mechanism in the "
        "broker.",
        program_messages(
            java=(
                "UnsupportedSaslMechanismException: Client SASL mechanism '…' not enabled in the server, enabled mechanisms are",
                "Client SASL mechanism '…' not enabled in the server, enabled mechanisms are",
            ),
            librdkafka=(
                "…SASL … mechanism handshake failed: Broker: Unsupported SASL mechanism",
                "Broker: Unsupported SASL mechanism",
            ),
            kafka_python=(
                "Kafka broker does not support … sasl mechanism. Enabled mechanisms: …",
                "SaslHandshake failed: UnsupportedSaslMechanismError",
                "UnsupportedSaslMechanismError",
                *DISCONNECTED_PYTHON,
            ),
            aiokafka=("UnsupportedSaslMechanismError",),
            kafkajs=(
                "SASL … mechanism is not supported by the server",
                "The broker does not support the requested SASL mechanism",
            ),
            franz_go=("UNSUPPORTED_SASL_MECHANISM: …",),
            sarama=(
                "kafka server: The broker does not support the requested SASL mechanism",
                "Invalid SASL Mechanism : …",
            ),
            broker=("Unsupported SASL mechanism … requested by client",),
        ),
    ),
    Remedy(
        Fault.CREDENTIALS_REFUSED,
        "The broker refuses the user or password",
        "The broker knows the mechanism, but not this user with this password or token. With SCRAM, the user may exist "
        "on another cluster only, or for another mechanism.",
        "`kafka-configs --describe --entity-type users --bootstrap-server HOST:PORT` lists the users of SCRAM. The "
        "broker's log has a line `Failed authentication with`.",
        "Correct `sasl.jaas.config`, `sasl.username` and `sasl.password`. Look for quotes, spaces and special "
        "characters in the password. For tokens, check issuer, audience, scope and expiry.",
        program_messages(
            java=(
                "SaslAuthenticationException: Authentication failed: Invalid username or password",
                "SaslAuthenticationException: Authentication failed during authentication due to invalid credentials with SASL mechanism",
                "failed authentication due to: Authentication failed…",
                'SaslAuthenticationException: {"status":"invalid_token"}',
                "SaslAuthenticationException: …",
            ),
            librdkafka=(
                "SASL authentication error: Authentication failed: Invalid username or password",
                "SASL authentication error: Authentication failed during authentication due to invalid credentials",
                "SASL authentication error: …",
                "Local: Authentication failure",
                "Broker: SASL Authentication failed",
            ),
            kafka_python=("SaslAuthenticationFailedError", "Failed to authenticate via SASL", *DISCONNECTED_PYTHON),
            aiokafka=("AuthenticationFailedError", "AuthenticationFailed"),
            kafkajs=(
                "SASL PLAIN authentication failed: …",
                "SASL SCRAM SHA… authentication failed: …",
                "KafkaJSSASLAuthenticationError",
            ),
            franz_go=("SASL_AUTHENTICATION_FAILED: …", "unable to initialize sasl"),
            sarama=(
                "kafka server: SASL Authentication failed",
                "client/metadata failed SASL authentication",
                "kafka: client has run out of available brokers to talk to: … SASL Authentication failed",
            ),
            broker=(
                "Failed authentication with … (Authentication failed…)",
                "Failed authentication with … (channelId=…) (Authentication failed",
            ),
        ),
    ),
    Remedy(
        Fault.CREDENTIALS_UNREADABLE,
        "The client cannot read its credentials",
        "The file, the command, the login module or the token endpoint that has the client's credentials cannot be "
        "used. The client has not asked the broker yet.",
        "Open the file or run the command by hand, as the user of the client.",
        "Correct the path, the rights, or the class of the login module in `sasl.jaas.config`.",
        program_messages(
            java=(
                "Could not find a 'KafkaClient' entry in the JAAS configuration",
                "Failed to create SaslClient with mechanism …",
                SharedText("javax.security.auth.login.LoginException: No LoginModule found for …"),
                "JAAS config property does not contain any login modules",
                "JAAS config entry not terminated by semi-colon",
                "Login module not specified in JAAS config",
                "Failed to load SSL keystore … of type …",
                "Modification time of key store could not be obtained",
                "unable to find LoginModule class: org.apache.kafka.…",
            ),
            librdkafka=(
                "ssl.ca.location failed: …",
                "ssl.key.location failed: …",
                "ssl.certificate.location failed: …",
                "ssl.keystore.location failed: …",
                "Failed to acquire SASL OAUTHBEARER token: …",
                "sasl.username and sasl.password must be set",
            ),
            kafka_python=("sasl_plain_username required for", "sasl_plain_password required for"),
            aiokafka=("sasl_plain_username and sasl_plain_password required for PLAIN sasl",),
            kafkajs=(
                "SASL Plain: Invalid username or password",
                "SASL OAUTHBEARER: Missing OAuth bearer token provider",
            ),
            sarama=("Net.SASL.User must not be empty when SASL is enabled",),
            broker=("Could not find a 'KafkaServer' or '….KafkaServer' entry in the JAAS configuration",),
        ),
    ),
    Remedy(
        Fault.KERBEROS,
        "The login with Kerberos fails",
        "The client has no ticket, the KDC does not know the service principal of the broker's host name, or the clocks "
        "differ. Kerberos binds the login to the name to which the client has connected.",
        "`klist` shows the ticket. `kvno kafka/BROKER-HOST` asks the KDC for the service.",
        "Correct `sasl.kerberos.service.name`, the keytab and krb5.conf. Through kproxy, let kproxy log in "
        "(`--sasl GSSAPI`), because the client knows another host name.",
        program_messages(
            java=(
                "An error: (java.security.PrivilegedActionException: javax.security.sasl.SaslException: GSS initiate failed",
                SharedText("GSSException: No valid credentials provided (Mechanism level: …"),
                "Could not login: the client is being asked for a password, but the Kafka client code does not currently support",
                SharedText("KrbException: Server not found in Kerberos database (7)"),
                SharedText("KrbException: Clock skew too great (37)"),
            ),
            librdkafka=(
                "SASL handshake failed (step): SASL(-1): generic failure: GSSAPI Error: …",
                "SASL(-1): generic failure: GSSAPI Error: …",
                "kinit command …rdkafka… failed",
                "Kerberos ticket refresh failed: …",
            ),
            kafka_python=("GSSError: Major (…", "gssapi.raw.misc.GSSError: Major (…"),
            sarama=(
                "Kerberos client login error: …",
                "Kerberos service ticket error for …",
                "Kerberos init error as …",
            ),
        ),
    ),
    Remedy(
        Fault.NOT_AUTHORIZED,
        "The user lacks a right (ACL)",
        "The login is fine, or the cluster needs none, but an ACL does not allow this user this operation on the topic, "
        "group, transaction or cluster.",
        "`kafka-acls --list --bootstrap-server HOST:PORT` shows the rules. The broker's log "
        "(`kafka.authorizer.logger`) names the principal, the operation and the resource.",
        "Let an administrator add the rule: `kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:NAME "
        "--operation OPERATION --topic TOPIC` (or `--group`, `--cluster`, `--transactional-id`).",
        program_messages(
            java=(
                "TopicAuthorizationException: Not authorized to access topics: […]",
                "GroupAuthorizationException: Not authorized to access group: …",
                "ClusterAuthorizationException: …",
                "TransactionalIdAuthorizationException: …",
                "Error while fetching metadata with correlation id … : {…=TOPIC_AUTHORIZATION_FAILED}",
                "Not authorized to access topics: [",
                "Topic '…' does not exist as expected",
                "TopicAuthorizationException: …",
                "GroupAuthorizationException: …",
            ),
            librdkafka=(
                "Broker: Topic authorization failed",
                "Broker: Group authorization failed",
                "Broker: Cluster authorization failed",
                "Broker: Transactional Id authorization failed",
            ),
            kafka_python=(
                "TopicAuthorizationFailedError",
                "GroupAuthorizationFailedError",
                "ClusterAuthorizationFailedError",
                "TransactionalIdAuthorizationFailedError",
                "is not authorized for this client",
            ),
            kafkajs=(
                "Not authorized to access topics: [Topic authorization failed]",
                "Not authorized to access group: Group authorization failed",
                "Not authorized to access group",
            ),
            franz_go=(
                "TOPIC_AUTHORIZATION_FAILED: …",
                "GROUP_AUTHORIZATION_FAILED: …",
                "CLUSTER_AUTHORIZATION_FAILED: …",
            ),
            sarama=(
                "kafka server: The client is not authorized to access this topic",
                "kafka server: The client is not authorized to access this group",
                "kafka server: The client is not authorized to send this request type",
                "client is not authorized to access this topic. The topics were",
            ),
            broker=("Principal = … is Denied operation = … from host = … on resource = …",),
        ),
    ),
    Remedy(
        Fault.CLOCK,
        "A clock is wrong",
        "Certificates, tokens and Kerberos tickets are valid for a time, and one machine has the wrong time.",
        "Compare `date -u` on the client's machine and on the broker.",
        "Let the machine take its time from a time server (NTP).",
        program_messages(
            java=(SharedText("KrbException: Clock skew too great (37)"), "InvalidTimestampException: …"),
            librdkafka=("Broker: Invalid timestamp", "SSL handshake failed: …certificate is not yet valid"),
            kafka_python=("InvalidTimestampError", "certificate verify failed: certificate is not yet valid"),
        ),
    ),
)
