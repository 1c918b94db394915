"""Set-ups as the field publishes them, written anew: each of them works, so nothing may be found in it."""

from __future__ import annotations

_APACHE_CLUSTER = "".join(
    f"""
  kafka-{n}:
    image: apache/kafka:4.0.0
    hostname: kafka-{n}
    container_name: kafka-{n}
    ports:
      - {n}9092:9092
    environment:
      KAFKA_NODE_ID: {n}
      KAFKA_PROCESS_ROLES: 'broker,controller'
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT'
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093'
      KAFKA_LISTENERS: 'PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092'
      KAFKA_INTER_BROKER_LISTENER_NAME: 'PLAINTEXT'
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka-{n}:19092,PLAINTEXT_HOST://localhost:{n}9092
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER'
      CLUSTER_ID: 'bGludC1leGFtcGxlLTAwMQ'
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 3
"""
    for n in (1, 2, 3)
)

_ISOLATED = "".join(
    f"""
  controller-{n}:
    image: apache/kafka:3.9.1
    environment:
      KAFKA_NODE_ID: {n}
      KAFKA_PROCESS_ROLES: 'controller'
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER'
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@controller-1:9093,2@controller-2:9093,3@controller-3:9093'
      KAFKA_LISTENERS: 'CONTROLLER://:9093'
"""
    for n in (1, 2, 3)
) + "".join(
    f"""
  kafka-{n}:
    image: apache/kafka:3.9.1
    ports:
      - 1{n}092:9092
    environment:
      - KAFKA_NODE_ID={n}
      - KAFKA_PROCESS_ROLES=broker
      - KAFKA_LISTENERS=PLAINTEXT://:19092,PLAINTEXT_HOST://:9092
      - KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka-{n}:19092,PLAINTEXT_HOST://localhost:1{n}092
      - KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
      - KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT
      - KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
      - KAFKA_CONTROLLER_QUORUM_VOTERS=1@controller-1:9093,2@controller-2:9093,3@controller-3:9093
    depends_on:
      - controller-1
"""
    for n in (4, 5, 6)
)

_BITNAMI_CLUSTER = "".join(
    f"""
  kafka-{n}:
    image: docker.io/bitnami/kafka:3.9
    ports:
      - "{n}9094:9094"
    environment:
      - KAFKA_CFG_NODE_ID={n}
      - KAFKA_CFG_PROCESS_ROLES=controller,broker
      - KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=0@kafka-0:9093,1@kafka-1:9093,2@kafka-2:9093
      - KAFKA_KRAFT_CLUSTER_ID=bGludC1leGFtcGxlLTAwMQ
      - KAFKA_CFG_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094
      - KAFKA_CFG_ADVERTISED_LISTENERS=PLAINTEXT://kafka-{n}:9092,EXTERNAL://localhost:{n}9094
      - KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT
      - KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER
      - KAFKA_CFG_INTER_BROKER_LISTENER_NAME=PLAINTEXT
"""
    for n in (0, 1, 2)
)

COMPOSE = {
    "cp-all-in-one with KRaft": """
services:
  broker:
    image: confluentinc/cp-server:7.9.0
    hostname: broker
    container_name: broker
    ports:
      - "9092:9092"
      - "9101:9101"
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT'
      KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092'
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: 0
      KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      KAFKA_JMX_PORT: 9101
      KAFKA_JMX_HOSTNAME: localhost
      KAFKA_CONFLUENT_SCHEMA_REGISTRY_URL: http://schema-registry:8081
      KAFKA_METRIC_REPORTERS: io.confluent.metrics.reporter.ConfluentMetricsReporter
      CONFLUENT_METRICS_REPORTER_BOOTSTRAP_SERVERS: broker:29092
      KAFKA_PROCESS_ROLES: 'broker,controller'
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@broker:29093'
      KAFKA_LISTENERS: 'PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092'
      KAFKA_INTER_BROKER_LISTENER_NAME: 'PLAINTEXT'
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER'
      KAFKA_LOG_DIRS: '/tmp/kraft-combined-logs'
      CLUSTER_ID: 'bGludC1leGFtcGxlLTAwMQ'
  schema-registry:
    image: confluentinc/cp-schema-registry:7.9.0
    depends_on: [broker]
    ports: ["8081:8081"]
    environment:
      SCHEMA_REGISTRY_HOST_NAME: schema-registry
      SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS: 'broker:29092'
  connect:
    image: cnfldemos/cp-server-connect-datagen:0.6.4-7.6.0
    environment:
      CONNECT_BOOTSTRAP_SERVERS: 'broker:29092'
      CONNECT_GROUP_ID: compose-connect-group
  ksqldb-server:
    image: confluentinc/cp-ksqldb-server:7.9.0
    environment:
      KSQL_BOOTSTRAP_SERVERS: "broker:29092"
""",
    "cp-all-in-one with ZooKeeper": """
version: '2'
services:
  zookeeper:
    image: confluentinc/cp-zookeeper:6.2.0
    environment:
      ZOOKEEPER_CLIENT_PORT: 2181
  broker:
    image: confluentinc/cp-kafka:6.2.0
    hostname: broker
    ports:
      - "29092:29092"
      - "9092:9092"
    environment:
      KAFKA_BROKER_ID: 1
      KAFKA_ZOOKEEPER_CONNECT: 'zookeeper:2181'
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker:9093,PLAINTEXT_HOST://localhost:9092
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
""",
    "confluent-local": """
services:
  kafka:
    image: confluentinc/confluent-local:7.6.0
    ports: ["9092:9092"]
""",
    "Apache, nothing said": """
services:
  kafka:
    image: apache/kafka:latest
    ports:
      - "9092:9092"
""",
    "Apache, one node": """
services:
  broker:
    image: apache/kafka:latest
    hostname: broker
    container_name: broker
    ports:
      - '9092:9092'
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT'
      KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092'
      KAFKA_PROCESS_ROLES: 'broker,controller'
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@broker:29093'
      KAFKA_LISTENERS: 'CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092'
      KAFKA_INTER_BROKER_LISTENER_NAME: 'PLAINTEXT'
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER'
      CLUSTER_ID: 'bGludC1leGFtcGxlLTAwMQ'
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
""",
    "Apache, one node with TLS": """
services:
  broker:
    image: apache/kafka:3.8.0
    ports: ['9093:9093']
    volumes: ['./secrets:/etc/kafka/secrets']
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'SSL:SSL,CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT'
      KAFKA_ADVERTISED_LISTENERS: 'SSL://localhost:9093,PLAINTEXT://broker:9092'
      KAFKA_LISTENERS: 'SSL://:9093,PLAINTEXT://:9092,CONTROLLER://:29093'
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@broker:29093
      KAFKA_INTER_BROKER_LISTENER_NAME: PLAINTEXT
      KAFKA_SSL_KEYSTORE_FILENAME: kafka01.keystore.jks
      KAFKA_SSL_KEYSTORE_CREDENTIALS: kafka_keystore_creds
      KAFKA_SSL_KEY_CREDENTIALS: kafka_ssl_key_creds
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
""",
    "Apache, three combined nodes": f"services:{_APACHE_CLUSTER}",
    "Apache, controllers apart": f"services:{_ISOLATED}",
    "Bitnami, one node": """
services:
  kafka:
    image: docker.io/bitnami/kafka:4.0
    ports:
      - "9092:9092"
      - "9094:9094"
    environment:
      - KAFKA_CFG_NODE_ID=0
      - KAFKA_CFG_PROCESS_ROLES=controller,broker
      - KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=0@kafka:9093
      - KAFKA_CFG_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094
      - KAFKA_CFG_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092,EXTERNAL://localhost:9094
      - KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT
      - KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER
""",
    "Bitnami, three nodes": f"services:{_BITNAMI_CLUSTER}",
    "Bitnami with ZooKeeper": """
version: "2"
services:
  zookeeper:
    image: docker.io/bitnami/zookeeper:3.8
    environment:
      - ALLOW_ANONYMOUS_LOGIN=yes
  kafka:
    image: docker.io/bitnami/kafka:3.2
    ports:
      - "9093:9093"
    environment:
      - KAFKA_BROKER_ID=1
      - KAFKA_CFG_ZOOKEEPER_CONNECT=zookeeper:2181
      - ALLOW_PLAINTEXT_LISTENER=yes
      - KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=CLIENT:PLAINTEXT,EXTERNAL:PLAINTEXT
      - KAFKA_CFG_LISTENERS=CLIENT://:9092,EXTERNAL://:9093
      - KAFKA_CFG_ADVERTISED_LISTENERS=CLIENT://kafka:9092,EXTERNAL://localhost:9093
      - KAFKA_CFG_INTER_BROKER_LISTENER_NAME=CLIENT
""",
    "wurstmeister": """
version: '2'
services:
  zookeeper:
    image: wurstmeister/zookeeper
    ports: ["2181:2181"]
  kafka:
    image: wurstmeister/kafka:2.13-2.8.1
    ports:
      - "9094:9094"
    environment:
      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
      KAFKA_ADVERTISED_LISTENERS: INSIDE://:9092,OUTSIDE://_{HOSTNAME_COMMAND}:9094
      KAFKA_LISTENERS: INSIDE://:9092,OUTSIDE://:9094
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT
      KAFKA_INTER_BROKER_LISTENER_NAME: INSIDE
      HOSTNAME_COMMAND: "hostname -f"
""",
    "three listeners: containers, the host, other machines": """
x-kafka: &kafka
  image: ${KAFKA_IMAGE:-confluentinc/cp-kafka:7.5.0}
  environment: &environment
    KAFKA_PROCESS_ROLES: broker,controller
    KAFKA_NODE_ID: 1
    CLUSTER_ID: bGludC1leGFtcGxlLTAwMQ
    KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
    KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
    KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
services:
  kafka0:
    <<: *kafka
    ports:
      - "127.0.0.1:9092:9092"
      - target: 29094
        published: "29094"
        protocol: tcp
    networks:
      inner: {aliases: [kafka]}
    environment:
      <<: *environment
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@kafka0:29093
      KAFKA_LISTENERS: DOCKER://0.0.0.0:29092,HOST://0.0.0.0:9092,LAN://0.0.0.0:29094,CONTROLLER://0.0.0.0:29093
      KAFKA_ADVERTISED_LISTENERS: DOCKER://kafka:29092,HOST://localhost:9092,LAN://192.168.1.20:29094
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: DOCKER:PLAINTEXT,HOST:PLAINTEXT,LAN:PLAINTEXT,CONTROLLER:PLAINTEXT
      KAFKA_INTER_BROKER_LISTENER_NAME: DOCKER
  app:
    image: my/app
    networks: [inner]
    environment:
      - BOOTSTRAP_SERVERS=kafka:29092
networks:
  inner: {}
""",
    "network_mode: host": """
services:
  kafka:
    image: apache/kafka:3.9.1
    network_mode: host
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENERS: PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@localhost:9093
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
""",
}

SERVER = {
    "Kafka 4, one node": """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs=/tmp/kraft-combined-logs
offsets.topic.replication.factor=1
""",
    "a broker only": """
process.roles=broker
node.id=2
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
""",
    "a controller only": """
process.roles=controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
controller.listener.names=CONTROLLER
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
""",
    "ZooKeeper": """
# The id of the broker
broker.id = 0
listeners : PLAINTEXT://kafka0.example:9092,\\
    SSL://kafka0.example:9093
ssl.keystore.location=/var/private/ssl/server.keystore.jks
ssl.keystore.password=test1234
zookeeper.connect=zk1.example:2181,zk2.example:2181/kafka
""",
    "SCRAM and TLS": """
process.roles=broker
node.id=11
controller.quorum.voters=1@c1.example:9093,2@c2.example:9093,3@c3.example:9093
controller.listener.names=CONTROLLER
listeners=INTERNAL://10.0.0.11:9094,EXTERNAL://[::]:9092,EXTERNAL://0.0.0.0:9092
advertised.listeners=INTERNAL://kafka11.example:9094,EXTERNAL://kafka11.example.com:9092
listener.security.protocol.map=INTERNAL:SSL,EXTERNAL:SASL_SSL,CONTROLLER:SSL
inter.broker.listener.name=INTERNAL
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.external.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.external.ssl.keystore.location=/k/external.p12
listener.name.internal.ssl.keystore.location=/k/internal.p12
ssl.keystore.location=/k/all.p12
""",
}

KUBERNETES = {
    "Strimzi, v1beta2, all types": """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaNodePool
metadata:
  name: dual
  labels: {strimzi.io/cluster: my-cluster}
spec:
  replicas: 3
  roles: [controller, broker]
---
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata:
  name: my-cluster
spec:
  kafka:
    listeners:
      - {name: plain, port: 9092, type: internal, tls: false}
      - name: tls
        port: 9093
        type: internal
        tls: true
        authentication: {type: tls}
      - {name: nodeport, port: 9094, type: nodeport, tls: true}
      - {name: lb, port: 9095, type: loadbalancer, tls: true}
      - name: ingress
        port: 9096
        type: ingress
        tls: true
        configuration:
          bootstrap: {host: bootstrap.example.com}
          brokers:
            - {broker: 0, host: broker-0.example.com}
            - {broker: 1, host: broker-1.example.com}
            - {broker: 2, host: broker-2.example.com}
      - {name: route, port: 9097, type: route, tls: true}
      - name: clusterip
        port: 9098
        type: cluster-ip
        tls: false
        configuration:
          brokers:
            - {broker: 0, advertisedHost: kafka-0.example.com, advertisedPort: 30094}
    config:
      offsets.topic.replication.factor: 3
      transaction.state.log.replication.factor: 3
""",
    "Strimzi, v1": """
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: one}
spec:
  kafka:
    version: 4.1.0
    listeners:
      - name: plain
        port: 9092
        type: internal
        tls: false
    config:
      offsets.topic.replication.factor: 1
""",
    "CFK": """
apiVersion: platform.confluent.io/v1beta1
kind: Kafka
metadata:
  name: kafka
  namespace: confluent
spec:
  replicas: 3
  image:
    application: confluentinc/cp-server:7.9.0
  listeners:
    internal:
      tls: {enabled: true}
    external:
      authentication: {type: plain}
      tls: {enabled: true}
      externalAccess:
        type: loadBalancer
        loadBalancer:
          domain: my.domain.example
    custom:
      - name: partner
        port: 9094
        externalAccess:
          type: nodePort
          nodePort: {host: node.example, nodePortOffset: 30000}
""",
}

CLIENT = {
    "client.properties": """
bootstrap.servers=kafka1.example:9093,kafka2.example:9093
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="alice" \\
  password="hush-hush";
ssl.truststore.location=/etc/ssl/trust.p12
""",
    "connect-distributed.properties": """
bootstrap.servers=localhost:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.topic=connect-offsets
config.storage.topic=connect-configs
status.storage.topic=connect-status
producer.security.protocol=PLAINTEXT
""",
    "spark-defaults.conf": """
spark.master                     spark://master:7077
spark.executor.memory            4g
spark.job.kafka.bootstrap.servers  kafka1.example:9092
spark.job.kafka.security.protocol  SSL
""",
}
