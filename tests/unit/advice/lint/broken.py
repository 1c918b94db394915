"""Set-ups with one mistake each: what is replaced in a healthy one, and what must be found then."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.unit.advice.lint import examples

ONE_NODE = examples.COMPOSE["Apache, one node"]
CP = examples.COMPOSE["cp-all-in-one with KRaft"]
CP_OLD = examples.COMPOSE["cp-all-in-one with ZooKeeper"]
CLUSTER = examples.COMPOSE["Apache, three combined nodes"]
ISOLATED = examples.COMPOSE["Apache, controllers apart"]
BITNAMI = examples.COMPOSE["Bitnami, one node"]
BITNAMI_OLD = examples.COMPOSE["Bitnami with ZooKeeper"]
THREE = examples.COMPOSE["three listeners: containers, the host, other machines"]
TLS = examples.COMPOSE["Apache, one node with TLS"]
KAFKA_4 = examples.SERVER["Kafka 4, one node"]
BROKER = examples.SERVER["a broker only"]
CONTROLLER = examples.SERVER["a controller only"]
ZOOKEEPER = examples.SERVER["ZooKeeper"]
SCRAM = examples.SERVER["SCRAM and TLS"]
STRIMZI = examples.KUBERNETES["Strimzi, v1beta2, all types"]
STRIMZI_1 = examples.KUBERNETES["Strimzi, v1"]
CFK = examples.KUBERNETES["CFK"]
CP_ISOLATED = (
    ISOLATED.replace("apache/kafka:3.9.1", "confluentinc/cp-kafka:7.9.0")
    .replace("      KAFKA_NODE_ID", "      CLUSTER_ID: x\n      KAFKA_NODE_ID")
    .replace("      - KAFKA_NODE", "      - CLUSTER_ID=x\n      - KAFKA_NODE")
)
ADVERTISED = "KAFKA_ADVERTISED_LISTENERS"
FACTOR = "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"

PLAIN = """
services:
  kafka:
    image: apache/kafka:4.0.0
    ports:
      - "9092:9092"
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENERS: PLAINTEXT://:9092,CONTROLLER://:9093
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@kafka:9093
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
"""
APP = """
  app:
    image: my/app
    environment:
      BOOTSTRAP_SERVERS: kafka:9092
"""


@dataclass(frozen=True, slots=True)
class Case:
    """`line` is a text that is on the line of the finding; the first such line. `gone`: --fix mends it."""

    name: str
    files: dict[str, str]
    rule: str
    line: str
    corrected: str
    gone: bool = True
    host: str = ""
    also: frozenset[str] = field(default=frozenset())
    """Other rules that may find the same mistake."""


def changed(text: str, *pairs: str) -> str:
    """The text with each first of two replaced by the second, once."""
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def server(
    name: str,
    text: str,
    *pairs: str,
    rule: str,
    line: str,
    corrected: str,
    gone: bool = True,
    host: str = "",
    also: frozenset[str] = frozenset(),
) -> Case:
    return Case(name, {"server.properties": changed(text, *pairs)}, rule, line, corrected, gone, host, also)


def compose(
    name: str,
    text: str,
    *pairs: str,
    rule: str,
    line: str,
    corrected: str,
    gone: bool = True,
    also: frozenset[str] = frozenset(),
) -> Case:
    return Case(name, {"compose.yml": changed(text, *pairs)}, rule, line, corrected, gone, "", also)


def kubernetes(name: str, text: str, *pairs: str, rule: str, line: str, corrected: str, gone: bool = True) -> Case:
    return Case(name, {"kafka.yaml": changed(text, *pairs)}, rule, line, corrected, gone)


CASES = [
    # server.properties
    server(
        "wildcard advertised",
        KAFKA_4,
        "PLAINTEXT://localhost:9092,CONTROLLER://l",
        "PLAINTEXT://0.0.0.0:9092,CONTROLLER://l",
        rule="advertised-wildcard",
        line="advertised.listeners",
        host="kafka.example",
        corrected="advertised.listeners=PLAINTEXT://kafka.example:9092,CONTROLLER://localhost:9093",
    ),
    server(
        "wildcard advertised, no host known",
        KAFKA_4,
        "PLAINTEXT://localhost:9092,CONTROLLER://l",
        "PLAINTEXT://[::]:9092,CONTROLLER://l",
        rule="advertised-wildcard",
        line="advertised.listeners",
        gone=False,
        corrected="advertised.listeners=PLAINTEXT://<host that clients reach>:9092,CONTROLLER://localhost:9093",
    ),
    server(
        "wildcard not advertised otherwise",
        BROKER,
        "listeners=PLAINTEXT://localhost:9092",
        "listeners=PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners=PLAINTEXT://localhost:9092\n",
        "",
        rule="advertised-wildcard",
        line="listeners=",
        host="k.example",
        corrected="advertised.listeners=PLAINTEXT://k.example:9092",
    ),
    server(
        "an unknown name is advertised",
        KAFKA_4,
        "advertised.listeners=PLAINTEXT",
        "advertised.listeners=PLAINTXT",
        rule="advertised-unknown-listener",
        line="advertised.listeners",
        also=frozenset({"inter-broker-unknown"}),
        corrected="advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    ),
    server(
        "no protocol for a name of one's own",
        KAFKA_4,
        "PLAINTEXT://:9092",
        "EXTERNAL://:9092",
        "PLAINTEXT://localhost",
        "EXTERNAL://localhost",
        "inter.broker.listener.name=PLAINTEXT",
        "inter.broker.listener.name=EXTERNAL",
        rule="protocol-map-missing",
        line="listener.security.protocol.map",
        corrected="listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,EXTERNAL:PLAINTEXT",
    ),
    server(
        "no protocol for the controllers",
        BROKER,
        "CONTROLLER:PLAINTEXT,",
        "",
        rule="protocol-map-missing",
        line="listener.security.protocol.map",
        corrected="listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
    ),
    server(
        "an unknown protocol",
        BROKER,
        "PLAINTEXT:PLAINTEXT",
        "PLAINTEXT:PLAIN",
        rule="protocol-unknown",
        line="listener.security.protocol.map",
        corrected="listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
    ),
    server(
        "an unknown inter-broker listener",
        KAFKA_4,
        "name=PLAINTEXT\n",
        "name=INTERNAL\n",
        rule="inter-broker-unknown",
        line="inter.broker",
        corrected="inter.broker.listener.name=PLAINTEXT",
    ),
    server(
        "no inter-broker listener",
        SCRAM,
        "inter.broker.listener.name=INTERNAL\n",
        "",
        rule="inter-broker-missing",
        line="advertised.listeners",
        corrected="inter.broker.listener.name=INTERNAL",
    ),
    server(
        "two settings for the inter-broker listener",
        KAFKA_4,
        "log.dirs",
        "security.inter.broker.protocol=PLAINTEXT\nlog.dirs",
        rule="inter-broker-twice",
        line="security.inter",
        corrected="(without this line)",
    ),
    server(
        "two listeners with one port",
        KAFKA_4,
        "CONTROLLER://:9093",
        "CONTROLLER://:9092",
        "CONTROLLER://localhost:9093",
        "CONTROLLER://localhost:9092",
        rule="duplicate-port",
        line="listeners=",
        corrected="listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
    ),
    server(
        "two listeners with one name",
        SCRAM,
        "EXTERNAL://[::]:9092,EXTERNAL://0.0.0.0:9092",
        "EXTERNAL://:9092,EXTERNAL://:9095",
        rule="duplicate-listener-name",
        line="listeners=",
        corrected="listeners=INTERNAL://10.0.0.11:9094,EXTERNAL://:9092",
    ),
    server(
        "no slashes",
        KAFKA_4,
        "listeners=PLAINTEXT://:9092",
        "listeners=PLAINTEXT:/:9092",
        rule="listener-syntax",
        line="listeners=",
        corrected="listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
        also=frozenset({"advertised-unknown-listener"}),
    ),
    server(
        "settings that Kafka 3 removed",
        ZOOKEEPER,
        "zookeeper.connect",
        "advertised.host.name=kafka0.example\nzookeeper.connect",
        rule="removed-setting",
        line="advertised.host.name",
        corrected="advertised.listeners=PLAINTEXT://kafka0.example:9092",
    ),
    server(
        "a controller without its listener",
        KAFKA_4,
        "PLAINTEXT://:9092,CONTROLLER://:9093",
        "PLAINTEXT://:9092",
        rule="controller-listener-missing",
        line="listeners=",
        corrected="listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
    ),
    server(
        "no controller.listener.names",
        KAFKA_4,
        "controller.listener.names=CONTROLLER\n",
        "",
        rule="controller-names-missing",
        line="process.roles",
        corrected="controller.listener.names=CONTROLLER",
    ),
    server(
        "a broker advertises the controllers' listener",
        BROKER,
        "advertised.listeners=PLAINTEXT://localhost:9092",
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        rule="controller-advertised",
        line="advertised.listeners",
        corrected="advertised.listeners=PLAINTEXT://localhost:9092",
    ),
    server(
        "a broker listens for controllers",
        BROKER,
        "listeners=PLAINTEXT://localhost:9092",
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        rule="controller-on-broker",
        line="listeners=",
        corrected="listeners=PLAINTEXT://localhost:9092",
    ),
    server(
        "a controller listens for clients",
        CONTROLLER,
        "listeners=CONTROLLER://:9093",
        "listeners=CONTROLLER://:9093,PLAINTEXT://:9092",
        rule="broker-listener-on-controller",
        line="listeners=",
        corrected="listeners=CONTROLLER://:9093",
    ),
    server(
        "a controller that is no voter",
        KAFKA_4,
        "controller.quorum.bootstrap.servers=localhost:9093",
        "controller.quorum.voters=2@localhost:9093",
        rule="voter-missing",
        line="controller.quorum",
        corrected="controller.quorum.voters=1@localhost:9093",
    ),
    server(
        "a broker that is a voter",
        BROKER,
        "controller.quorum.bootstrap.servers=localhost:9093",
        "controller.quorum.voters=2@localhost:9093",
        rule="voter-broker",
        line="node.id",
        gone=False,
        corrected="node.id=3",
    ),
    server(
        "a voter at another port",
        KAFKA_4,
        "controller.quorum.bootstrap.servers=localhost:9093",
        "controller.quorum.voters=1@localhost:9999",
        rule="voter-address",
        line="controller.quorum",
        corrected="controller.quorum.voters=1@localhost:9093",
    ),
    server(
        "no node.id",
        KAFKA_4,
        "node.id=1\n",
        "",
        rule="node-id-missing",
        line="process.roles",
        gone=False,
        corrected="node.id=1",
    ),
    server(
        "no voters",
        KAFKA_4,
        "controller.quorum.bootstrap.servers=localhost:9093\n",
        "",
        rule="quorum-missing",
        line="process.roles",
        corrected="controller.quorum.voters=1@localhost:9093",
    ),
    server(
        "ZooKeeper beside KRaft",
        KAFKA_4,
        "log.dirs",
        "zookeeper.connect=localhost:2181\nlog.dirs",
        rule="zookeeper-on-kraft",
        line="zookeeper.connect",
        corrected="(without this line)",
    ),
    server(
        "an unknown role",
        KAFKA_4,
        "process.roles=broker,controller",
        "process.roles=Broker,controller",
        rule="process-roles",
        line="process.roles",
        corrected="process.roles=broker,controller",
    ),
    server(
        "SASL without mechanisms",
        SCRAM,
        "sasl.enabled.mechanisms=SCRAM-SHA-512\n",
        "",
        rule="sasl-mechanism-missing",
        line="listeners=",
        corrected="sasl.enabled.mechanisms=SCRAM-SHA-512",
    ),
    server(
        "brokers log in with GSSAPI",
        SCRAM,
        "INTERNAL:SSL",
        "INTERNAL:SASL_SSL",
        rule="inter-broker-mechanism",
        line="sasl.enabled",
        corrected="sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512",
    ),
    server(
        "TLS without a key store",
        ZOOKEEPER,
        "ssl.keystore.location=/var/private/ssl/server.keystore.jks\n",
        "",
        rule="ssl-keystore-missing",
        line="listeners",
        gone=False,
        corrected="ssl.keystore.location=<path of the key store>",
    ),
    server(
        "a key twice",
        KAFKA_4,
        "log.dirs",
        "node.id=1\nlog.dirs",
        rule="duplicate-key",
        line="2=node.id",
        corrected="(without this line)",
    ),
    Case(
        "two brokers with one id",
        {
            "a/server.properties": BROKER,
            "b/server.properties": changed(
                BROKER,
                "listeners=PLAINTEXT://localhost:9092",
                "listeners=PLAINTEXT://localhost:9094",
                "advertised.listeners=PLAINTEXT://localhost:9092",
                "advertised.listeners=PLAINTEXT://localhost:9094",
            ),
        },
        "duplicate-node-id",
        "b/node.id",
        "node.id=1",
    ),
    Case(
        "two brokers at one address",
        {"a/server.properties": BROKER, "b/server.properties": changed(BROKER, "node.id=2", "node.id=3")},
        "same-address-twice",
        "b/advertised.listeners",
        "PLAINTEXT://<its own host>:9092",
        gone=False,
    ),
    # Compose
    compose(
        "localhost for another container",
        PLAIN + APP,
        rule="loopback-advertised",
        line="KAFKA_ADVERTISED",
        corrected="KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092,DOCKER://kafka:29092",
    ),
    compose(
        "localhost, but a listener for containers is there",
        CP,
        "'broker:29092'",
        "'broker:9092'",
        rule="loopback-advertised",
        line="KAFKA_ADVERTISED",
        corrected="SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS: 'broker:29092'",
    ),
    compose(
        "localhost between brokers",
        CLUSTER,
        "PLAINTEXT://kafka-2:19092",
        "PLAINTEXT://localhost:19092",
        rule="loopback-advertised",
        line="PLAINTEXT://localhost:19092",
        corrected="KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka-2:19092,PLAINTEXT_HOST://localhost:29092",
    ),
    compose(
        "a container's name though the port is published",
        PLAIN,
        "//localhost",
        "//kafka",
        rule="container-name-advertised",
        line="KAFKA_ADVERTISED",
        corrected="KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092",
    ),
    compose(
        "a container's name that others use too",
        PLAIN + APP,
        "//localhost",
        "//kafka",
        rule="container-name-advertised",
        line="KAFKA_ADVERTISED",
        corrected="KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092,HOST://localhost:9092",
    ),
    compose(
        "another port is published",
        CLUSTER,
        "- 29092:9092",
        "- 29093:9092",
        rule="published-port-differs",
        line="localhost:29092",
        corrected="KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka-2:19092,PLAINTEXT_HOST://localhost:29093",
    ),
    compose(
        "the published port leads elsewhere",
        ONE_NODE,
        "- '9092:9092'",
        "- '9092:9999'",
        rule="published-port-differs",
        line="9092:9999",
        corrected="- '9092:9092'",
    ),
    compose(
        "the published port leads to the containers' listener",
        ONE_NODE,
        "- '9092:9092'",
        "- '9092:19092'",
        rule="published-port-differs",
        line="9092:19092",
        corrected="- '9092:9092'",
        also=frozenset({"container-name-advertised"}),
    ),
    compose(
        "no port is published",
        ONE_NODE,
        "- '9092:9092'",
        "- '8080:8080'",
        rule="port-not-published",
        line="KAFKA_ADVERTISED",
        corrected="- '9092:9092'",
    ),
    compose(
        "a listener on the container's localhost",
        PLAIN,
        "PLAINTEXT://:9092",
        "PLAINTEXT://127.0.0.1:9092",
        rule="bound-to-loopback",
        line="KAFKA_LISTENERS",
        corrected="KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093",
    ),
    compose(
        "the wildcard is advertised",
        PLAIN,
        "//localhost",
        "//0.0.0.0",
        rule="advertised-wildcard",
        line="KAFKA_ADVERTISED",
        corrected="KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092",
    ),
    compose(
        "Kafka 3.9.0 and the wildcard of a controller",
        PLAIN,
        "kafka:4.0.0",
        "kafka:3.9.0",
        "CONTROLLER://:9093",
        "CONTROLLER://0.0.0.0:9093",
        rule="advertised-wildcard",
        line="KAFKA_LISTENERS",
        corrected="KAFKA_LISTENERS: PLAINTEXT://:9092,CONTROLLER://:9093",
    ),
    compose(
        "a misspelt variable",
        ONE_NODE,
        "KAFKA_ADVERTISED_LISTENERS",
        "KAFKA_ADVERTISED_LISTENER",
        rule="variable-spelling",
        line="KAFKA_ADVERTISED_LISTENER:",
        corrected="KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092'",
    ),
    compose(
        "Bitnami's prefix for Apache's image",
        ONE_NODE,
        "KAFKA_LISTENERS",
        "KAFKA_CFG_LISTENERS",
        rule="variable-spelling",
        line="KAFKA_CFG_LISTENERS",
        corrected="KAFKA_LISTENERS: 'CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092'",
        also=frozenset({"controller-listener-missing"}),
    ),
    compose(
        "no prefix CFG for Bitnami's image",
        BITNAMI,
        "KAFKA_CFG_CONTROLLER_LISTENER_NAMES",
        "KAFKA_CONTROLLER_LISTENER_NAMES",
        rule="variable-spelling",
        line="KAFKA_CONTROLLER_LISTENER",
        also=frozenset({"controller-names-missing"}),
        corrected="- KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER",
    ),
    compose(
        "two underscores",
        ONE_NODE,
        "KAFKA_INTER_BROKER_LISTENER_NAME",
        "KAFKA_INTER_BROKER__LISTENER_NAME",
        rule="variable-spelling",
        line="KAFKA_INTER_BROKER__",
        corrected="KAFKA_INTER_BROKER_LISTENER_NAME: 'PLAINTEXT'",
    ),
    compose(
        "lower case",
        ONE_NODE,
        "KAFKA_NODE_ID",
        "kafka_node_id",
        rule="variable-spelling",
        line="kafka_node_id",
        corrected="KAFKA_NODE_ID: 1",
        also=frozenset({"node-id-missing"}),
    ),
    compose(
        "one variable takes all defaults away",
        "\nservices:\n  kafka:\n    image: apache/kafka\n    environment:\n"
        "      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092\n",
        rule="image-defaults-lost",
        line="KAFKA_ADV",
        corrected="KAFKA_PROCESS_ROLES: broker,controller",
        also=frozenset({"replication-factor"}),
    ),
    compose(
        "Confluent's image without CLUSTER_ID",
        CP,
        "      CLUSTER_ID: 'bGludC1leGFtcGxlLTAwMQ'\n",
        "",
        rule="variable-missing",
        line="  broker:",
        corrected="CLUSTER_ID: 'MkU3OEVBNTcwNTJENDM2Qk'",
    ),
    compose(
        "Confluent's image without advertised listeners",
        CP_OLD,
        "      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker:9093,PLAINTEXT_HOST://localhost:9092\n",
        "",
        rule="variable-missing",
        line="  broker:",
        corrected="KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT://localhost:9092'",
    ),
    compose(
        "Confluent's controller advertises",
        CP_ISOLATED,
        "      KAFKA_LISTENERS: 'C",
        "      KAFKA_ADVERTISED_LISTENERS: 'CONTROLLER://controller-1:9093'\n      KAFKA_LISTENERS: 'C",
        rule="variable-refused",
        line="KAFKA_ADVERTISED_LISTENERS: 'C",
        corrected="(without this line)",
    ),
    compose(
        "Confluent's image refuses the old settings",
        CP_OLD,
        "KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker:9093,PLAINTEXT_HOST://localhost:9092",
        "KAFKA_ADVERTISED_HOST: broker",
        rule="variable-refused",
        line="KAFKA_ADVERTISED_HOST",
        corrected="KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker:9092",
        also=frozenset({"variable-missing", "canonical-host-name"}),
    ),
    compose(
        "Bitnami's old image needs leave for plaintext",
        BITNAMI_OLD,
        "ALLOW_PLAINTEXT_LISTENER=yes",
        "ALLOW_PLAINTEXT_LISTENER=no",
        rule="plaintext-not-allowed",
        line="ALLOW_PLAINTEXT",
        corrected="- ALLOW_PLAINTEXT_LISTENER=yes",
    ),
    compose(
        "ZooKeeper for an image without it",
        CP_OLD,
        "cp-kafka:6.2.0",
        "cp-kafka:8.0.0",
        rule="zookeeper-on-kraft",
        line="KAFKA_ZOOKEEPER_CONNECT",
        corrected="KAFKA_PROCESS_ROLES: broker,controller",
        gone=False,
        also=frozenset({"variable-missing"}),
    ),
    compose(
        "three replicas of one broker",
        ONE_NODE,
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 3",
        rule="replication-factor",
        line="KAFKA_OFFSETS",
        corrected="KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1",
    ),
    compose(
        "three replicas by default",
        ONE_NODE,
        "      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1\n",
        "",
        rule="replication-factor",
        line="KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR",
        corrected="KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1",
    ),
    compose(
        "two containers with one id",
        CLUSTER,
        "KAFKA_NODE_ID: 3",
        "KAFKA_NODE_ID: 2",
        rule="duplicate-node-id",
        line="3=KAFKA_NODE_ID",
        corrected="KAFKA_NODE_ID: 3",
        also=frozenset({"voter-address"}),
    ),
    compose(
        "a node with other voters",
        CLUSTER,
        "3@kafka-3:9093'\n      KAFKA_LISTENERS",
        "3@kafka-3:9094'\n      KAFKA_LISTENERS",
        rule="quorum-differs",
        line="3@kafka-3:9094",
        corrected="KAFKA_CONTROLLER_QUORUM_VOTERS: '1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093'",
    ),
    compose(
        "another CLUSTER_ID",
        CLUSTER,
        "bGludC1leGFtcGxlLTAwMQ",
        "b3RoZXItZXhhbXBsZS0wMQ",
        rule="cluster-id-differs",
        line="b3RoZXItZX",
        corrected="CLUSTER_ID: 'bGludC1leGFtcGxlLTAwMQ'",
    ),
    compose(
        "a key twice in YAML",
        ONE_NODE,
        "      KAFKA_NODE_ID: 1\n",
        "      KAFKA_NODE_ID: 1\n      KAFKA_NODE_ID: 1\n",
        rule="duplicate-key",
        line="2=KAFKA_NODE_ID",
        corrected="",
        gone=False,
    ),
    compose(
        "a voter that is no name of the node",
        CLUSTER.replace("2@kafka-2:9093", "2@localhost:9093"),
        rule="voter-address",
        line="2@localhost",
        corrected="KAFKA_CONTROLLER_QUORUM_VOTERS: '1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093'",
    ),
    compose(
        "TLS without a key store, in a container",
        TLS,
        "KAFKA_SSL_KEYSTORE_FILENAME: k",
        "X: k",
        rule="ssl-keystore-missing",
        line="KAFKA_LISTENERS",
        corrected="KAFKA_SSL_KEYSTORE_LOCATION: <path of the key store>",
        gone=False,
    ),
    compose(
        "SASL without JAAS, in a container",
        TLS,
        "SSL:SSL",
        "SSL:SASL_SSL",
        rule="sasl-jaas-missing",
        line="KAFKA_LISTENERS",
        corrected="KAFKA_LISTENER_NAME_SSL_SCRAM___SHA___512_SASL_JAAS_CONFIG: <login module> required …;",
        gone=False,
        also=frozenset({"sasl-mechanism-missing"}),
    ),
    # Clients
    compose(
        "a container looks at its own localhost",
        ONE_NODE + APP,
        "BOOTSTRAP_SERVERS: kafka:9092",
        "BOOTSTRAP_SERVERS: localhost:9092",
        rule="bootstrap-loopback",
        line="BOOTSTRAP_SERVERS",
        corrected="BOOTSTRAP_SERVERS: broker:19092",
    ),
    compose(
        "a container uses the published port",
        CLUSTER + APP,
        "kafka:9092",
        "kafka-1:29092",
        rule="bootstrap-port",
        line="BOOTSTRAP_SERVERS",
        corrected="BOOTSTRAP_SERVERS: kafka-1:19092",
    ),
    compose(
        "a container uses the controllers' port",
        PLAIN + APP,
        "BOOTSTRAP_SERVERS: kafka:9092",
        "BOOTSTRAP_SERVERS: kafka:9093",
        "//localhost",
        "//kafka",
        '    ports:\n      - "9092:9092"\n',
        "",
        rule="bootstrap-controller",
        line="BOOTSTRAP_SERVERS",
        corrected="BOOTSTRAP_SERVERS: kafka:9092",
    ),
    compose(
        "a container in another network",
        THREE,
        "networks: [inner]",
        "networks: [outer]",
        rule="bootstrap-network",
        line="BOOTSTRAP_SERVERS",
        corrected="networks: [inner]",
        gone=False,
    ),
    Case(
        "a client speaks TLS to plaintext",
        {"compose.yml": ONE_NODE, "client.properties": "bootstrap.servers=localhost:9092\nsecurity.protocol=SSL\n"},
        "client-protocol",
        "client.properties/security.protocol",
        "security.protocol=PLAINTEXT",
    ),
    Case(
        "a client at a port that is not published",
        {"compose.yml": ONE_NODE, "client.properties": "bootstrap.servers=localhost:19092\n"},
        "bootstrap-port",
        "client.properties/bootstrap",
        "bootstrap.servers=localhost:9092",
    ),
    Case(
        "a client with another mechanism",
        {
            "server.properties": SCRAM,
            "client.properties": "bootstrap.servers=kafka11.example.com:9092\nsecurity.protocol=SASL_SSL\n"
            'sasl.mechanism=PLAIN\nsasl.jaas.config=PlainLoginModule required username="a" password="hush";\n',
        },
        "client-mechanism",
        "client.properties/sasl.mechanism",
        "sasl.mechanism=SCRAM-SHA-512",
    ),
    Case(
        "an unknown protocol of a client",
        {"client.properties": "bootstrap.servers=k:9092\nsecurity.protocol=TLS\n"},
        "client-protocol-unknown",
        "security.protocol",
        "security.protocol=SSL",
    ),
    Case(
        "a bootstrap server without a port",
        {"client.properties": "bootstrap.servers=kafka.example\n"},
        "bootstrap-syntax",
        "bootstrap.servers",
        "bootstrap.servers=kafka.example:9092",
    ),
    Case(
        "a client that does not log in",
        {"client.properties": "bootstrap.servers=k:9092\nsecurity.protocol=PLAINTEXT\nsasl.mechanism=PLAIN\n"},
        "client-protocol",
        "sasl.mechanism",
        "security.protocol=SASL_PLAINTEXT",
    ),
    # Operators
    kubernetes(
        "Strimzi: a name with capitals",
        STRIMZI_1,
        "name: plain",
        "name: Plain_1",
        rule="operator-listener-name",
        line="Plain_1",
        corrected="- name: plain1",
    ),
    kubernetes(
        "Strimzi: a low port",
        STRIMZI_1,
        "port: 9092",
        "port: 9091",
        rule="operator-listener-port",
        line="9091",
        corrected="port: 9092",
    ),
    kubernetes(
        "Strimzi: an unknown type",
        STRIMZI_1,
        "type: internal",
        "type: LoadBalancer",
        rule="operator-listener-type",
        line="LoadBalancer",
        corrected="type: loadbalancer",
    ),
    kubernetes(
        "Strimzi: a route without TLS",
        STRIMZI,
        "type: route, tls: true",
        "type: route, tls: false",
        rule="operator-listener-tls",
        line="route, port",
        corrected="- {name: route, port: 9097, type: route, tls: true}",
    ),
    kubernetes(
        "Strimzi: two listeners with one port",
        STRIMZI,
        "port: 9095",
        "port: 9092",
        rule="duplicate-port",
        line="lb, port",
        corrected="- {name: lb, port: 9095, type: loadbalancer, tls: true}",
    ),
    kubernetes(
        "Strimzi: a broker without a host",
        STRIMZI,
        "            - {broker: 2, host: broker-2.example.com}\n",
        "",
        rule="operator-host-missing",
        line="name: ingress",
        corrected="- {broker: 2, host: <name>}",
        gone=False,
    ),
    kubernetes(
        "Strimzi: localhost advertised",
        STRIMZI,
        "kafka-0.example.com",
        "localhost",
        rule="operator-advertised",
        line="localhost",
        corrected="advertisedHost: <name that clients reach>",
        gone=False,
    ),
    kubernetes(
        "Strimzi: its own settings",
        STRIMZI_1,
        "    config:\n",
        "    config:\n      advertised.listeners: PLAINTEXT://x:9092\n",
        rule="operator-setting-ignored",
        line="advertised.listeners",
        corrected="(without this line)",
    ),
    kubernetes(
        "Strimzi: too many replicas",
        STRIMZI,
        "replicas: 3",
        "replicas: 1",
        rule="replication-factor",
        line="offsets",
        corrected="offsets.topic.replication.factor: 1",
    ),
    kubernetes(
        "CFK: no domain",
        CFK,
        "          domain: my.domain.example\n",
        "          x: y\n",
        rule="operator-host-missing",
        line="type: loadBalancer",
        corrected="loadBalancer: {domain: <name>}",
        gone=False,
    ),
    kubernetes(
        "CFK: a low port",
        CFK,
        "port: 9094",
        "port: 9092",
        rule="operator-listener-port",
        line="9092",
        corrected="port: 9094",
    ),
    kubernetes(
        "CFK: an unknown type",
        CFK,
        "type: nodePort",
        "type: NodePort",
        rule="operator-listener-type",
        line="NodePort",
        corrected="type: nodePort",
    ),
]
