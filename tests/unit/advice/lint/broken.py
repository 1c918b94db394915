"""Set-ups with one mistake each: what is replaced in a healthy one, and what must be found then."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
PLAIN_APP, ONE_NODE_APP, CLUSTER_APP = PLAIN + APP, ONE_NODE + APP, CLUSTER + APP
LOCAL_VOTER = CLUSTER.replace("2@kafka-2:9093", "2@localhost:9093")
UNKNOWN_VOTER = CLUSTER.replace("2@kafka-2:9093", "2@kafka-two:9093")
BARE = """
services:
  kafka:
    image: apache/kafka
    environment:
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092
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


# A case: what file, the healthy set-up, the rule ("kept": --fix does not mend it; host; other rules): the name.
# Then what is replaced (~), what is left out (-), the line of the finding (@), and the corrected line (>).
_TABLE = r"""
server KAFKA_4 advertised-wildcard host=kafka.example: wildcard advertised
~PLAINTEXT://localhost:9092,CONTROLLER://l => PLAINTEXT://0.0.0.0:9092,CONTROLLER://l
@advertised.listeners
>advertised.listeners=PLAINTEXT://kafka.example:9092,CONTROLLER://localhost:9093
server KAFKA_4 advertised-wildcard kept: wildcard advertised, no host known
~PLAINTEXT://localhost:9092,CONTROLLER://l => PLAINTEXT://[::]:9092,CONTROLLER://l
@advertised.listeners
>advertised.listeners=PLAINTEXT://<host that clients reach>:9092,CONTROLLER://localhost:9093
server BROKER advertised-wildcard host=k.example: wildcard not advertised otherwise
~listeners=PLAINTEXT://localhost:9092 => listeners=PLAINTEXT://0.0.0.0:9092
-advertised.listeners=PLAINTEXT://localhost:9092\n
@listeners=
>advertised.listeners=PLAINTEXT://k.example:9092
server KAFKA_4 advertised-unknown-listener also=inter-broker-unknown: an unknown name is advertised
~advertised.listeners=PLAINTEXT => advertised.listeners=PLAINTXT
@advertised.listeners
>advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
server BROKER listener-not-advertised host=k.example: a listener for clients is not advertised
~listeners=PLAINTEXT://localhost:9092 => listeners=PLAINTEXT://localhost:9092,EXTERNAL://:9093
~PLAINTEXT:PLAINTEXT => PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT
@advertised.listeners
>advertised.listeners=PLAINTEXT://localhost:9092,EXTERNAL://k.example:9093
compose THREE listener-not-advertised: a published listener is not advertised
-,HOST://localhost:9092
@KAFKA_ADVERTISED_LISTENERS
>KAFKA_ADVERTISED_LISTENERS: DOCKER://kafka:29092,LAN://192.168.1.20:29094,HOST://localhost:9092
server KAFKA_4 protocol-map-missing: no protocol for a name of one's own
~PLAINTEXT://:9092 => EXTERNAL://:9092
~PLAINTEXT://localhost => EXTERNAL://localhost
~inter.broker.listener.name=PLAINTEXT => inter.broker.listener.name=EXTERNAL
@listener.security.protocol.map
>listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,
+SASL_SSL:SASL_SSL,EXTERNAL:PLAINTEXT
server BROKER protocol-map-missing: no protocol for the controllers
-CONTROLLER:PLAINTEXT,
@listener.security.protocol.map
>listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT
server BROKER protocol-unknown: an unknown protocol
~PLAINTEXT:PLAINTEXT => PLAINTEXT:PLAIN
@listener.security.protocol.map
>listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
server KAFKA_4 inter-broker-unknown: an unknown inter-broker listener
~name=PLAINTEXT\n => name=INTERNAL\n
@inter.broker
>inter.broker.listener.name=PLAINTEXT
server SCRAM inter-broker-missing: no inter-broker listener
-inter.broker.listener.name=INTERNAL\n
@advertised.listeners
>inter.broker.listener.name=INTERNAL
server KAFKA_4 inter-broker-twice: two settings for the inter-broker listener
~log.dirs => security.inter.broker.protocol=PLAINTEXT\nlog.dirs
@security.inter
>(without this line)
server KAFKA_4 duplicate-port: two listeners with one port
~CONTROLLER://:9093 => CONTROLLER://:9092
~CONTROLLER://localhost:9093 => CONTROLLER://localhost:9092
@listeners=
>listeners=PLAINTEXT://:9092,CONTROLLER://:9093
server SCRAM duplicate-listener-name: two listeners with one name
~EXTERNAL://[::]:9092,EXTERNAL://0.0.0.0:9092 => EXTERNAL://:9092,EXTERNAL://:9095
@listeners=
>listeners=INTERNAL://10.0.0.11:9094,EXTERNAL://:9092
server KAFKA_4 listener-syntax also=advertised-unknown-listener: no slashes
~listeners=PLAINTEXT://:9092 => listeners=PLAINTEXT:/:9092
@listeners=
>listeners=PLAINTEXT://:9092,CONTROLLER://:9093
server ZOOKEEPER removed-setting: settings that Kafka 3 removed
~zookeeper.connect => advertised.host.name=kafka0.example\nzookeeper.connect
@advertised.host.name
>advertised.listeners=PLAINTEXT://kafka0.example:9092,SSL://kafka0.example:9093
server KAFKA_4 controller-listener-missing: a controller without its listener
~PLAINTEXT://:9092,CONTROLLER://:9093 => PLAINTEXT://:9092
@listeners=
>listeners=PLAINTEXT://:9092,CONTROLLER://:9093
server KAFKA_4 controller-names-missing: no controller.listener.names
-controller.listener.names=CONTROLLER\n
@process.roles
>controller.listener.names=CONTROLLER
server BROKER controller-advertised: a broker advertises the controllers' listener
~advertised.listeners=PLAINTEXT://localhost:9092 => advertised.listeners=PLAINTEXT://localhost:9092,
+CONTROLLER://localhost:9093
@advertised.listeners
>advertised.listeners=PLAINTEXT://localhost:9092
server BROKER controller-on-broker: a broker listens for controllers
~listeners=PLAINTEXT://localhost:9092 => listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
@listeners=
>listeners=PLAINTEXT://localhost:9092
server CONTROLLER broker-listener-on-controller: a controller listens for clients
~listeners=CONTROLLER://:9093 => listeners=CONTROLLER://:9093,PLAINTEXT://:9092
@listeners=
>listeners=CONTROLLER://:9093
server KAFKA_4 voter-missing: a controller that is no voter
~controller.quorum.bootstrap.servers=localhost:9093 => controller.quorum.voters=2@localhost:9093
@controller.quorum
>controller.quorum.voters=1@localhost:9093
server BROKER voter-broker kept: a broker that is a voter
~controller.quorum.bootstrap.servers=localhost:9093 => controller.quorum.voters=2@localhost:9093
@node.id
>node.id=3
server KAFKA_4 voter-address: a voter at another port
~controller.quorum.bootstrap.servers=localhost:9093 => controller.quorum.voters=1@localhost:9999
@controller.quorum
>controller.quorum.voters=1@localhost:9093
server KAFKA_4 node-id-missing kept: no node.id
-node.id=1\n
@process.roles
>node.id=1
server KAFKA_4 quorum-missing: no voters
-controller.quorum.bootstrap.servers=localhost:9093\n
@process.roles
>controller.quorum.voters=1@localhost:9093
server KAFKA_4 zookeeper-on-kraft: ZooKeeper beside KRaft
~log.dirs => zookeeper.connect=localhost:2181\nlog.dirs
@zookeeper.connect
>(without this line)
server KAFKA_4 process-roles: an unknown role
~process.roles=broker,controller => process.roles=Broker,controller
@process.roles
>process.roles=broker,controller
server SCRAM sasl-mechanism-missing: SASL without mechanisms
-sasl.enabled.mechanisms=SCRAM-SHA-512\n
@listeners=
>sasl.enabled.mechanisms=SCRAM-SHA-512
server SCRAM inter-broker-mechanism: brokers log in with GSSAPI
~INTERNAL:SSL => INTERNAL:SASL_SSL
@sasl.enabled
>sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
server ZOOKEEPER ssl-keystore-missing kept: TLS without a key store
-ssl.keystore.location=/var/private/ssl/server.keystore.jks\n
@listeners
>ssl.keystore.location=<path of the key store>
server KAFKA_4 duplicate-key: a key twice
~log.dirs => node.id=1\nlog.dirs
@2=node.id
>(without this line)
compose CP loopback-advertised: localhost, but a listener for containers is there
~'broker:29092' => 'broker:9092'
@KAFKA_ADVERTISED
>SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS: 'broker:29092'
compose CLUSTER loopback-advertised: localhost between brokers
~PLAINTEXT://kafka-2:19092 => PLAINTEXT://localhost:19092
@PLAINTEXT://localhost:19092
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka-2:19092,PLAINTEXT_HOST://localhost:29092
compose PLAIN container-name-advertised: a container's name though the port is published
~//localhost => //kafka
@KAFKA_ADVERTISED
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
compose CLUSTER published-port-differs: another port is published
~- 29092:9092 => - 29093:9092
@localhost:29092
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka-2:19092,PLAINTEXT_HOST://localhost:29093
compose ONE_NODE published-port-differs: the published port leads elsewhere
~- '9092:9092' => - '9092:9999'
@9092:9999
>- '9092:9092'
compose ONE_NODE published-port-differs also=container-name-advertised: the published port leads to the contai
+ners' listener
~- '9092:9092' => - '9092:19092'
@9092:19092
>- '9092:9092'
compose PLAIN_APP container-port-differs: containers are told the port of the host
~- "9092:9092" => - "29092:9092"
~localhost:9092 => kafka:29092
@ADVERTISED
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092
compose PLAIN container-port-differs: a port where nothing listens
~localhost:9092 => kafka:29092
@ADVERTISED
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092
compose PLAIN published-port-differs: the host is a variable, and the port is wrong in any case
~localhost:9092 => ${HOST_IP}:9093
@ADVERTISED
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://${HOST_IP}:9092
compose ONE_NODE port-not-published: no port is published
~- '9092:9092' => - '8080:8080'
@KAFKA_ADVERTISED
>- '9092:9092'
compose PLAIN bound-to-loopback: a listener on the container's localhost
~PLAINTEXT://:9092 => PLAINTEXT://127.0.0.1:9092
@KAFKA_LISTENERS
>KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093
compose PLAIN advertised-wildcard: the wildcard is advertised
~//localhost => //0.0.0.0
@KAFKA_ADVERTISED
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
compose PLAIN advertised-wildcard: Kafka 3.9.0 and the wildcard of a controller
~kafka:4.0.0 => kafka:3.9.0
~CONTROLLER://:9093 => CONTROLLER://0.0.0.0:9093
@KAFKA_LISTENERS
>KAFKA_LISTENERS: PLAINTEXT://:9092,CONTROLLER://:9093
compose ONE_NODE variable-spelling: a misspelt variable
~KAFKA_ADVERTISED_LISTENERS => KAFKA_ADVERTISED_LISTENER
@KAFKA_ADVERTISED_LISTENER:
>KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092'
compose ONE_NODE variable-spelling also=controller-listener-missing: Bitnami's prefix for Apache's image
~KAFKA_LISTENERS => KAFKA_CFG_LISTENERS
@KAFKA_CFG_LISTENERS
>KAFKA_LISTENERS: 'CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092'
compose BITNAMI variable-spelling also=controller-names-missing: no prefix CFG for Bitnami's image
~KAFKA_CFG_CONTROLLER_LISTENER_NAMES => KAFKA_CONTROLLER_LISTENER_NAMES
@KAFKA_CONTROLLER_LISTENER
>- KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER
compose ONE_NODE variable-spelling: two underscores
~KAFKA_INTER_BROKER_LISTENER_NAME => KAFKA_INTER_BROKER__LISTENER_NAME
@KAFKA_INTER_BROKER__
>KAFKA_INTER_BROKER_LISTENER_NAME: 'PLAINTEXT'
compose ONE_NODE variable-spelling also=node-id-missing: lower case
~KAFKA_NODE_ID => kafka_node_id
@kafka_node_id
>KAFKA_NODE_ID: 1
compose CP variable-missing: Confluent's image without CLUSTER_ID
-      CLUSTER_ID: 'bGludC1leGFtcGxlLTAwMQ'\n
@  broker:
>CLUSTER_ID: 'MkU3OEVBNTcwNTJENDM2Qk'
compose CP_OLD variable-missing: Confluent's image without advertised listeners
-      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker:9093,PLAINTEXT_HOST://localhost:9092\n
@  broker:
>KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT://localhost:9092'
compose CP_ISOLATED variable-refused: Confluent's controller advertises
~      KAFKA_LISTENERS: 'C =>       KAFKA_ADVERTISED_LISTENERS: 'CONTROLLER://controller-1:9093'\n      KAFKA_
+LISTENERS: 'C
@KAFKA_ADVERTISED_LISTENERS: 'C
>(without this line)
compose CP_OLD variable-refused also=canonical-host-name,variable-missing: Confluent's image refuses the old settings
~KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker:9093,PLAINTEXT_HOST://localhost:9092 => KAFKA_ADVERTISED_HOST: broker
@KAFKA_ADVERTISED_HOST
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker:9092
compose BITNAMI_OLD plaintext-not-allowed: Bitnami's old image needs leave for plaintext
~ALLOW_PLAINTEXT_LISTENER=yes => ALLOW_PLAINTEXT_LISTENER=no
@ALLOW_PLAINTEXT
>- ALLOW_PLAINTEXT_LISTENER=yes
compose CP_OLD zookeeper-on-kraft kept also=variable-missing: ZooKeeper for an image without it
~cp-kafka:6.2.0 => cp-kafka:8.0.0
@KAFKA_ZOOKEEPER_CONNECT
>KAFKA_PROCESS_ROLES: broker,controller
compose CP_OLD zookeeper-loopback: a broker that looks for ZooKeeper in its own container
~'zookeeper:2181' => 'localhost:2181'
@KAFKA_ZOOKEEPER_CONNECT
>KAFKA_ZOOKEEPER_CONNECT: 'zookeeper:2181'
compose ONE_NODE replication-factor: three replicas of one broker
~KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1 => KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 3
@KAFKA_OFFSETS
>KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
compose ONE_NODE replication-factor: three replicas by default
-      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1\n
@KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR
>KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
compose CLUSTER duplicate-node-id also=voter-address: two containers with one id
~KAFKA_NODE_ID: 3 => KAFKA_NODE_ID: 2
@3=KAFKA_NODE_ID
>KAFKA_NODE_ID: 3
compose CLUSTER quorum-differs: a node with other voters
~3@kafka-3:9093'\n      KAFKA_LISTENERS => 3@kafka-3:9094'\n      KAFKA_LISTENERS
@3@kafka-3:9094
>KAFKA_CONTROLLER_QUORUM_VOTERS: '1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093'
compose CLUSTER cluster-id-differs: another CLUSTER_ID
~bGludC1leGFtcGxlLTAwMQ => b3RoZXItZXhhbXBsZS0wMQ
@b3RoZXItZX
>CLUSTER_ID: 'bGludC1leGFtcGxlLTAwMQ'
compose ONE_NODE duplicate-key kept: a key twice in YAML
~      KAFKA_NODE_ID: 1\n =>       KAFKA_NODE_ID: 1\n      KAFKA_NODE_ID: 1\n
@2=KAFKA_NODE_ID
compose TLS ssl-keystore-missing kept: TLS without a key store, in a container
~KAFKA_SSL_KEYSTORE_FILENAME: k => X: k
@KAFKA_LISTENERS
>KAFKA_SSL_KEYSTORE_LOCATION: <path of the key store>
compose TLS sasl-jaas-missing kept also=sasl-mechanism-missing: SASL without JAAS, in a container
~SSL:SSL => SSL:SASL_SSL
@KAFKA_LISTENERS
>KAFKA_LISTENER_NAME_SSL_SCRAM___SHA___512_SASL_JAAS_CONFIG: <login module> required …;
compose THREE bootstrap-network kept: a container in another network
~networks: [inner] => networks: [outer]
@BOOTSTRAP_SERVERS
>networks: [inner]
kubernetes STRIMZI_1 operator-listener-name: Strimzi: a name with capitals
~name: plain => name: Plain_1
@Plain_1
>- name: plain1
kubernetes STRIMZI_1 operator-listener-port: Strimzi: a low port
~port: 9092 => port: 9091
@9091
>port: 9092
kubernetes STRIMZI_1 operator-listener-type: Strimzi: an unknown type
~type: internal => type: LoadBalancer
@LoadBalancer
>type: loadbalancer
kubernetes STRIMZI operator-listener-tls: Strimzi: a route without TLS
~type: route, tls: true => type: route, tls: false
@route, port
>- {name: route, port: 9097, type: route, tls: true}
kubernetes STRIMZI duplicate-port: Strimzi: two listeners with one port
~port: 9095 => port: 9092
@lb, port
>- {name: lb, port: 9095, type: loadbalancer, tls: true}
kubernetes STRIMZI operator-host-missing kept: Strimzi: a broker without a host
-            - {broker: 2, host: broker-2.example.com}\n
@name: ingress
>- {broker: 2, host: <name>}
kubernetes STRIMZI operator-advertised kept: Strimzi: localhost advertised
~kafka-0.example.com => localhost
@localhost
>advertisedHost: <name that clients reach>
kubernetes STRIMZI_1 operator-setting-ignored: Strimzi: its own settings
~    config:\n =>     config:\n      advertised.listeners: PLAINTEXT://x:9092\n
@advertised.listeners
>(without this line)
kubernetes STRIMZI replication-factor: Strimzi: too many replicas
~replicas: 3 => replicas: 1
@offsets
>offsets.topic.replication.factor: 1
kubernetes CFK operator-host-missing kept: CFK: no domain
~          domain: my.domain.example\n =>           x: y\n
@type: loadBalancer
>loadBalancer: {domain: <name>}
kubernetes CFK operator-listener-port: CFK: a low port
~port: 9094 => port: 9092
@9092
>port: 9094
kubernetes CFK operator-listener-type: CFK: an unknown type
~type: nodePort => type: NodePort
@NodePort
>type: nodePort
compose PLAIN_APP loopback-advertised: localhost for another container
@KAFKA_ADVERTISED
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092,DOCKER://kafka:29092
compose PLAIN_APP container-name-advertised: a container's name that others use too
~//localhost => //kafka
@KAFKA_ADVERTISED
>KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092,HOST://localhost:9092
compose BARE image-defaults-lost also=replication-factor: one variable takes all defaults away
@KAFKA_ADV
>KAFKA_PROCESS_ROLES: broker,controller
compose LOCAL_VOTER voter-address: a voter that is no name of the node
@2@localhost
>KAFKA_CONTROLLER_QUORUM_VOTERS: '1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093'
compose UNKNOWN_VOTER voter-address: a voter of which no container has the name
@2@kafka-two
>KAFKA_CONTROLLER_QUORUM_VOTERS: '1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093'
compose ONE_NODE_APP bootstrap-loopback: a container looks at its own localhost
~BOOTSTRAP_SERVERS: kafka:9092 => BOOTSTRAP_SERVERS: localhost:9092
@BOOTSTRAP_SERVERS
>BOOTSTRAP_SERVERS: broker:19092
compose CLUSTER_APP bootstrap-port: a container uses the published port
~kafka:9092 => kafka-1:29092
@BOOTSTRAP_SERVERS
>BOOTSTRAP_SERVERS: kafka-1:19092
compose PLAIN_APP bootstrap-controller: a container uses the controllers' port
~BOOTSTRAP_SERVERS: kafka:9092 => BOOTSTRAP_SERVERS: kafka:9093
~//localhost => //kafka
-    ports:\n      - "9092:9092"\n
@BOOTSTRAP_SERVERS
>BOOTSTRAP_SERVERS: kafka:9092
"""
_FILES = {"server": "server.properties", "compose": "compose.yml", "kubernetes": "kafka.yaml"}


def _read_table() -> Iterator[Case]:
    for block in re.split(r"\n(?=\w+ [A-Z])", _TABLE.strip().replace("\n+", "")):
        head, *lines = block.split("\n")
        words, _, name = head.partition(": ")
        kind, text, rule, *flags = words.split()
        of = {sign: [line[1:].replace(r"\n", "\n") for line in lines if line[0] == sign] for sign in "~-@>"}
        pairs = [part for line in of["~"] for part in line.split(" => ")] + [
            part for line in of["-"] for part in (line, "")
        ]
        options = dict(flag.split("=") for flag in flags if flag != "kept")
        yield Case(
            name,
            {_FILES[kind]: changed(globals()[text], *pairs)},
            rule,
            of["@"][0],
            "".join(of[">"]),
            gone="kept" not in flags,
            host=options.get("host", ""),
            also=frozenset(options["also"].split(",")) if "also" in options else frozenset(),
        )


CASES = [
    *_read_table(),
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
        "an unknown mechanism of a client",
        {"client.properties": "bootstrap.servers=k:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA512\n"},
        "client-mechanism-unknown",
        "sasl.mechanism",
        "sasl.mechanism=SCRAM-SHA-512",
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
]
