"""The rules for clients, logins and operators; `table` reads this, and describes its form (pure)."""

from __future__ import annotations

TABLE = """
# Clients
bootstrap-syntax error CONFIGURATION
    A bootstrap server is HOST:PORT.
    - bootstrap.servers=kafka.example.com
    + bootstrap.servers=kafka.example.com:9092
client-setting-spelling error CONFIGURATION
    The program does not know this name, and connects to localhost or does not start.
    - spring.kafka.bootstrap-server=kafka.example.com:9092
    + spring.kafka.bootstrap-servers=kafka.example.com:9092
bootstrap-scheme warning CONFIGURATION
    A bootstrap server is HOST:PORT. Java ignores a scheme before it, librdkafka refuses one that is not its
    security.protocol, and most other clients take it for a part of the name.
    - bootstrap.servers=PLAINTEXT://kafka.example.com:9092
    + bootstrap.servers=kafka.example.com:9092
bootstrap-not-kafka error NOT_KAFKA
    ZooKeeper, Schema Registry, Kafka Connect and others have this port. Clients of Kafka connect to brokers.
    - bootstrap.servers=zookeeper:2181
    + bootstrap.servers=kafka:9092
bootstrap-loopback error LOOPBACK_ADVERTISED
    In a container, localhost is the container itself, and no broker is there.
    - BOOTSTRAP_SERVERS: localhost:9092
    + BOOTSTRAP_SERVERS: kafka:9092
bootstrap-port error PORT_CLOSED
    Nothing listens for clients at this port.
    - BOOTSTRAP_SERVERS: kafka:19092
    + BOOTSTRAP_SERVERS: kafka:9092
bootstrap-network error NAME_NOT_RESOLVED
    The two containers have no network in common.
    - networks: [outer]
    + networks: [inner]
bootstrap-controller error WRONG_LISTENER
    A controller's listener does not serve clients.
    - BOOTSTRAP_SERVERS: kafka:9093
    + BOOTSTRAP_SERVERS: kafka:9092
client-protocol error PLAINTEXT_TO_TLS
    Client and listener must speak the same protocol.
    - security.protocol=PLAINTEXT
    + security.protocol=SASL_SSL
client-protocol-unknown error CONFIGURATION
    Kafka supports PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL.
    - security.protocol=TLS
    + security.protocol=SSL
client-mechanism-unknown error SASL_MECHANISM
    Kafka's mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI and OAUTHBEARER, spelt exactly so; Amazon MSK has
    AWS_MSK_IAM too.
    - sasl.mechanism=SCRAM-SHA512
    + sasl.mechanism=SCRAM-SHA-512
client-mechanism error SASL_MECHANISM
    The listener has not enabled this mechanism.
    - sasl.mechanism=PLAIN
    + sasl.mechanism=SCRAM-SHA-512
foreign-setting error CONFIGURATION
    Java's clients and librdkafka have different names for logins and certificates. Java ignores a name of librdkafka,
    and librdkafka refuses one of Java.
    - sasl.username=alice
    - sasl.password=secret
    + sasl.jaas.config=...PlainLoginModule required username="alice" password="secret";
    = https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
store-type error TLS_FAILED
    Java takes a store for a key store of its own, unless its type is PEM.
    - ssl.truststore.location=/etc/ca.pem
    + ssl.truststore.location=/etc/ca.pem
    + ssl.truststore.type=PEM
    = https://cwiki.apache.org/confluence/display/KAFKA/KIP-651
connector-clients error LOGIN_NEEDED
    A worker of Kafka Connect does not pass its own login and TLS on to its connectors: their settings begin with
    producer. and consumer.
    - security.protocol=SASL_SSL
    + security.protocol=SASL_SSL
    + producer.security.protocol=SASL_SSL
    + consumer.security.protocol=SASL_SSL
    = https://docs.confluent.io/platform/current/connect/security.html
connector-setting-renamed error CONFIGURATION
    Since version 2.0, Debezium has these settings under other names: topic.prefix and schema.history.internal. It
    ignores the names before, and does not start without the new ones.
    - "topic.prefix": "shop", "database.history.kafka.bootstrap.servers": "kafka:9092"
    + "topic.prefix": "shop", "schema.history.internal.kafka.bootstrap.servers": "kafka:9092"
    = https://debezium.io/releases/2.0/release-notes
compose-dollar error CREDENTIALS_REFUSED
    Docker Compose takes $NAME for a variable, and replaces it by nothing if it has no value. $$ is a dollar sign.
    - SASL_JAAS_CONFIG: ...PlainLoginModule required username="$ConnectionString" ...;
    + SASL_JAAS_CONFIG: ...PlainLoginModule required username="$$ConnectionString" ...;
    = https://docs.docker.com/reference/compose-file/interpolation/

# Logins with JAAS
jaas-semicolon error CREDENTIALS_UNREADABLE
    A JAAS entry ends with one semicolon, after its last option, and so does a section of a JAAS file. Without it, or
    with one before, Java reads no entry.
    - sasl.jaas.config=...PlainLoginModule required username="u" password="p"
    + sasl.jaas.config=...PlainLoginModule required username="u" password="p";
jaas-flag error CREDENTIALS_UNREADABLE
    A control flag follows the class of the login module: required. Without it, Java reads no entry.
    - sasl.jaas.config=...PlainLoginModule username="u" password="p";
    + sasl.jaas.config=...PlainLoginModule required username="u" password="p";
jaas-quotes error CREDENTIALS_UNREADABLE
    In a JAAS entry each value stands in quotes, and a quote ends on its line. The entry itself has none around it.
    - sasl.jaas.config=...PlainLoginModule required username="u" password="p;
    + sasl.jaas.config=...PlainLoginModule required username="u" password="p";
jaas-option error CREDENTIALS_UNREADABLE
    The options of a login module are KEY="VALUE", with spaces between them.
    - sasl.jaas.config=...PlainLoginModule required username="u", password="p";
    + sasl.jaas.config=...PlainLoginModule required username="u" password="p";
jaas-block error CREDENTIALS_UNREADABLE
    sasl.jaas.config has one login module. Sections such as KafkaClient { … }; belong into a JAAS file.
    - sasl.jaas.config=KafkaClient { ...PlainLoginModule required; };
    + sasl.jaas.config=...PlainLoginModule required;
jaas-section error CREDENTIALS_UNREADABLE
    A JAAS file has sections: NAME { MODULE required KEY="VALUE" …; };
    - ...PlainLoginModule required;
    + KafkaServer { ...PlainLoginModule required; };
jaas-module error SASL_MECHANISM
    Each mechanism has a login module of its own: PlainLoginModule for PLAIN, ScramLoginModule for SCRAM.
    - sasl.mechanism=SCRAM-SHA-512
    - sasl.jaas.config=...PlainLoginModule required username="u" password="p";
    + sasl.mechanism=SCRAM-SHA-512
    + sasl.jaas.config=...ScramLoginModule required username="u" password="p";
jaas-own-user warning CREDENTIALS_REFUSED
    Brokers log in to one another as the username of their login module. PLAIN accepts only users with a user_ entry.
    - ...PlainLoginModule required username="admin" password="..." user_alice="...";
    + ...PlainLoginModule required username="admin" password="..." user_admin="..." user_alice="...";
jaas-handler error CREDENTIALS_UNREADABLE
    The module asks a callback handler for the credentials. Without the one of its own library, the client has none.
    - sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;
    + sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;
    + sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
    = https://github.com/aws/aws-msk-iam-auth#configuring-a-kafka-client-to-use-aws-iam-with-aws_msk_iam-mechanism

# Clouds
cloud-protocol error PLAINTEXT_TO_TLS
    At this address the cloud's brokers speak another protocol.
    - bootstrap.servers=shop.servicebus.windows.net:9093
    - security.protocol=SASL_PLAINTEXT
    + bootstrap.servers=shop.servicebus.windows.net:9093
    + security.protocol=SASL_SSL
cloud-mechanism error SASL_MECHANISM
    At this address the cloud's brokers have other mechanisms.
    - sasl.mechanism=PLAIN
    + sasl.mechanism=SCRAM-SHA-512
cloud-port error PORT_CLOSED
    The cloud's brokers do not listen at this port.
    - bootstrap.servers=shop.servicebus.windows.net:9092
    + bootstrap.servers=shop.servicebus.windows.net:9093
cloud-user error CREDENTIALS_REFUSED
    For a connection string, the user name of Azure Event Hubs is the word $ConnectionString itself.
    - username="RootManageSharedAccessKey"
    + username="$ConnectionString"
    = https://learn.microsoft.com/azure/event-hubs/azure-event-hubs-apache-kafka-overview

# Operators and charts
operator-listener-name error LISTENER_CONFIGURATION
    The operator refuses this name.
    - name: Plain_1
    + name: plain1
operator-listener-port error LISTENER_CONFIGURATION
    The operator refuses this port.
    - port: 9091
    + port: 9092
operator-listener-type error LISTENER_CONFIGURATION
    The operator has no such type.
    - type: LoadBalancer
    + type: loadbalancer
operator-listener-tls error TLS_TO_PLAINTEXT
    This type routes by the name in the TLS handshake: it does not work without TLS.
    - {name: route, port: 9097, type: route, tls: false}
    + {name: route, port: 9097, type: route, tls: true}
operator-host-missing error NAME_NOT_RESOLVED
    The operator cannot know the name by which clients reach this listener.
    - {name: out, port: 9096, type: ingress, tls: true}
    + configuration: {bootstrap: {host: bootstrap.example.com}}
operator-setting-ignored warning CONFIGURATION
    The operator makes this setting itself, and ignores yours.
    - config: {advertised.listeners: "PLAINTEXT://kafka:9092"}
    + config: {}
operator-advertised error LOOPBACK_ADVERTISED
    Clients cannot reach a broker at this address.
    - advertisedHost: localhost
    + advertisedHost: kafka-0.example.com
operator-authentication error CLIENT_CERTIFICATE_MISSING
    A login with client certificates needs TLS on the listener.
    - {name: tls, port: 9093, type: internal, tls: false, authentication: {type: tls}}
    + {name: tls, port: 9093, type: internal, tls: true, authentication: {type: tls}}
operator-version warning CONFIGURATION
    Newer versions of the operator refuse this.
    - spec: {zookeeper: {replicas: 3}}
    + kind: KafkaNodePool
chart-external-access error NAME_NOT_RESOLVED
    Bitnami's chart refuses external access with fewer ports or addresses than brokers, and without a way to find them.
    - externalAccess: {enabled: true, controller: {service: {type: NodePort, nodePorts: [30001]}}}
    + externalAccess: {enabled: true, controller: {service: {type: NodePort, nodePorts: [30001, 30002, 30003]}}}
    = https://github.com/bitnami/charts/tree/main/bitnami/kafka
"""
