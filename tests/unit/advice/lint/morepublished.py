"""More examples that projects publish, written anew from their sources: each works, so nothing may be found in it.

A row: the source, the name of the file, its text.
"""

from __future__ import annotations

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"

_ISOLATED = "services:\n" + "".join(
    f"""\
  controller-{node}:
    image: ${{IMAGE}}
    environment:
      KAFKA_NODE_ID: {node}
      KAFKA_PROCESS_ROLES: controller
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@controller-1:9093,2@controller-2:9093
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_LISTENERS: CONTROLLER://:9093
  kafka-{node}:
    image: ${{IMAGE}}
    hostname: kafka-{node}
    ports: ['{node}9094:9094']
    volumes: ['./sasl:/etc/kafka/secrets']
    environment:
      KAFKA_NODE_ID: {node + 3}
      KAFKA_PROCESS_ROLES: broker
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT
      KAFKA_LISTENERS: SASL_PLAINTEXT://:19094,OUT://:9094
      KAFKA_ADVERTISED_LISTENERS: SASL_PLAINTEXT://kafka-{node}:19094,OUT://localhost:{node}9094
      KAFKA_INTER_BROKER_LISTENER_NAME: SASL_PLAINTEXT
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@controller-1:9093,2@controller-2:9093
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_SASL_ENABLED_MECHANISMS: PLAIN
      KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL: PLAIN
      KAFKA_OPTS: -Djava.security.auth.login.config=/etc/kafka/secrets/broker_jaas.conf
"""
    for node in (1, 2)
)

EXAMPLES = (
    (
        "github.com/apache/kafka docker/examples/docker-compose-files/cluster/isolated/sasl_plaintext",
        "docker-compose.yml",
        _ISOLATED,
    ),
    (
        "github.com/apache/kafka docker/examples/fixtures/client-secrets/client-ssl.properties",
        "client-ssl.properties",
        """
security.protocol=SSL
ssl.truststore.location=./secrets/kafka.truststore.jks
ssl.truststore.password=x
ssl.keystore.location=./secrets/client.keystore.jks
ssl.keystore.password=x
ssl.key.password=x
ssl.client.auth=required
ssl.endpoint.identification.algorithm=
""",
    ),
    (
        "github.com/apache/kafka config/controller.properties",
        "controller.properties",
        """
process.roles=controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-controller-logs
""",
    ),
    (
        "github.com/apache/kafka tests/kafkatest/services/templates/mirror_maker_consumer.properties",
        "consumer.properties",
        """
bootstrap.servers=worker1:9092,worker2:9092
group.id=mirrors
partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor
security.protocol=PLAINTEXT
""",
    ),
    (
        "docs.confluent.io/platform/current/ksqldb/operate-and-deploy/installation (Confluent Cloud)",
        "ksql-server.properties",
        f"""
ksql.service.id=shop_
bootstrap.servers=pkc-00000.eu-west-1.aws.confluent.cloud:9092
listeners=http://0.0.0.0:8088
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=\\
    {_PLAIN} \\
    username="KEY" \\
    password="SECRET";
ksql.streams.replication.factor=3
""",
    ),
    (
        "github.com/confluentinc/demo-scene ccloud-cube-demo/terraform/util/schema-registry.properties",
        "schema-registry.properties",
        f"""
schema.registry.group.id=shop
kafkastore.bootstrap.servers=SASL_SSL://pkc-00000.eu-west-1.aws.confluent.cloud:9092
kafkastore.security.protocol=SASL_SSL
kafkastore.sasl.mechanism=PLAIN
kafkastore.sasl.jaas.config={_PLAIN} username\\="KEY" password\\="SECRET";
listeners=http://0.0.0.0:8081
""",
    ),
    (
        "github.com/confluentinc/kafka-rest config/kafka-rest.properties",
        "kafka-rest.properties",
        """
id=rest-1
bootstrap.servers=PLAINTEXT://localhost:9092
listeners=http://0.0.0.0:8082,https://0.0.0.0:8085
schema.registry.url=http://localhost:8081
client.security.protocol=PLAINTEXT
""",
    ),
    (
        "github.com/confluentinc/demo-scene twitter-streams/docker-compose.yml (a container for tools)",
        "docker-compose.yml",
        """
services:
  zookeeper:
    image: confluentinc/cp-zookeeper:5.0.1
    environment: {ZOOKEEPER_CLIENT_PORT: 2181}
  kafka1:
    image: confluentinc/cp-enterprise-kafka:5.0.1
    environment:
      KAFKA_BROKER_ID: 1
      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka1:9091
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
  make-topics:
    image: confluentinc/cp-enterprise-kafka:5.0.1
    command: bash -c 'cub kafka-ready -b kafka1:9091 1 60 && kafka-topics --zookeeper zookeeper:2181 --list'
    environment:
      KAFKA_BROKER_ID: ignored
      KAFKA_ZOOKEEPER_CONNECT: ignored
""",
    ),
    (
        "github.com/confluentinc/demo-scene self-balancing/kafka-3-4.yml (brokers for a cluster of another file)",
        "kafka-3-4.yml",
        "services:\n"
        + "".join(
            f"""\
  kafka{node}:
    image: confluentinc/cp-server:6.0.0
    environment:
      KAFKA_BROKER_ID: {node}
      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka{node}:29092,HOST://localhost:909{node}
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 3
      KAFKA_CONFLUENT_METRICS_REPORTER_TOPIC_REPLICAS: 3
    ports: ['909{node}:909{node}']
"""
            for node in (3, 4)
        ),
    ),
    (
        "github.com/kafbat/kafka-ui documentation/compose/ui-sasl.yaml",
        "ui-sasl.yaml",
        f"""
services:
  kafbat-ui:
    image: ghcr.io/kafbat/kafka-ui:latest
    environment:
      KAFKA_CLUSTERS_0_NAME: local
      KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS: kafka:29092
      KAFKA_CLUSTERS_0_PROPERTIES_SECURITY_PROTOCOL: SASL_PLAINTEXT
      KAFKA_CLUSTERS_0_PROPERTIES_SASL_MECHANISM: PLAIN
      KAFKA_CLUSTERS_0_PROPERTIES_SASL_JAAS_CONFIG: '{_PLAIN} username="admin" password="x";'
  kafka:
    image: confluentinc/cp-kafka:7.8.0
    hostname: kafka
    ports: ["9092:9092", "9997:9997"]
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: 'broker,controller'
      KAFKA_LISTENERS: 'SASL_PLAINTEXT://kafka:29092,CONTROLLER://kafka:29093,HOST://0.0.0.0:9092'
      KAFKA_ADVERTISED_LISTENERS: 'SASL_PLAINTEXT://kafka:29092,HOST://localhost:9092'
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,HOST:PLAINTEXT'
      KAFKA_INTER_BROKER_LISTENER_NAME: 'SASL_PLAINTEXT'
      KAFKA_SASL_ENABLED_MECHANISMS: 'PLAIN'
      KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL: 'PLAIN'
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER'
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@kafka:29093'
      KAFKA_OPTS: "-Djava.security.auth.login.config=/etc/kafka/jaas/kafka_server.conf"
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      KAFKA_JMX_PORT: 9997
      CLUSTER_ID: 'bGludC1leGFtcGxlLTAwMQ'
    volumes: ['./jaas:/etc/kafka/jaas']
""",
    ),
    (
        "github.com/debezium/debezium-examples kafka-ssl/docker-compose.yaml",
        "docker-compose.yaml",
        """
services:
  kafka:
    image: quay.io/debezium/kafka:${DEBEZIUM_VERSION}
    ports: ["9092:9092"]
    environment:
      - ZOOKEEPER_CONNECT=zookeeper:2181
      - KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT
      - KAFKA_LISTENERS=BROKER://0.0.0.0:9093,SSL://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094
      - KAFKA_ADVERTISED_LISTENERS=SSL://localhost:9092,BROKER://localhost:9093
      - KAFKA_SSL_KEYSTORE_LOCATION=/opt/ssl/keystore.p12
      - KAFKA_INTER_BROKER_LISTENER_NAME=BROKER
  connect:
    image: quay.io/debezium/connect:${DEBEZIUM_VERSION}
    network_mode: host
    environment:
      - BOOTSTRAP_SERVERS=localhost:9092
      - CONNECT_SECURITY_PROTOCOL=SSL
      - CONNECT_SSL_TRUSTSTORE_LOCATION=/opt/ssl/truststore.p12
      - CONNECT_PRODUCER_SECURITY_PROTOCOL=SSL
      - CONNECT_PRODUCER_SSL_TRUSTSTORE_LOCATION=/opt/ssl/truststore.p12
      - CONNECT_CONSUMER_SECURITY_PROTOCOL=SSL
      - CONNECT_CONSUMER_SSL_TRUSTSTORE_LOCATION=/opt/ssl/truststore.p12
""",
    ),
    (
        "github.com/debezium/debezium-examples postgres-kafka-signal/connector.json",
        "connector.json",
        """
{"name": "signals", "config": {
  "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
  "database.hostname": "postgres",
  "database.dbname": "postgres",
  "topic.prefix": "test",
  "signal.enabled.channels": "source,kafka",
  "signal.kafka.topic": "signals",
  "signal.kafka.bootstrap.servers": "broker:29092"
}}
""",
    ),
    (
        "debezium.io/documentation/reference/connectors/mysql (TLS for the schema history)",
        "register-mysql.json",
        """
{"name": "inventory", "config": {
  "connector.class": "io.debezium.connector.mysql.MySqlConnector",
  "database.hostname": "mysql",
  "database.server.id": "184054",
  "topic.prefix": "fulfillment",
  "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
  "schema.history.internal.kafka.topic": "history.fulfillment",
  "schema.history.internal.producer.security.protocol": "SSL",
  "schema.history.internal.producer.ssl.keystore.location": "/var/ssl/server.jks",
  "schema.history.internal.consumer.security.protocol": "SSL",
  "schema.history.internal.consumer.ssl.keystore.location": "/var/ssl/server.jks"
}}
""",
    ),
    (
        "github.com/Azure/azure-event-hubs-for-kafka tutorials/mirror-maker-2",
        "mm2.properties",
        f"""
clusters = source, destination
source.bootstrap.servers = your-kafka-cluster-hostname:9092
destination.bootstrap.servers = <your-namespace>.servicebus.windows.net:9093
destination.security.protocol=SASL_SSL
destination.sasl.mechanism=PLAIN
destination.sasl.jaas.config={_PLAIN} username='$ConnectionString' password='<your connection string>';
source->destination.enabled = true
replication.factor=3
""",
    ),
    (
        "github.com/Azure/azure-event-hubs-for-kafka tutorials/oauth/java/appsecret/consumer",
        "consumer.config",
        f"""
bootstrap.servers=<your-namespace>.servicebus.windows.net:9093
group.id=$Default
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.jaas.config={_OAUTH};
sasl.login.callback.handler.class=CustomAuthenticateCallbackHandler
""",
    ),
    (
        "github.com/Azure/azure-event-hubs-for-kafka tutorials/logstash/jaas.conf",
        "jaas.conf",
        """
KafkaClient {
    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="$ConnectionString"
        password="Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=x";
};
""",
    ),
    (
        "github.com/spring-cloud/spring-cloud-stream-samples multi-binder-samples/kafka-multi-binder-jaas",
        "application.yml",
        f"""
spring.cloud.stream:
  binders:
    kafka1:
      type: kafka
      environment:
        spring.cloud.stream.kafka.binder:
          brokers: localhost:9092
          configuration.sasl.jaas.config: "{_PLAIN} username='admin' password='x';"
    kafka2:
      type: kafka
      environment:
        spring:
          cloud:
            stream:
              kafka:
                binder:
                  brokers: localhost:9093
                  configuration.sasl.jaas.config: "{_PLAIN} username='foo' password='x';"
  kafka.binder:
    configuration:
      security.protocol: SASL_PLAINTEXT
      sasl.mechanism: PLAIN
""",
    ),
    (
        "github.com/spring-cloud/spring-cloud-stream-samples kafka-security-samples/kafka-ssl-demo",
        "application.yml",
        """
spring.cloud.stream:
  bindings:
    consumer-in-0: {destination: ssl-demo}
  kafka.binder:
    brokers: localhost:9093
    configuration:
      security.protocol: SSL
      ssl.truststore.location: classpath:client.truststore
      ssl.truststore.type: JKS
      ssl.endpoint.identification.algorithm:
""",
    ),
    (
        "github.com/quarkusio/quarkus-quickstarts kafka-streams-quickstart/docker-compose.yaml",
        "docker-compose.yaml",
        """
services:
  kafka:
    image: quay.io/strimzi/kafka:latest-kafka-4.1.0
    command: ["sh", "-c", "bin/kafka-storage.sh format --standalone -t $$(bin/kafka-storage.sh random-uuid)"]
    ports: ["9092:9092"]
    environment:
      LOG_DIR: "/tmp/logs"
      KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT://kafka:9092'
    networks: [kafkastreams-network]
  aggregator:
    image: quarkus-quickstarts/kafka-streams-aggregator:1.0
    environment:
      QUARKUS_KAFKA_STREAMS_BOOTSTRAP_SERVERS: kafka:9092
    networks: [kafkastreams-network]
networks:
  kafkastreams-network: {name: ks}
""",
    ),
    (
        "github.com/strimzi/strimzi-kafka-operator packaging/examples/mirror-maker/kafka-mirror-maker-2-tls.yaml",
        "kafka-mirror-maker-2-tls.yaml",
        """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: my-mirror-maker-2}
spec:
  replicas: 1
  target:
    alias: cluster-b
    bootstrapServers: cluster-b-kafka-bootstrap:9093
    tls:
      trustedCertificates:
        - {secretName: cluster-b-cluster-ca-cert, pattern: "*.crt"}
  mirrors:
    - source:
        alias: cluster-a
        bootstrapServers: cluster-a-kafka-bootstrap:9093
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: cluster-b}
spec:
  kafka:
    listeners:
      - {name: tls, port: 9093, type: internal, tls: true, authentication: {type: scram-sha-512}}
    authorization: {type: simple}
    config: {default.replication.factor: 3, min.insync.replicas: 2}
""",
    ),
    (
        "github.com/redpanda-data/redpanda-labs docker-compose/redpanda-migrator-demo/docker-compose.yml",
        "docker-compose.yml",
        "services:\n"
        + "".join(
            f"""\
  redpanda-{name}:
    image: docker.redpanda.com/redpandadata/redpanda:${{REDPANDA_VERSION:-v25.3.4}}
    hostname: redpanda-{name}
    command:
      - redpanda
      - start
      - --kafka-addr internal://0.0.0.0:9092,external://0.0.0.0:{digit}9092
      - --advertise-kafka-addr internal://redpanda-{name}:9092,external://localhost:{digit}9092
      - --schema-registry-addr internal://0.0.0.0:8081,external://0.0.0.0:{digit}8081
      - --rpc-addr redpanda-{name}:33145
    ports: ["{digit}9092:{digit}9092", "{digit}8081:{digit}8081"]
"""
            for name, digit in (("source", 1), ("target", 2))
        ),
    ),
    (
        "github.com/bitnami/charts bitnami/kafka/values.yaml (addresses of its own for one broker)",
        "values.yaml",
        """
controller:
  replicaCount: 1
listeners:
  client: {containerPort: 9092, protocol: PLAINTEXT, name: CLIENT}
  advertisedListeners: "CLIENT://kafka.example.com:9092,INTERNAL://kafka-controller-0.kafka:9094"
""",
    ),
    (
        "learn.microsoft.com/dotnet/aspire/messaging/kafka-integration",
        "appsettings.json",
        """
{
  "ConnectionStrings": {"kafka-messaging": "broker.example.com:9092"},
  "Aspire": {"Confluent": {"Kafka": {"Producer": {
    "DisableHealthChecks": false,
    "Config": {"Acks": "All", "SecurityProtocol": "SaslSsl", "SaslMechanism": "ScramSha512",
               "SaslUsername": "u", "SaslPassword": "p", "SslCaLocation": "/etc/ssl/ca.pem"}
  }}}}
}
""",
    ),
    (
        "docs.confluent.io/kafka-clients/dotnet (Confluent Cloud, in appsettings.json)",
        "appsettings.json",
        """
{
  "Logging": {"LogLevel": {"Default": "Information"}},
  "ConnectionStrings": {"Orders": "Host=db;Port=5432;Database=orders"},
  "Kafka": {
    "BootstrapServers": "pkc-00000.eu-west-1.aws.confluent.cloud:9092",
    "SecurityProtocol": "SaslSsl",
    "SaslMechanism": "Plain",
    "SaslUsername": "KEY",
    "SaslPassword": "SECRET"
  }
}
""",
    ),
    (
        "kubernetes.io and kafka.apache.org: a StatefulSet of KRaft nodes with a headless Service",
        "kafka.yaml",
        """
apiVersion: v1
kind: Service
metadata: {name: kafka-headless}
spec:
  clusterIP: None
  selector: {app: kafka}
  ports: [{port: 9092, name: clients}, {port: 9093, name: controllers}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kafka}
spec:
  serviceName: kafka-headless
  replicas: 3
  selector: {matchLabels: {app: kafka}}
  template:
    metadata: {labels: {app: kafka}}
    spec:
      containers:
        - name: kafka
          image: apache/kafka:4.0.0
          command: ["/bin/sh", "-c", "export KAFKA_NODE_ID=${HOSTNAME##*-} && exec /etc/kafka/docker/run"]
          env:
            - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: KAFKA_PROCESS_ROLES, value: "broker,controller"}
            - {name: KAFKA_LISTENERS, value: "PLAINTEXT://:9092,CONTROLLER://:9093"}
            - {name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://$(POD_NAME).kafka-headless:9092"}
            - {name: KAFKA_CONTROLLER_LISTENER_NAMES, value: CONTROLLER}
            - name: KAFKA_CONTROLLER_QUORUM_VOTERS
              value: "0@kafka-0.kafka-headless:9093,1@kafka-1.kafka-headless:9093,2@kafka-2.kafka-headless:9093"
""",
    ),
)
