"""Examples that projects publish, written anew from their sources: each works, so nothing may be found in it.

A row: the source, the name of the file, its text.
"""

from __future__ import annotations

_APACHE_BROKER = """\
    environment: &broker
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@broker:29093
      KAFKA_LISTENERS: CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
      KAFKA_INTER_BROKER_LISTENER_NAME: PLAINTEXT
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      CLUSTER_ID: bGludC1leGFtcGxlLTAwMQ
"""
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"

EXAMPLES = (
    (
        "github.com/kafbat/kafka-ui documentation/compose/subject-strategy-demo/docker-compose.yaml",
        "docker-compose.yml",
        f"services:\n  broker:\n    image: apache/kafka:4.1.0\n    ports: ['9092:9092']\n{_APACHE_BROKER}"
        "  init-topic:\n    image: confluentinc/cp-kafka:7.8.0\n    environment:\n"
        "      KAFKA_BOOTSTRAP_SERVERS: broker:19092\n"
        "    command: kafka-topics --create --topic some --bootstrap-server broker:19092\n",
    ),
    (
        "github.com/apache/kafka docker/examples/docker-compose-files/single-node/plaintext/docker-compose.yml",
        "docker-compose.yml",
        f"services:\n  broker:\n    image: apache/kafka:4.1.0\n    ports: ['9092:9092']\n{_APACHE_BROKER}",
    ),
    (
        "github.com/apache/kafka docker/examples/docker-compose-files/single-node/ssl/docker-compose.yml",
        "docker-compose.yml",
        """
services:
  broker:
    image: ${IMAGE:-apache/kafka:4.1.0}
    ports: ['9093:9093']
    volumes: ['./secrets:/etc/kafka/secrets']
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENERS: SSL://:9093,CONTROLLER://:29093,SSL-INTERNAL://:19093
      KAFKA_ADVERTISED_LISTENERS: SSL://localhost:9093,SSL-INTERNAL://broker:19093
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: SSL:SSL,CONTROLLER:PLAINTEXT,SSL-INTERNAL:SSL
      KAFKA_INTER_BROKER_LISTENER_NAME: SSL-INTERNAL
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@broker:29093
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      KAFKA_SSL_KEYSTORE_FILENAME: kafka01.keystore.jks
      KAFKA_SSL_KEYSTORE_CREDENTIALS: kafka_keystore_creds
      KAFKA_SSL_KEY_CREDENTIALS: kafka_ssl_key_creds
      KAFKA_SSL_CLIENT_AUTH: required
""",
    ),
    (
        "github.com/apache/kafka config/connect-distributed.properties",
        "connect-distributed.properties",
        """
bootstrap.servers=localhost:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.topic=connect-offsets
config.storage.topic=connect-configs
status.storage.topic=connect-status
""",
    ),
    (
        "github.com/apache/kafka config/connect-mirror-maker.properties",
        "connect-mirror-maker.properties",
        """
clusters = A, B
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092
A->B.enabled = true
A->B.topics = .*
replication.factor=1
""",
    ),
    (
        "kafka.apache.org/documentation#security_sasl_scram_brokerconfig",
        "kafka_server_jaas.conf",
        f"""
KafkaServer {{
    {_SCRAM}
    username="admin"
    password="admin-secret";
}};
""",
    ),
    (
        "kafka.apache.org/documentation#security_sasl_kerberos_clientconfig",
        "client.properties",
        """
security.protocol=SASL_PLAINTEXT
sasl.mechanism=GSSAPI
sasl.kerberos.service.name=kafka
sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required \\
    useKeyTab=true \\
    storeKey=true  \\
    keyTab="/etc/security/keytabs/kafka_client.keytab" \\
    principal="kafka-client-1@EXAMPLE.COM";
""",
    ),
    (
        "github.com/confluentinc/cp-all-in-one cp-all-in-one-community/docker-compose.yml",
        "docker-compose.yml",
        """
services:
  broker:
    image: confluentinc/cp-kafka:8.2.0
    hostname: broker
    ports: ["9092:9092", "9101:9101"]
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: 'broker,controller'
      KAFKA_LISTENERS: 'PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092'
      KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092'
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT'
      KAFKA_INTER_BROKER_LISTENER_NAME: 'PLAINTEXT'
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER'
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@broker:29093'
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      CLUSTER_ID: 'bGludC1leGFtcGxlLTAwMQ'
  schema-registry:
    image: confluentinc/cp-schema-registry:8.2.0
    environment:
      SCHEMA_REGISTRY_HOST_NAME: schema-registry
      SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS: 'broker:29092'
  connect:
    image: cnfldemos/kafka-connect-datagen:0.6.4-7.6.0
    environment:
      CONNECT_BOOTSTRAP_SERVERS: 'broker:29092'
      CONNECT_GROUP_ID: compose-connect-group
""",
    ),
    (
        "github.com/confluentinc/cp-all-in-one cp-all-in-one-cloud/docker-compose.yml",
        "docker-compose.yml",
        """
services:
  connect:
    image: cnfldemos/cp-server-connect-datagen:0.6.4-7.6.0
    environment:
      CONNECT_BOOTSTRAP_SERVERS: $BOOTSTRAP_SERVERS
      CONNECT_SECURITY_PROTOCOL: SASL_SSL
      CONNECT_SASL_JAAS_CONFIG: $SASL_JAAS_CONFIG
      CONNECT_SASL_MECHANISM: PLAIN
      CONNECT_PRODUCER_SECURITY_PROTOCOL: SASL_SSL
      CONNECT_PRODUCER_SASL_JAAS_CONFIG: $SASL_JAAS_CONFIG
      CONNECT_PRODUCER_SASL_MECHANISM: PLAIN
      CONNECT_CONSUMER_SECURITY_PROTOCOL: SASL_SSL
      CONNECT_CONSUMER_SASL_JAAS_CONFIG: $SASL_JAAS_CONFIG
      CONNECT_CONSUMER_SASL_MECHANISM: PLAIN
""",
    ),
    (
        "github.com/confluentinc/examples clients/docs/includes/configs/cloud/librdkafka.config",
        "librdkafka.config",
        """
bootstrap.servers=pkc-00000.us-west-2.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.mechanisms=PLAIN
sasl.username=KEY
sasl.password=SECRET
session.timeout.ms=45000
""",
    ),
    (
        "github.com/confluentinc/examples clients/docs/includes/configs/cloud/java.config",
        "java.config",
        f"""
bootstrap.servers=pkc-00000.us-west-2.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.jaas.config={_PLAIN} username='KEY' password='SECRET';
sasl.mechanism=PLAIN
client.dns.lookup=use_all_dns_ips
acks=all
""",
    ),
    (
        "github.com/confluentinc/examples clients/docs/includes/configs/cloud/springboot.config",
        "application.properties",
        f"""
spring.kafka.properties.sasl.mechanism=PLAIN
spring.kafka.bootstrap-servers={{{{ BROKER_ENDPOINT }}}}
spring.kafka.properties.sasl.jaas.config={_PLAIN} username='{{{{ KEY }}}}' password='{{{{ SECRET }}}}';
spring.kafka.properties.security.protocol=SASL_SSL
""",
    ),
    (
        "github.com/confluentinc/cp-helm-charts charts/cp-kafka/values.yaml",
        "values.yaml",
        """
brokers: 3
image: confluentinc/cp-server
imageTag: 6.1.0
configurationOverrides:
  "offsets.topic.replication.factor": "3"
  "advertised.listeners": |-
    EXTERNAL://${HOST_IP}:$((31090 + ${KAFKA_BROKER_ID}))
  "listener.security.protocol.map": |-
    PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT
nodeport:
  enabled: true
  firstListenerPort: 31090
""",
    ),
    (
        "github.com/confluentinc/confluent-kubernetes-examples quickstart-deploy/confluent-platform.yaml",
        "confluent-platform.yaml",
        """
apiVersion: platform.confluent.io/v1beta1
kind: Kafka
metadata: {name: kafka, namespace: confluent}
spec:
  replicas: 3
  image:
    application: confluentinc/cp-server:7.9.0
  dependencies:
    zookeeper:
      endpoint: zookeeper.confluent.svc.cluster.local:2181
---
apiVersion: platform.confluent.io/v1beta1
kind: Connect
metadata: {name: connect, namespace: confluent}
spec:
  dependencies:
    kafka:
      bootstrapEndpoint: kafka:9071
""",
    ),
    (
        "github.com/bitnami/charts bitnami/kafka/README.md (external access with node ports)",
        "values.yaml",
        """
controller:
  replicaCount: 3
listeners:
  client: {protocol: SASL_PLAINTEXT}
  external: {protocol: SASL_SSL}
externalAccess:
  enabled: true
  controller:
    service:
      type: NodePort
      domain: kafka.example.com
      nodePorts: [30091, 30092, 30093]
""",
    ),
    (
        "github.com/bitnami/containers bitnami/kafka/docker-compose.yml",
        "docker-compose.yml",
        """
services:
  kafka:
    image: docker.io/bitnami/kafka:4.0
    ports: ["9092:9092"]
    volumes: ["kafka_data:/bitnami"]
    environment:
      - KAFKA_CFG_NODE_ID=0
      - KAFKA_CFG_PROCESS_ROLES=controller,broker
      - KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=0@kafka:9093
      - KAFKA_CFG_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093
      - KAFKA_CFG_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092
      - KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
      - KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER
      - KAFKA_CFG_INTER_BROKER_LISTENER_NAME=PLAINTEXT
""",
    ),
    (
        "github.com/strimzi/strimzi-kafka-operator packaging/examples/kafka/kafka-ephemeral.yaml",
        "kafka-ephemeral.yaml",
        """
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata:
  name: broker
  labels: {strimzi.io/cluster: my-cluster}
spec:
  replicas: 3
  roles: [broker]
  storage: {type: ephemeral}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: my-cluster}
spec:
  kafka:
    listeners:
      - {name: plain, port: 9092, type: internal, tls: false}
      - {name: tls, port: 9093, type: internal, tls: true}
    config:
      offsets.topic.replication.factor: 3
      transaction.state.log.replication.factor: 3
      default.replication.factor: 3
""",
    ),
    (
        "docs.redpanda.com/current/get-started/quick-start (one broker)",
        "docker-compose.yml",
        """
services:
  redpanda-0:
    image: docker.redpanda.com/redpandadata/redpanda:v24.2.4
    command:
      - redpanda
      - start
      - --kafka-addr internal://0.0.0.0:9092,external://0.0.0.0:19092
      - --advertise-kafka-addr internal://redpanda-0:9092,external://localhost:19092
      - --rpc-addr redpanda-0:33145
      - --mode dev-container
    ports: ["18081:18081", "19092:19092", "19644:9644"]
  console:
    image: docker.redpanda.com/redpandadata/console:v2.7.2
    entrypoint: /bin/sh
    command: -c 'echo "$$CONSOLE_CONFIG_FILE" > /tmp/config.yml; /app/console'
    environment:
      CONSOLE_CONFIG_FILE: |
        kafka:
          brokers: ["redpanda-0:9092"]
""",
    ),
    (
        "docs.redpanda.com/current/manage/security/listener-configuration",
        "redpanda.yaml",
        """
redpanda:
  kafka_api:
    - {name: local, address: 0.0.0.0, port: 9092}
    - {name: external, address: 0.0.0.0, port: 9192}
  advertised_kafka_api:
    - {name: local, address: broker-1.internal, port: 9092}
    - {name: external, address: broker-1.example.com, port: 9192}
  seed_servers:
    - host: {address: broker-1.internal, port: 33145}
""",
    ),
    (
        "docs.spring.io/spring-boot/reference/messaging/kafka.html",
        "application.yaml",
        """
spring:
  kafka:
    bootstrap-servers: "localhost:9092"
    consumer:
      group-id: "myGroup"
    properties:
      "[prop.one]": "first"
    ssl:
      trust-store-location: "classpath:store.jks"
""",
    ),
    (
        "docs.spring.io/spring-cloud-stream (Kafka binder)",
        "application.yml",
        f"""
spring:
  cloud:
    stream:
      kafka:
        binder:
          brokers: ${{KAFKA_HOST:localhost}}
          configuration:
            security.protocol: SASL_SSL
            sasl.mechanism: PLAIN
            sasl.jaas.config: {_PLAIN} username="${{USER}}" password="${{PASSWORD}}";
""",
    ),
    (
        "github.com/quarkusio/quarkus-quickstarts kafka-panache-quickstart/src/main/resources/application.properties",
        "application.properties",
        """
mp.messaging.outgoing.generated-price.topic=prices
mp.messaging.incoming.prices.value.deserializer=org.apache.kafka.common.serialization.IntegerDeserializer
%prod.quarkus.datasource.password=quarkus_test
%prod.kafka.bootstrap.servers=localhost:9092
""",
    ),
    (
        "github.com/provectus/kafka-ui documentation/compose/kafka-ui.yaml",
        "kafka-ui.yaml",
        f"""
services:
  kafka-ui:
    image: provectuslabs/kafka-ui:latest
    ports: ['8080:8080']
    environment:
      KAFKA_CLUSTERS_0_NAME: local
      KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS: broker:19092
      DYNAMIC_CONFIG_ENABLED: 'true'
  broker:
    image: apache/kafka:4.1.0
    ports: ['9092:9092']
{_APACHE_BROKER}""",
    ),
    (
        "docs.kafka-ui.provectus.io (MSK with IAM)",
        "application.yml",
        """
kafka:
  clusters:
    - name: msk
      bootstrapServers: b-1.shop.abc123.c2.kafka.us-east-1.amazonaws.com:9098
      properties:
        security.protocol: SASL_SSL
        sasl.mechanism: AWS_MSK_IAM
        sasl.client.callback.handler.class: software.amazon.msk.auth.iam.IAMClientCallbackHandler
        sasl.jaas.config: software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="<PROFILE>";
""",
    ),
    (
        "github.com/tchiotludo/akhq docker-compose.yml",
        "docker-compose.yml",
        """
services:
  akhq:
    image: tchiotludo/akhq
    environment:
      AKHQ_CONFIGURATION: |
        akhq:
          connections:
            docker-kafka-server:
              properties:
                bootstrap.servers: "kafka:9092"
              schema-registry:
                url: "http://schema-registry:8085"
    ports: ["8080:8080"]
  kafka:
    image: confluentinc/cp-kafka:${CONFLUENT_VERSION:-7.4.0}
    environment:
      KAFKA_BROKER_ID: '0'
      KAFKA_ZOOKEEPER_CONNECT: 'zookeeper:2181'
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1'
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1'
      KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT://kafka:9092'
""",
    ),
    (
        "github.com/tchiotludo/akhq application.example.yml",
        "application.yml",
        f"""
akhq:
  connections:
    plaintext:
      properties:
        bootstrap.servers: "kafka:9092"
    ssl:
      properties:
        bootstrap.servers: "kafka:9093"
        security.protocol: SSL
        ssl.truststore.location: /etc/kafka/secrets/truststore.jks
        ssl.truststore.password: changeit
    ccloud:
      properties:
        bootstrap.servers: "pkc-00000.europe-west1.gcp.confluent.cloud:9092"
        security.protocol: SASL_SSL
        sasl.mechanism: PLAIN
        sasl.jaas.config: {_PLAIN} username="KEY" password="SECRET";
""",
    ),
    (
        "github.com/obsidiandynamics/kafdrop docker-compose/kafka-kafdrop/docker-compose.yaml",
        "docker-compose.yaml",
        """
services:
  kafdrop:
    image: obsidiandynamics/kafdrop
    ports: ["9000:9000"]
    environment:
      KAFKA_BROKERCONNECT: "kafka:29092"
  kafka:
    image: obsidiandynamics/kafka
    ports: ["2181:2181", "9092:9092"]
    environment:
      KAFKA_LISTENERS: "INTERNAL://:29092,EXTERNAL://:9092"
      KAFKA_ADVERTISED_LISTENERS: "INTERNAL://kafka:29092,EXTERNAL://localhost:9092"
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"
      KAFKA_INTER_BROKER_LISTENER_NAME: "INTERNAL"
""",
    ),
    (
        "github.com/debezium/debezium-examples tutorial/docker-compose-mysql.yaml",
        "docker-compose-mysql.yaml",
        """
services:
  kafka:
    image: quay.io/debezium/kafka:${DEBEZIUM_VERSION}
    ports: ["9092:9092", "9093:9093"]
    environment:
      - CLUSTER_ID=bGludC1leGFtcGxlLTAwMQ
      - NODE_ID=1
      - NODE_ROLE=combined
      - KAFKA_CONTROLLER_QUORUM_VOTERS=1@kafka:9093
      - KAFKA_LISTENERS=PLAINTEXT://kafka:9092,CONTROLLER://kafka:9093
      - KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:9092
  connect:
    image: quay.io/debezium/connect:${DEBEZIUM_VERSION}
    environment:
      - BOOTSTRAP_SERVERS=kafka:9092
      - GROUP_ID=1
""",
    ),
    (
        "github.com/debezium/debezium-examples tutorial/register-mysql.json",
        "register-mysql.json",
        """
{
    "name": "inventory-connector",
    "config": {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.hostname": "mysql",
        "topic.prefix": "dbserver1",
        "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
        "schema.history.internal.kafka.topic": "schema-changes.inventory"
    }
}
""",
    ),
    (
        "github.com/Azure/azure-event-hubs-for-kafka quickstart/java/producer/src/main/resources/producer.config",
        "producer.config",
        f"""
bootstrap.servers=mynamespace.servicebus.windows.net:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={_PLAIN} username="$ConnectionString" password="Endpoint=sb://mynamespace/;SharedAccessKey=x";
""",
    ),
    (
        "github.com/aws/aws-msk-iam-auth README.md",
        "client.properties",
        """
security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
""",
    ),
    (
        "github.com/conduktor/kafka-stack-docker-compose zk-single-kafka-single.yml",
        "zk-single-kafka-single.yml",
        """
services:
  kafka1:
    image: confluentinc/cp-kafka:7.8.0
    hostname: kafka1
    ports: ["9092:9092", "29092:29092", "9999:9999"]
    environment:
      KAFKA_ADVERTISED_LISTENERS: INTERNAL://kafka1:19092,EXTERNAL://${DOCKER_HOST_IP:-127.0.0.1}:9092,DOCKER://host.docker.internal:29092
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,DOCKER:PLAINTEXT
      KAFKA_INTER_BROKER_LISTENER_NAME: INTERNAL
      KAFKA_ZOOKEEPER_CONNECT: "zoo1:2181"
      KAFKA_BROKER_ID: 1
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
""",
    ),
    (
        "aiven.io/docs/products/kafka/howto/connect-with-java (SASL)",
        "aiven.properties",
        f"""
bootstrap.servers=kafka-1-shop.aivencloud.com:12703
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config={_SCRAM} username="avnadmin" password="x";
ssl.truststore.location=client.truststore.jks
ssl.truststore.password=x
""",
    ),
    (
        "docs.redpanda.com/current/console/config/connect-to-redpanda",
        "console.yaml",
        """
kafka:
  brokers: ["broker-1.example.com:9092"]
  sasl:
    enabled: true
    username: u
    password: p
    mechanism: SCRAM-SHA-256
  tls:
    enabled: true
    caFilepath: /etc/ca.crt
""",
    ),
    (
        "github.com/bitnami/containers bitnami/kafka/docker-compose-cluster.yml",
        "docker-compose.yml",
        "services:\n"
        + "".join(
            f"  kafka-{node}:\n    image: bitnami/kafka:4.0\n    ports: ['9092']\n    environment:\n"
            f"      - KAFKA_CFG_NODE_ID={node}\n"
            "      - KAFKA_CFG_PROCESS_ROLES=controller,broker\n"
            "      - KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=0@kafka-0:9093,1@kafka-1:9093,2@kafka-2:9093\n"
            "      - KAFKA_KRAFT_CLUSTER_ID=bGludC1leGFtcGxlLTAwMQ\n"
            "      - KAFKA_CFG_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093\n"
            "      - KAFKA_CFG_ADVERTISED_LISTENERS=PLAINTEXT://:9092\n"
            "      - KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            "      - KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER\n"
            for node in range(3)
        ),
    ),
)
