"""Files of other kinds than broken.py has, with one mistake each: of clients, logins, clouds, Kubernetes and charts."""

from __future__ import annotations

from tests.unit.advice.lint import examples
from tests.unit.advice.lint.broken import KAFKA_4, ONE_NODE, PLAIN, SCRAM, STRIMZI, STRIMZI_1, Case, changed

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = f'{PLAIN_MODULE} required username="u" password="hush";'
CLIENT = f"""
bootstrap.servers=kafka.example.com:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={LOGIN}
"""
SINGLE = LOGIN.replace('"', "'")
SPRING = f"""
spring:
  kafka:
    bootstrap-servers: kafka.example.com:9093
    properties:
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      sasl.jaas.config: {LOGIN}
"""
EVENT_HUBS = (
    """
bootstrap.servers=shop.servicebus.windows.net:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config="""
    + f'{PLAIN_MODULE} required username="$ConnectionString" password="Endpoint=sb://shop/;x=y";\n'
)
JAAS = f"""
KafkaServer {{
  {PLAIN_MODULE} required
    username="admin"
    password="hush"
    user_admin="hush";
}};
"""
UI = f"""
services:
  ui:
    image: provectuslabs/kafka-ui
    environment:
      KAFKA_CLUSTERS_0_NAME: shop
      KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS: shop.servicebus.windows.net:9093
      KAFKA_CLUSTERS_0_PROPERTIES_SECURITY_PROTOCOL: SASL_SSL
      KAFKA_CLUSTERS_0_PROPERTIES_SASL_MECHANISM: PLAIN
      KAFKA_CLUSTERS_0_PROPERTIES_SASL_JAAS_CONFIG:
        '{PLAIN_MODULE} required username="$$ConnectionString" password="x";'
"""
TOPICS = """  topics:
    image: apache/kafka:4.0.0
    entrypoint: [bash, -c]
    command: |
      "until kafka-topics.sh --bootstrap-server kafka:9092 --list; do sleep 1; done"
"""
WORKER = "  connect:\n    image: quay.io/debezium/connect:3.0\n"
BUILT = """
services:
  kafka:
    build: .
    ports:
      - "9092"
    environment:
      KAFKA_ADVERTISED_HOST_NAME: 192.168.1.20
      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
"""
ONE_NODE_LIST = PLAIN.replace("      KAFKA", "      - KAFKA").replace(": ", "=").replace("image=", "image: ")
OUTSIDE = """
kafka:
  externalAccess:
    enabled: true
  autoDiscovery:
    enabled: true
"""
MISSPELT = """
apiVersion: v1
kind: Pod
metadata: {name: kafka}
spec:
  containers:
    - name: kafka
      image: wurstmeister/kafka:2.13-2.8.1
      env:
        - {name: KAFKA_LISTERNERS, value: 'PLAINTEXT://0.0.0.0:9092'}
        - {name: KAFKA_ADVERTISED_LISTENERS, value: 'PLAINTEXT://kafka:9092'}
        - {name: KAFKA_ZOOKEEPER_CONNECT, value: 'zookeeper:2181'}
"""
BROKERS_VOTERS = """      KAFKA_CFG_CONTROLLER_QUORUM_VOTERS: 1@controller:9093
      KAFKA_CFG_INTER"""
APART = f"""
services:
  controller:
    image: bitnami/kafka:3.7
    environment:
      KAFKA_CFG_PROCESS_ROLES: controller
      KAFKA_CFG_NODE_ID: 1
      KAFKA_CFG_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP: CONTROLLER:PLAINTEXT
      KAFKA_CFG_CONTROLLER_QUORUM_VOTERS: 1@controller:9093
      KAFKA_CFG_LISTENERS: CONTROLLER://:9093
  broker:
    image: bitnami/kafka:3.7
    ports: ["9092:9092"]
    environment:
      KAFKA_CFG_PROCESS_ROLES: broker
      KAFKA_CFG_NODE_ID: 2
      KAFKA_CFG_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP: BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
{BROKERS_VOTERS}_BROKER_LISTENER_NAME: BROKER
      KAFKA_CFG_LISTENERS: BROKER://:9092
      KAFKA_CFG_ADVERTISED_LISTENERS: BROKER://localhost:9092
"""
STATEFUL = """
apiVersion: v1
kind: Service
metadata: {name: brokers}
spec:
  clusterIP: None
  selector: {app: kafka}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kafka}
spec:
  serviceName: brokers
  replicas: 3
  template:
    metadata:
      labels: {app: kafka}
    spec:
      containers:
        - name: kafka
          image: confluentinc/cp-kafka:7.9.0
          command: [sh, -c, "export KAFKA_NODE_ID=${HOSTNAME##*-}; exec /etc/confluent/docker/run"]
          env:
            - name: POD
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: KAFKA_PROCESS_ROLES
              value: broker,controller
            - name: KAFKA_LISTENERS
              value: PLAINTEXT://:9092,CONTROLLER://:9093
            - name: KAFKA_ADVERTISED_LISTENERS
              value: PLAINTEXT://$(POD).brokers:9092
            - name: KAFKA_CONTROLLER_LISTENER_NAMES
              value: CONTROLLER
            - name: KAFKA_CONTROLLER_QUORUM_VOTERS
              value: 0@kafka-0.brokers:9093,1@kafka-1.brokers:9093,2@kafka-2.brokers:9093
"""
ENV = """
KAFKA_NODE_ID=1
KAFKA_PROCESS_ROLES=broker,controller
KAFKA_LISTENERS=INTERNAL://:9092,CONTROLLER://:9093
KAFKA_ADVERTISED_LISTENERS=INTERNAL://kafka:9092
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
KAFKA_INTER_BROKER_LISTENER_NAME=INTERNAL
KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
KAFKA_CONTROLLER_QUORUM_VOTERS=1@kafka:9093,2@kafka-2:9093
"""
CHART = """
controller:
  replicaCount: 3
listeners:
  client: {protocol: PLAINTEXT}
externalAccess:
  enabled: true
  controller:
    service:
      type: NodePort
      nodePorts: [30001, 30002, 30003]
"""
REDPANDA = """
redpanda:
  node_id: 0
  kafka_api:
    - {name: internal, address: 0.0.0.0, port: 9092}
    - {name: external, address: 0.0.0.0, port: 19092}
  advertised_kafka_api:
    - {name: internal, address: redpanda-0, port: 9092}
    - {name: external, address: redpanda.example.com, port: 19092}
"""
CONNECT = f"""
bootstrap.servers=kafka.example.com:9093
group.id=connect
key.converter=org.apache.kafka.connect.json.JsonConverter
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={LOGIN}
producer.security.protocol=SASL_SSL
producer.sasl.mechanism=PLAIN
producer.sasl.jaas.config={LOGIN}
"""
DEBEZIUM = """
{
\t"name": "inventory",
\t"config": {
\t\t"connector.class": "io.debezium.connector.mysql.MySqlConnector",
\t\t"schema.history.internal.kafka.bootstrap.servers": "b-1.shop.kafka.eu-west-1.amazonaws.com:9092",
\t\t"schema.history.internal.kafka.topic": "history"
\t}
}
"""
# The healthy files, and their names; nothing may be found in them.
HEALTHY = {
    "client.properties": CLIENT,
    "eventhubs.properties": EVENT_HUBS,
    "application.yml": SPRING,
    "kafka_server_jaas.conf": JAAS,
    "ui.yml": UI,
    "statefulset.yaml": STATEFUL,
    "kafka.env": ENV,
    "values.yaml": CHART,
    "redpanda.yaml": REDPANDA,
    "connect-distributed.properties": CONNECT,
    "connector.json": DEBEZIUM,
}

POD_VOTERS = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kafka}
spec:
  serviceName: kafka-headless
  replicas: 2
  template:
    spec:
      containers:
        - name: kafka
          image: apache/kafka:4.0.0
          command: ["sh", "-c", "KAFKA_NODE_ID=${HOSTNAME##*-} exec /etc/kafka/docker/run"]
          env:
            - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: KAFKA_PROCESS_ROLES, value: "broker,controller"}
            - {name: KAFKA_LISTENERS, value: "PLAINTEXT://:9092,CONTROLLER://:9093"}
            - {name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://$(POD).kafka-headless:9092"}
            - {name: KAFKA_CONTROLLER_LISTENER_NAMES, value: CONTROLLER}
            - {name: KAFKA_CONTROLLER_QUORUM_VOTERS, value: "0@kafka-0:9093,1@kafka-1:9093"}
"""


def _case(
    name: str,
    file: str,
    rule: str,
    old: str,
    new: str,
    line: str,
    corrected: str = "",
    *,
    gone: bool = True,
    also: str = "",
) -> Case:
    """A mistake that is made in a healthy file; `gone`: --fix mends it."""
    return Case(
        name, {file: changed(HEALTHY[file], old, new)}, rule, line, corrected, gone, also=frozenset(also.split())
    )


def _kept(name: str, file: str, rule: str, old: str, new: str, line: str, corrected: str = "", also: str = "") -> Case:
    return _case(name, file, rule, old, new, line, corrected, gone=False, also=also)


_POD = """            - name: POD
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
"""
_AFTER_POD = STATEFUL.partition(_POD)[2]
CASES = [
    _kept(
        "a variable before the one that it names",
        "statefulset.yaml",
        "variable-order",
        _POD + _AFTER_POD,
        _AFTER_POD + _POD,
        "- name: KAFKA_ADVERTISED_LISTENERS",
        "POD above KAFKA_ADVERTISED_LISTENERS in env",
    ),
    _case(
        "a variable that Kubernetes does not replace",
        "statefulset.yaml",
        "kubernetes-dollar",
        "$(POD)",
        "${POD}",
        "- name: KAFKA_ADVERTISED_LISTENERS",
        "value: PLAINTEXT://$(POD).brokers:9092",
    ),
    # Logins
    _case(
        "no semicolon",
        "client.properties",
        "jaas-semicolon",
        'hush";',
        'hush"',
        "sasl.jaas",
        "sasl.jaas.config=[hidden];",
    ),
    _case("no semicolon in YAML", "application.yml", "jaas-semicolon", 'hush";', 'hush"', "sasl.jaas"),
    _case(
        "no semicolon in a file",
        "kafka_server_jaas.conf",
        "jaas-semicolon",
        'user_admin="hush";',
        'user_admin="hush"',
        "user_admin",
    ),
    _case("no semicolon after a section", "kafka_server_jaas.conf", "jaas-semicolon", "};", "}", "}"),
    _case("no control flag", "client.properties", "jaas-flag", " required", "", "sasl.jaas"),
    _case("no control flag in a file", "kafka_server_jaas.conf", "jaas-flag", " required", "", "PlainLoginModule"),
    _kept("an open quote", "client.properties", "jaas-quotes", 'hush";', "hush;", "sasl.jaas"),
    _kept(
        "an open quote in a file",
        "kafka_server_jaas.conf",
        "jaas-quotes",
        'username="admin"',
        'username="admin',
        "username",
    ),
    _kept("quotes around all", "client.properties", "jaas-quotes", f"={LOGIN}", f'="{SINGLE}"', "sasl.jaas"),
    _kept("commas between options", "client.properties", "jaas-quotes", '"u" ', '"u", ', "sasl.jaas"),
    _kept("an option without a value", "client.properties", "jaas-option", 'username="u"', "username", "sasl.jaas"),
    _kept(
        "a section in a property",
        "client.properties",
        "jaas-block",
        f"={LOGIN}",
        f"=KafkaClient {{ {LOGIN} }};",
        "sasl.jaas",
    ),
    _kept("two login modules", "client.properties", "jaas-block", LOGIN, f"{LOGIN} {LOGIN}", "sasl.jaas"),
    _kept("no section", "kafka_server_jaas.conf", "jaas-section", "KafkaServer {", "", "PlainLoginModule"),
    _kept(
        "another module", "client.properties", "jaas-module", "mechanism=PLAIN", "mechanism=SCRAM-SHA-512", "sasl.jaas"
    ),
    _case(
        "a module of another package",
        "client.properties",
        "jaas-module",
        "plain.PlainLoginModule",
        "scram.PlainLoginModule",
        "sasl.jaas",
        "",
    ),
    _kept(
        "no mechanism",
        "client.properties",
        "jaas-module",
        "sasl.mechanism=PLAIN\n",
        "",
        "sasl.jaas",
        "sasl.mechanism=PLAIN",
    ),
    Case(
        "no prefix",
        {"server.properties": changed(SCRAM, "listener.name.external.scram-sha-512.sasl.jaas", "sasl.jaas")},
        "jaas-prefix-missing",
        "sasl.jaas",
        gone=True,
        corrected="",
    ),
    Case(
        "capitals in a prefix",
        {"server.properties": changed(SCRAM, "listener.name.external", "listener.name.EXTERNAL")},
        "listener-prefix",
        "listener.name.EXTERNAL",
        "",
    ),
    Case(
        "a mechanism in capitals",
        {"server.properties": changed(SCRAM, ".scram-sha-512.", ".SCRAM-SHA-512.")},
        "listener-prefix",
        ".SCRAM-SHA-512.",
        "",
    ),
    Case(
        "a listener that is not there",
        {"server.properties": changed(SCRAM, "listener.name.external", "listener.name.outside")},
        "listener-prefix",
        "listener.name.outside",
        "",
        gone=False,
    ),
    # Names
    Case(
        "librdkafka's login in Java's file",
        {
            "client.properties": "bootstrap.servers=k:9092\nkey.serializer=x\nsecurity.protocol=SASL_SSL\n"
            "sasl.mechanism=PLAIN\nsasl.username=u\n"
        },
        "foreign-setting",
        "sasl.username",
        f'sasl.jaas.config={PLAIN_MODULE} required username="..." password="...";',
        gone=False,
    ),
    Case(
        "librdkafka's word for mechanism",
        {
            "client.properties": "bootstrap.servers=k:9092\nkey.serializer=x\nsecurity.protocol=SASL_SSL\n"
            "sasl.mechanisms=PLAIN\n"
        },
        "foreign-setting",
        "sasl.mechanisms",
        "sasl.mechanism=PLAIN",
    ),
    Case(
        "librdkafka's CA beside Java's login",
        {
            "client.properties": "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.ca.location=/ca.crt\n"
            f'sasl.jaas.config={PLAIN_MODULE} required username="u" password="p";\n'
        },
        "foreign-setting",
        "ssl.ca",
        "ssl.truststore.location=...",
        gone=False,
    ),
    Case(
        "Java's login in librdkafka's file",
        {"x.conf": changed(CLIENT, "bootstrap.servers", "metadata.broker.list")},
        "foreign-setting",
        "sasl.jaas.config",
        "sasl.username and sasl.password instead",
        gone=False,
    ),
    Case(
        "Java's trust store for kcat",
        {"kcat.conf": "bootstrap.servers=k:9092\nsecurity.protocol=SSL\nssl.truststore.location=/t.jks\n"},
        "foreign-setting",
        "ssl.truststore",
        "ssl.ca.location, a PEM file instead",
        gone=False,
    ),
    _case(
        "a PEM file as a Java key store",
        "client.properties",
        "store-type",
        "sasl.mechanism",
        "ssl.truststore.location=/etc/ca.pem\nsasl.mechanism",
        "ssl.truststore",
        "ssl.truststore.type=PEM",
    ),
    # Bootstrap servers
    _case(
        "a scheme",
        "client.properties",
        "bootstrap-scheme",
        "=kafka.e",
        "=PLAINTEXT://kafka.e",
        "bootstrap",
        "bootstrap.servers=kafka.example.com:9093",
    ),
    _case(
        "a scheme in Spring",
        "application.yml",
        "bootstrap-scheme",
        " kafka.e",
        " PLAINTEXT://kafka.e",
        "bootstrap",
        "bootstrap-servers: kafka.example.com:9093",
    ),
    _kept("ZooKeeper's port", "client.properties", "bootstrap-not-kafka", ":9093", ":2181", "bootstrap"),
    _kept("a number for a host", "client.properties", "numeric-host", "kafka.example.com", "9092", "bootstrap"),
    _kept(
        "an address that is none", "client.properties", "numeric-host", "kafka.example.com", "10.0.0.256", "bootstrap"
    ),
    # Clouds
    _case(
        "Event Hubs in plaintext",
        "eventhubs.properties",
        "cloud-protocol",
        "SASL_SSL",
        "SASL_PLAINTEXT",
        "security",
        "security.protocol=SASL_SSL",
    ),
    _kept(
        "Event Hubs with SCRAM",
        "eventhubs.properties",
        "cloud-mechanism",
        "=PLAIN",
        "=SCRAM-SHA-512",
        "sasl.mechanism",
        also="jaas-module",
    ),
    _case(
        "Event Hubs at Kafka's port",
        "eventhubs.properties",
        "cloud-port",
        ":9093",
        ":9092",
        "bootstrap",
        "bootstrap.servers=shop.servicebus.windows.net:9093",
    ),
    _kept("another user of Event Hubs", "eventhubs.properties", "cloud-user", "$ConnectionString", "shop", "sasl.jaas"),
    Case(
        "Confluent Cloud without a protocol",
        {"client.properties": "bootstrap.servers=pkc-1.eu.aws.confluent.cloud:9092\n"},
        "cloud-protocol",
        "bootstrap",
        "security.protocol=SASL_SSL",
        also=frozenset(["cloud-mechanism"]),
        gone=False,
    ),
    Case(
        "MSK's port for TLS",
        {
            "client.properties": "bootstrap.servers=b-1.x.c2.kafka.eu-west-1.amazonaws.com:9094\n"
            "security.protocol=PLAINTEXT\n"
        },
        "cloud-protocol",
        "security",
        "security.protocol=SSL",
    ),
    Case(
        "MSK's port for SCRAM, with IAM",
        {
            "client.properties": "bootstrap.servers=b-1.x.kafka.us-east-1.amazonaws.com:9096\n"
            "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
        },
        "cloud-mechanism",
        "sasl.mechanism",
        "sasl.mechanism=SCRAM-SHA-512 (or port 9098 for AWS_MSK_IAM)",
        gone=False,
    ),
    Case(
        "Aiven in plaintext",
        {"app.properties": "bootstrap.servers=kafka-1-shop.aivencloud.com:12693\n"},
        "cloud-protocol",
        "bootstrap",
        "security.protocol=SSL",
    ),
    Case(
        "Redpanda Cloud with PLAIN",
        {
            "app.properties": "bootstrap.servers=seed-1.x.fmc.prd.cloud.redpanda.com:9092\n"
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        },
        "cloud-mechanism",
        "sasl.mechanism",
        "sasl.mechanism=SCRAM-SHA-256",
        gone=False,
    ),
    _kept("MSK's port for TLS, in a connector", "connector.json", "cloud-protocol", ":9092", ":9094", "bootstrap"),
    # Connect, Compose
    _kept(
        "connectors without the worker's login",
        "connect-distributed.properties",
        "connector-clients",
        CONNECT[CONNECT.index("producer") :],
        "",
        "security.protocol",
    ),
    _case("a dollar in Compose", "ui.yml", "compose-dollar", "$$Conn", "$Conn", "JAAS_CONFIG"),
    Case(
        "a random port",
        {"compose.yml": changed(ONE_NODE, "- '9092:9092'", "- '9092'")},
        "published-port-random",
        "- '9092'",
        "- '9092:9092'",
    ),
    Case(
        "no host for the outside",
        {"compose.yml": changed(PLAIN, "//localhost:9092", "//:9092")},
        "canonical-host-name",
        "KAFKA_ADVERTISED",
        "KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092",
    ),
    Case(
        "a broker that does not know the controllers",
        {"compose.yml": changed(APART, BROKERS_VOTERS, "      KAFKA_CFG_INTER")},
        "quorum-missing",
        "KAFKA_CFG_PROCESS_ROLES: broker",
        "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS: 1@controller:9093",
    ),
    # Kubernetes and charts
    _kept(
        "one address for all", "statefulset.yaml", "same-address-twice", "$(POD).brokers", "brokers", "KAFKA_ADVERTISED"
    ),
    _kept(
        "one id for all",
        "statefulset.yaml",
        "duplicate-node-id",
        "            - name: KAFKA_PROCESS_ROLES",
        '            - name: KAFKA_BROKER_ID\n              value: "1"\n            - name: KAFKA_PROCESS_ROLES',
        "KAFKA_BROKER_ID",
    ),
    _kept(
        "a pod's name for an id",
        "statefulset.yaml",
        "node-id-number",
        '"export KAFKA_NODE_ID=${HOSTNAME##*-}; exec /etc/confluent/docker/run"]\n          env:\n',
        "exec /etc/confluent/docker/run]\n          env:\n            - name: KAFKA_NODE_ID\n"
        "              valueFrom: {fieldRef: {fieldPath: metadata.name}}\n",
        "name: KAFKA_NODE_ID",
    ),
    Case(
        "settings to add to a pod",
        {"pod.yaml": changed(STATEFUL, "PLAINTEXT://:9092", "OUT://:9092", "PLAINTEXT://$", "OUT://$")},
        "protocol-map-missing",
        "name: KAFKA_LISTENERS",
        "- name: KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
        also=frozenset(["inter-broker-missing"]),
    ),
    _kept(
        "a wildcard in a pod",
        "statefulset.yaml",
        "advertised-wildcard",
        "//$(POD).brokers:9092",
        "//0.0.0.0:9092",
        "KAFKA_ADVERTISED",
    ),
    _kept(
        "a Service called kafka",
        "statefulset.yaml",
        "service-links",
        "metadata: {name: brokers}\nspec:\n  clusterIP: None",
        "metadata: {name: kafka}\nspec:",
        "image:",
    ),
    _kept("voters at one address", "kafka.env", "voter-address", "2@kafka-2", "2@kafka", "KAFKA_CONTROLLER_QUORUM"),
    _kept(
        "voters at localhost",
        "kafka.env",
        "voter-address",
        "1@kafka:9093,2@kafka-2:9093",
        "1@127.0.0.1:9093,2@127.0.0.1:9094",
        "KAFKA_CONTROLLER_QUORUM",
    ),
    _case(
        "the controllers' listener in an .env",
        "kafka.env",
        "controller-advertised",
        "//kafka:9092",
        "//kafka:9092,CONTROLLER://kafka:9093",
        "KAFKA_ADVERTISED",
        "KAFKA_ADVERTISED_LISTENERS=INTERNAL://kafka:9092",
    ),
    Case(
        "a port for a host",
        {"server.properties": changed(KAFKA_4, "//localhost:9092", "//9092:9092")},
        "numeric-host",
        "advertised",
        "PLAINTEXT://<host that clients reach>:9092",
        gone=False,
    ),
    _kept(
        "a wildcard of Redpanda",
        "redpanda.yaml",
        "advertised-wildcard",
        "redpanda.example.com",
        "0.0.0.0",
        "advertised_kafka_api",
        "advertised_kafka_api: [{name: external, address: <host that clients reach>, port: 19092}]",
    ),
    _kept("fewer ports than brokers", "values.yaml", "chart-external-access", ", 30003]", "]", "type: NodePort"),
    _kept("a port twice", "values.yaml", "chart-external-access", "30003]", "30001]", "type: NodePort"),
    Case(
        "the login module of AWS without its handler",
        {
            "client.properties": "bootstrap.servers=k:9098\nsecurity.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
            "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
        },
        "jaas-handler",
        "sasl.jaas.config",
        "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        gone=False,
    ),
    Case(
        "a voter on the node's own machine beside others",
        {
            "server.properties": "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
            "advertised.listeners=PLAINTEXT://k-1.example.com:9092\ncontroller.listener.names=CONTROLLER\n"
            "controller.quorum.voters=1@127.0.0.1:9093,2@k-2.example.com:9093,3@k-3.example.com:9093\n"
        },
        "voter-address",
        "controller.quorum",
        "1@HOST:9093",
        gone=False,
    ),
    Case(
        "Java's trust store beside a setting that only librdkafka has",
        {
            "x.config": "bootstrap.servers=k:9092\nsecurity.protocol=ssl\nqueued.min.messages=1\n"
            "ssl.truststore.location=/t.jks\n"
        },
        "foreign-setting",
        "ssl.truststore",
        "ssl.ca.location, a PEM file instead",
        gone=False,
    ),
    _kept(
        "no ports",
        "values.yaml",
        "chart-external-access",
        "      nodePorts: [30001, 30002, 30003]\n",
        "",
        "type: NodePort",
    ),
    Case(
        "localhost in a cluster of several machines",
        {"server.properties": changed(examples.SERVER["a broker only"], "servers=localhost", "servers=controller-1")},
        "loopback-advertised",
        "advertised.listeners",
        "PLAINTEXT://<host that clients reach>:9092",
        gone=False,
    ),
    _kept(
        "discovery without rights",
        "values.yaml",
        "chart-external-access",
        "  enabled: true\n",
        "  enabled: true\n  autoDiscovery: {enabled: true}\n",
        "type: NodePort",
    ),
    Case(
        "MSK Serverless at a broker's port",
        {"client.properties": "bootstrap.servers=boot-1.c1.kafka-serverless.eu-west-1.amazonaws.com:9092\n"},
        "cloud-port",
        "bootstrap.servers",
        "bootstrap.servers=boot-1.c1.kafka-serverless.eu-west-1.amazonaws.com:9098",
        gone=False,
        also=frozenset(["cloud-protocol"]),
    ),
    Case(
        "a name of Debezium 1 beside one of Debezium 2",
        {
            "register.json": '{"config": {\n  "connector.class": "io.debezium.connector.mysql.MySqlConnector",\n'
            '  "topic.prefix": "shop",\n  "database.history.kafka.bootstrap.servers": "kafka:9092"\n}}\n'
        },
        "connector-setting-renamed",
        "database.history",
        '"schema.history.internal.kafka.bootstrap.servers": "kafka:9092"',
    ),
    Case(
        "Event Hubs without TLS, in .NET's settings",
        {
            "appsettings.json": '{\n  // of the shop\n  "Kafka": {\n'
            '    "BootstrapServers": "shop.servicebus.windows.net:9093",\n'
            '    "SecurityProtocol": "SaslPlaintext",\n    "SaslMechanism": "Plain",\n'
            '    "SaslUsername": "$ConnectionString",\n    "SaslPassword": "hush"\n  }\n}\n'
        },
        "cloud-protocol",
        "SecurityProtocol",
        '"SecurityProtocol": "SaslSsl"',
        gone=False,
    ),
    Case(
        "Java's login in .NET's settings",
        {
            "appsettings.Production.json": '{"Kafka": {\n  "bootstrap.servers": "k.example.com:9092",\n'
            '  "security.protocol": "SASL_SSL",\n  "sasl.mechanism": "PLAIN",\n'
            f'  "sasl.jaas.config": "{SINGLE}"\n}}}}\n'
        },
        "foreign-setting",
        "sasl.jaas",
        "sasl.username and sasl.password instead",
        gone=False,
    ),
    Case(
        "ZooKeeper in .NET's connection strings",
        {"appsettings.json": '{\n  "ConnectionStrings": {\n    "kafka": "zk.example.com:2181"\n  }\n}\n'},
        "bootstrap-not-kafka",
        '"kafka"',
        "zk.example.com:9092",
        gone=False,
    ),
    Case(
        "a module of another package, in a file",
        {"kafka_client_jaas.conf": JAAS.replace("plain.PlainLoginModule", "scram.PlainLoginModule")},
        "jaas-module",
        "LoginModule",
        "org.apache.kafka.common.security.plain.Plain[hidden]",
    ),
    Case(
        "voters by the names of pods alone",
        {"kafka.yaml": POD_VOTERS},
        "voter-address",
        "KAFKA_CONTROLLER_QUORUM_VOTERS",
        '- {name: KAFKA_CONTROLLER_QUORUM_VOTERS, value: "0@kafka-0.<headless Service>:9093,'
        '1@kafka-1.<headless Service>:9093"}',
        gone=False,
    ),
    Case(
        "an advertised name that Redpanda does not listen on",
        {
            "redpanda.yaml": "redpanda:\n  kafka_api:\n    - {name: internal, address: 0.0.0.0, port: 9092}\n"
            "  advertised_kafka_api:\n    - {name: internal, address: rp.local, port: 9092}\n"
            "    - {name: external, address: rp.example.com, port: 19092}\n"
        },
        "advertised-unknown-listener",
        "advertised_kafka_api",
        "kafka_api: [..., {name: external, address: 0.0.0.0, port: 19092}]",
        gone=False,
    ),
    Case(
        "the name of a pod alone",
        {
            "kafka.yaml": changed(POD_VOTERS, "$(POD).kafka-headless", "$(POD)", "0@kafka-0:9093,1@kafka-1:9093", "")
            .replace("name: POD,", "name: POD_NAME,")
            .replace("$(POD)", "$(POD_NAME)")
        },
        "pod-name-advertised",
        "KAFKA_ADVERTISED_LISTENERS",
        "PLAINTEXT://$(POD_NAME).<headless Service>:9092",
        gone=False,
        also=frozenset(["quorum-missing"]),
    ),
    Case(
        "a mechanism with dots in a prefix",
        {"server.properties": changed(SCRAM, ".scram-sha-512.sasl", ".scram.sha.512.sasl")},
        "listener-prefix",
        "scram.sha.512",
        "listener.name.external.scram-sha-512.sasl.jaas.config=[hidden];",
    ),
    Case(
        "the name of one server, in Spring",
        {"application.yml": SPRING.replace("bootstrap-servers", "bootstrap-server")},
        "client-setting-spelling",
        "bootstrap-server",
        "bootstrap-servers: kafka.example.com:9093",
    ),
    Case(
        "brokers whose own user is not there",
        {"kafka_server_jaas.conf": JAAS.replace("user_admin", "user_alice")},
        "jaas-own-user",
        "LoginModule",
        'user_NAME="..." of the username',
        gone=False,
    ),
    Case(
        "brokers whose own password is another",
        {"kafka_server_jaas.conf": JAAS.replace('user_admin="hush"', 'user_admin="other"')},
        "jaas-own-user",
        "LoginModule",
        'user_NAME="..." of the username',
        gone=False,
    ),
    Case(
        "two ids",
        {"server.properties": changed(KAFKA_4, "node.id=1\n", "node.id=1\nbroker.id=2\n")},
        "node-id-differs",
        "broker.id",
        "(without this line)",
    ),
    Case(
        "voters without ports",
        {
            "server.properties": changed(
                KAFKA_4, "controller.quorum.bootstrap.servers=localhost:9093", "controller.quorum.voters=1@localhost"
            )
        },
        "voter-address",
        "controller.quorum",
        "controller.quorum.voters=1@HOST:9093,...",
        gone=False,
    ),
    Case(
        "a listener on localhost for other machines",
        {
            "server.properties": changed(
                KAFKA_4,
                "PLAINTEXT://:9092",
                "PLAINTEXT://127.0.0.1:9092",
                "PLAINTEXT://localhost:9092",
                "PLAINTEXT://k.example.com:9092",
            )
        },
        "bound-to-loopback",
        "listeners=",
        "listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093",
    ),
    Case(
        "a listener on the host's address",
        {"compose.yml": changed(PLAIN, "PLAINTEXT://:9092", "PLAINTEXT://192.168.1.20:9092")},
        "foreign-bind-address",
        "KAFKA_LISTENERS",
        "KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093",
    ),
    Case(
        "a listener on a name that other machines have for the broker",
        {"compose.yml": changed(PLAIN, "PLAINTEXT://:9092", "PLAINTEXT://kafka.example.com:9092")},
        "foreign-bind-address",
        "KAFKA_LISTENERS",
        "KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093",
    ),
    Case(
        "a command of another container is a client",
        {"compose.yml": f"{PLAIN}{TOPICS}"},
        "loopback-advertised",
        "KAFKA_ADVERTISED",
        "KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092,DOCKER://kafka:29092",
        gone=False,
    ),
    Case(
        "a command of another container looks for the broker in its own",
        {"compose.yml": f"{PLAIN}{TOPICS}".replace("kafka:9092", "localhost:9092")},
        "bootstrap-loopback",
        "--bootstrap-server",
        "",
        gone=False,
    ),
    Case(
        "a connector runs in the container of its worker",
        {
            "connector.json": '{"connector.class": "x.Y",'
            ' "schema.history.internal.kafka.bootstrap.servers": "kafka:9092"}',
            "compose.yml": f"{PLAIN}{WORKER}    environment: {{BOOTSTRAP_SERVERS: 'outside.example.com:9092'}}\n",
        },
        "loopback-advertised",
        "compose.yml/KAFKA_ADVERTISED",
        "",
        gone=False,
    ),
    Case(
        "Connect without its bootstrap servers",
        {"compose.yml": f"{PLAIN}{WORKER}    environment: {{GROUP_ID: 1}}\n"},
        "variable-missing",
        "debezium/connect",
        "BOOTSTRAP_SERVERS: kafka:9092",
        gone=False,
    ),
    Case(
        "Schema Registry without its bootstrap servers",
        {
            "compose.yml": f"{PLAIN}  schemas:\n    image: confluentinc/cp-schema-registry:7.9.0\n"
            "    environment: {SCHEMA_REGISTRY_HOST_NAME: schemas}\n"
        },
        "variable-missing",
        "cp-schema-registry",
        "SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS: kafka:9092",
        gone=False,
    ),
    Case(
        "settings of external access beside it, in the values of a chart around Kafka's",
        {"values.yaml": OUTSIDE},
        "chart-external-access",
        "autoDiscovery",
        "externalAccess: {enabled: true, autoDiscovery: ...}",
        gone=False,
    ),
    Case(
        "both names are misspelt, in Kubernetes",
        {"pod.yaml": MISSPELT},
        "variable-spelling",
        "KAFKA_LISTERNERS",
        "- {name: KAFKA_LISTENERS, value: 'PLAINTEXT://0.0.0.0:9092'}",
    ),
    Case(
        "a random port of an image that is built from wurstmeister's",
        {"compose.yml": BUILT},
        "published-port-random",
        '- "9092"',
        '- "9092:9092"',
    ),
    Case(
        "a semicolon before the last options of a file",
        {"kafka_server_jaas.conf": JAAS.replace('password="hush"', 'password="hush";')},
        "jaas-semicolon",
        "password",
        "password=[hidden]",
    ),
    Case(
        "a semicolon before the last options of an entry",
        {"client.properties": CLIENT.replace('="u"', '="u";')},
        "jaas-semicolon",
        "sasl.jaas.config",
        'sasl.jaas.config=MODULE required KEY="VALUE" ...;',
        gone=False,
    ),
    Case(
        "Event Hubs with a part of the connection string",
        {"client.properties": EVENT_HUBS.replace("Endpoint=", "")},
        "cloud-user",
        "sasl.jaas.config",
        'password="Endpoint=sb://...;..."',
        gone=False,
    ),
    Case(
        "Event Hubs with a part of the connection string, in librdkafka",
        {
            "librdkafka.conf": "bootstrap.servers=shop.servicebus.windows.net:9093\nsecurity.protocol=SASL_SSL\n"
            "sasl.mechanism=PLAIN\nsasl.username=$ConnectionString\nsasl.password=sb://shop/;x=y\n"
        },
        "cloud-user",
        "sasl.username",
        'password="Endpoint=sb://...;..."',
        gone=False,
    ),
    Case(
        "Schema Registry with a misspelt variable",
        {
            "compose.yml": f"{PLAIN}  schemas:\n    image: confluentinc/cp-schema-registry:7.9.0\n"
            "    environment:\n      SCHEMA_REGISTRY_KAFKA_STORE_BOOTSTRAP_SERVERS: outside.example.com:9092\n"
        },
        "variable-spelling",
        "SCHEMA_REGISTRY_KAFKA_STORE",
        "SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS: outside.example.com:9092",
    ),
    Case(
        "Debezium's worker has a login, and its connectors have none",
        {
            "compose.yml": f"{PLAIN}{WORKER}    environment:\n      BOOTSTRAP_SERVERS: outside.example.com:9092\n"
            "      CONNECT_SECURITY_PROTOCOL: SASL_SSL\n"
        },
        "connector-clients",
        "CONNECT_SECURITY",
        "CONNECT_PRODUCER_SECURITY_PROTOCOL=SASL_SSL",
        gone=False,
    ),
    Case(
        "wurstmeister's image and a Service called kafka",
        {
            "kafka.yaml": f"apiVersion: v1\nkind: Service\nmetadata: {{name: kafka}}\n---{MISSPELT}".replace(
                "TERN", "TEN"
            )
        },
        "service-links",
        "image:",
        "enableServiceLinks: false",
        gone=False,
    ),
    Case(
        "quotes in a list of variables",
        {"compose.yml": changed(ONE_NODE_LIST, "=1@kafka:9093", "='1@kafka:9093'")},
        "variable-quotes",
        "VOTERS",
        "- KAFKA_CONTROLLER_QUORUM_VOTERS=1@kafka:9093",
        also=frozenset({"voter-address"}),
    ),
    Case(
        "options of Java with their quotes",
        {
            "compose.yml": changed(
                ONE_NODE_LIST, "      - KAFKA_NODE_ID", '      - KAFKA_OPTS="-Dx=y"\n      - KAFKA_NODE_ID'
            )
        },
        "variable-quotes",
        "KAFKA_OPTS",
        "- KAFKA_OPTS=<the same without quotes>",
        gone=False,
    ),
    Case(
        "keys of a service among the services",
        {"compose.yml": f"{PLAIN}  environment: [KAFKA_NUM_PARTITIONS=3]\n"},
        "syntax",
        "NUM_PARTITIONS",
        "",
        gone=False,
    ),
    Case(
        "an address without a listener's name in the values of a chart",
        {"values.yaml": "advertisedListeners: 192.168.1.1:32500\nreplicaCount: 1\n"},
        "listener-syntax",
        "advertised",
        "advertisedListeners: PLAINTEXT://192.168.1.1:32500",
    ),
    *(
        Case(
            f"a name that the framework does not know: {wrong}",
            {"application.properties": f"{wrong}=kafka.example.com:9092\n"},
            "client-setting-spelling",
            "example",
            f"{right}=kafka.example.com:9092",
        )
        for wrong, right in (
            ("spring.kafka.bootstrap.servers", "spring.kafka.bootstrap-servers"),
            ("spring.kafka.consumer.bootstrap.servers", "spring.kafka.consumer.bootstrap-servers"),
            ("spring.cloud.stream.kafka.binders.brokers", "spring.cloud.stream.kafka.binder.brokers"),
            (
                "spring.cloud.stream.kafka.binder.configuration.bootstrap-servers",
                "spring.cloud.stream.kafka.binder.configuration.bootstrap.servers",
            ),
            ("quarkus.kafka.bootstrap-servers", "kafka.bootstrap.servers"),
            ("%dev.quarkus.kafka.bootstrap-servers", "%dev.kafka.bootstrap.servers"),
        )
    ),
    Case(
        "a login that Spring does not pass on",
        {"application.yml": SPRING.replace("    properties:\n", "").replace("      s", "    s")},
        "client-setting-spelling",
        "sasl.mechanism",
        "properties.sasl.mechanism: PLAIN",
    ),
    Case(
        "a host in a listener that is no route and no ingress",
        {
            "kafka.yaml": changed(
                STRIMZI_1, "tls: false", "tls: false\n        configuration: {bootstrap: {host: kafka.example.com}}"
            )
        },
        "operator-listener-type",
        "kafka.example.com",
        "advertisedHost: <name>",
        gone=False,
    ),
    Case(
        "a version of the resource that is gone",
        {"kafka.yaml": STRIMZI.replace("v1beta2", "v1beta1")},
        "operator-version",
        "2=apiVersion",
        "apiVersion: kafka.strimzi.io/v1beta2",
    ),
    Case(
        "a password for a trust store of PEM",
        {
            "client.properties": f"{CLIENT}ssl.truststore.location=/etc/ca.pem\nssl.truststore.type=PEM\n"
            "ssl.truststore.password=hush\n"
        },
        "store-type",
        "ssl.truststore.password",
        "(without this line)",
    ),
    Case(
        "a Schema Registry in a file of kcat",
        {
            "kcat.conf": "bootstrap.servers=kafka.example.com:9092\nmessage.timeout.ms=1000\n"
            "schema.registry.url=https://schemas.example.com\n"
        },
        "foreign-setting",
        "schema.registry",
        "(without this line)",
    ),
    Case(
        "the REST Proxy's own listener without a scheme",
        {
            "compose.yml": f"{PLAIN}  rest:\n    image: confluentinc/cp-kafka-rest:7.9.0\n    environment:\n"
            "      KAFKA_REST_BOOTSTRAP_SERVERS: outside.example.com:9092\n"
            "      KAFKA_REST_LISTENERS: 0.0.0.0:8082\n"
        },
        "listener-syntax",
        "KAFKA_REST_LISTENERS",
        "KAFKA_REST_LISTENERS: http://0.0.0.0:8082",
    ),
    *(
        Case(
            f"a misspelt property: {wrong}",
            {"server.properties": changed(KAFKA_4, "\nadvertised.listeners=", f"\n{wrong}=")},
            "variable-spelling",
            f"{wrong}=",
            "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            also=frozenset({"canonical-host-name", "advertised-wildcard"}),
            gone=False,
        )
        for wrong in ("advertised_listeners", "advertised.listener", "advertised-listeners")
    ),
    Case(
        "a misspelt package of a login module",
        {"client.properties": CLIENT.replace("=org.apache", "=corg.apache")},
        "jaas-module",
        "sasl.jaas.config",
        "sasl.jaas.config=[hidden];",
    ),
    Case(
        "an address that Docker gave once",
        {"compose.yml": changed(PLAIN, "//localhost:9092", "//172.18.0.3:9092")},
        "container-name-advertised",
        "KAFKA_ADVERTISED",
        "KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092",
        gone=False,
    ),
    Case(
        "the wildcard as the advertised host of an old image",
        {"compose.yml": BUILT.replace("192.168.1.20", "0.0.0.0").replace('"9092"', '"9092:9092"')},
        "advertised-wildcard",
        "KAFKA_ADVERTISED",
        "KAFKA_ADVERTISED_HOST_NAME: localhost",
    ),
    Case(
        "a program without a broker looks for one in its own container",
        {"compose.yml": changed(UI, "shop.servicebus.windows.net:9093", "localhost:9092")},
        "bootstrap-loopback",
        "localhost",
        "KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS: host.docker.internal:9092",
        gone=False,
    ),
]
