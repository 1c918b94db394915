"""The rules for files, brokers and clusters; `table` reads this, and describes its form (pure)."""

from __future__ import annotations

TABLE = """
syntax error CONFIGURATION
    The program that reads the file reads nothing after this.
    - listeners=\\u12
    + listeners=PLAINTEXT://:9092
duplicate-key warning CONFIGURATION
    Only one of the two values counts, and it may be the wrong one.
    - node.id=1
    - node.id=2
    + node.id=2
byte-order-mark warning CONFIGURATION
    Java then reads a wrong name for the first key of the file.
    - \\ufeffnode.id=1
    + node.id=1

# Listeners
listener-syntax error LISTENER_CONFIGURATION
    An entry is NAME://HOST:PORT. The broker does not start.
    - listeners=PLAINTEXT:/:9092
    + listeners=PLAINTEXT://:9092
advertised-wildcard error WILDCARD_ADVERTISED
    A client cannot connect to a wildcard address. A broker that would advertise 0.0.0.0 does not start.
    - advertised.listeners=PLAINTEXT://0.0.0.0:9092
    + advertised.listeners=PLAINTEXT://kafka.example.com:9092
numeric-host error NAME_NOT_RESOLVED
    A host of digits only is no name: programs take it for an IPv4 address. It is usually a port in the wrong place.
    - advertised.listeners=EXTERNAL://32505:32505
    + advertised.listeners=EXTERNAL://node-1.example.com:32505
advertised-unknown-listener error LISTENER_CONFIGURATION
    A broker advertises only what it listens on. It does not start.
    - listeners=PLAINTEXT://:9092
    - advertised.listeners=EXTERNAL://kafka.example.com:9092
    + listeners=EXTERNAL://:9092
    + advertised.listeners=EXTERNAL://kafka.example.com:9092
listener-not-advertised warning LISTENER_CONFIGURATION
    A client that connects to a listener which is not advertised learns no broker, and waits until its timeout.
    - listeners=INTERNAL://:9092,EXTERNAL://:9094
    - advertised.listeners=INTERNAL://kafka-1:9092
    + listeners=INTERNAL://:9092,EXTERNAL://:9094
    + advertised.listeners=INTERNAL://kafka-1:9092,EXTERNAL://kafka.example.com:9094
canonical-host-name note LISTENER_CONFIGURATION
    The broker advertises the name that the machine has for itself. Clients elsewhere must resolve it.
    - advertised.listeners=PLAINTEXT://:9092
    + advertised.listeners=PLAINTEXT://kafka.example.com:9092
protocol-map-missing error LISTENER_CONFIGURATION
    A listener with a name of its own needs a protocol. The broker does not start.
    - listeners=EXTERNAL://:9092
    + listeners=EXTERNAL://:9092
    + listener.security.protocol.map=EXTERNAL:SASL_SSL
protocol-unknown error LISTENER_CONFIGURATION
    Kafka supports PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL.
    - listener.security.protocol.map=EXTERNAL:TLS
    + listener.security.protocol.map=EXTERNAL:SSL
duplicate-port error LISTENER_CONFIGURATION
    Each listener needs a port of its own, except one for IPv4 and one for IPv6. The broker does not start.
    - listeners=INTERNAL://:9092,EXTERNAL://:9092
    + listeners=INTERNAL://:9092,EXTERNAL://:9093
duplicate-listener-name error LISTENER_CONFIGURATION
    Each listener needs a name of its own. The broker does not start.
    - listeners=PLAINTEXT://:9092,PLAINTEXT://:9093
    + listeners=INTERNAL://:9092,EXTERNAL://:9093
inter-broker-unknown error LISTENER_CONFIGURATION
    Brokers connect to one another through an advertised listener. The broker does not start.
    - inter.broker.listener.name=INTERNL
    + inter.broker.listener.name=INTERNAL
inter-broker-missing error LISTENER_CONFIGURATION
    Without inter.broker.listener.name, brokers use the listener called PLAINTEXT. The broker does not start.
    - listeners=INTERNAL://:9092,EXTERNAL://:9093
    + listeners=INTERNAL://:9092,EXTERNAL://:9093
    + inter.broker.listener.name=INTERNAL
inter-broker-twice error LISTENER_CONFIGURATION
    Kafka allows only one of the two settings. The broker does not start.
    - inter.broker.listener.name=INTERNAL
    - security.inter.broker.protocol=PLAINTEXT
    + inter.broker.listener.name=INTERNAL
listener-prefix error LISTENER_CONFIGURATION
    Kafka reads the settings of a listener with its name in lower case, and those of a mechanism likewise. It ignores
    others.
    - listener.name.CLIENTS.ssl.keystore.location=/k.p12
    + listener.name.clients.ssl.keystore.location=/k.p12
removed-setting warning LISTENER_CONFIGURATION
    Kafka ignores this setting since version 3.0.
    - advertised.host.name=kafka.example.com
    + advertised.listeners=PLAINTEXT://kafka.example.com:9092
same-address-twice error SAME_ADDRESS_TWICE
    A client cannot tell the brokers apart: its requests reach one of them only.
    - advertised.listeners=PLAINTEXT://kafka:9092
    + advertised.listeners=PLAINTEXT://kafka-0.kafka:9092

# KRaft
process-roles error LISTENER_CONFIGURATION
    A node is a broker, a controller, or both.
    - process.roles=Broker
    + process.roles=broker
node-id-missing error LISTENER_CONFIGURATION
    In KRaft, each node needs an id. It does not start.
    - process.roles=broker
    + process.roles=broker
    + node.id=1
node-id-number error LISTENER_CONFIGURATION
    The id of a node is a number. The broker does not start.
    - node.id=kafka-0
    + node.id=0
node-id-differs error LISTENER_CONFIGURATION
    node.id and broker.id are two names for one id. With different values, the broker does not start.
    - node.id=1
    - broker.id=2
    + node.id=1
quorum-missing error LISTENER_CONFIGURATION
    In KRaft, each node must know the controllers. It does not start.
    - process.roles=broker
    + process.roles=broker
    + controller.quorum.bootstrap.servers=controller-1:9093
controller-names-missing error LISTENER_CONFIGURATION
    In KRaft, each node must know which listener is the controllers'. It does not start.
    - process.roles=broker
    + process.roles=broker
    + controller.listener.names=CONTROLLER
controller-listener-missing error LISTENER_CONFIGURATION
    A controller needs a listener that controller.listener.names has. It does not start.
    - listeners=PLAINTEXT://:9092
    + listeners=PLAINTEXT://:9092,CONTROLLER://:9093
controller-advertised error LISTENER_CONFIGURATION
    Only controllers use this listener. A broker before Kafka 3.9 does not start, a newer one ignores it.
    - advertised.listeners=PLAINTEXT://kafka:9092,CONTROLLER://kafka:9093
    + advertised.listeners=PLAINTEXT://kafka:9092
controller-on-broker error LISTENER_CONFIGURATION
    A node that is only a broker has no controller listener. It does not start.
    - process.roles=broker
    - listeners=PLAINTEXT://:9092,CONTROLLER://:9093
    + process.roles=broker
    + listeners=PLAINTEXT://:9092
broker-listener-on-controller error LISTENER_CONFIGURATION
    A node that is only a controller has no other listeners. It does not start.
    - process.roles=controller
    - listeners=CONTROLLER://:9093,PLAINTEXT://:9092
    + process.roles=controller
    + listeners=CONTROLLER://:9093
voter-missing error LISTENER_CONFIGURATION
    Each controller is one of the voters. It does not start.
    - node.id=2
    - controller.quorum.voters=1@kafka-1:9093
    + node.id=2
    + controller.quorum.voters=1@kafka-1:9093,2@kafka-2:9093
voter-broker error LISTENER_CONFIGURATION
    A node that is only a broker must not be a voter. It does not start.
    - node.id=1
    - controller.quorum.voters=1@controller-1:9093
    + node.id=2
    + controller.quorum.voters=1@controller-1:9093
voter-address error NO_CONTROLLER
    Nodes look for the controller at this address and do not find it.
    - controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9093
    + controller.quorum.voters=1@kafka-1:9093,2@kafka-2:9093
quorum-differs error NO_CONTROLLER
    All nodes of a cluster need the same voters.
    - controller.quorum.voters=1@kafka-1:9093
    + controller.quorum.voters=1@kafka-1:9093,2@kafka-2:9093
duplicate-node-id error BROKER_MISSING
    Each node of a cluster needs an id of its own.
    - node.id=1
    + node.id=2
cluster-id-differs error WRONG_CLUSTER
    All nodes of a cluster need the same CLUSTER_ID.
    - CLUSTER_ID: b3RoZXItZXhhbXBsZS0wMQ
    + CLUSTER_ID: bGludC1leGFtcGxlLTAwMQ
zookeeper-on-kraft error CONFIGURATION
    Kafka without ZooKeeper has no use for this setting.
    - process.roles=broker,controller
    - zookeeper.connect=localhost:2181
    + process.roles=broker,controller
zookeeper-loopback error NO_CONTROLLER
    In a container, localhost is the container itself, and ZooKeeper is another one.
    - KAFKA_ZOOKEEPER_CONNECT: localhost:2181
    + KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
replication-factor error GROUP
    Kafka cannot create this internal topic before it has as many brokers: consumer groups or transactions hang.
    - offsets.topic.replication.factor=3
    + offsets.topic.replication.factor=1

# Containers
container-name-advertised warning CONTAINER_NAME_ADVERTISED
    The port is published for clients outside, but the name exists only in the containers' network.
    - KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092
    + KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092,HOST://localhost:19092
pod-name-advertised error NAME_NOT_RESOLVED
    Kubernetes gives a pod of a StatefulSet the name POD.SERVICE, with its headless Service, and resolves none shorter.
    - {name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://$(POD_NAME):9092"}
    + {name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://$(POD_NAME).kafka-headless:9092"}
    = https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#stable-network-id
loopback-advertised error LOOPBACK_ADVERTISED
    In another container, localhost is that container itself.
    - KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
    + KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092,DOCKER://kafka:29092
published-port-differs error PORT_CLOSED
    Clients outside connect to the advertised port, where the container is not published.
    - ports: ["9093:9092"]
    - KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
    + ports: ["9092:9092"]
    + KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
container-port-differs error PORT_CLOSED
    In the containers' network, a broker has the ports of its listeners. The ports of its host exist only outside.
    - ports: ["29092:9092"]
    - KAFKA_LISTENERS: PLAINTEXT://:9092
    - KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:29092
    + KAFKA_LISTENERS: PLAINTEXT://:9092
    + KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092
published-port-random error PORT_CLOSED
    Docker chooses another port of the host at each start, and the broker advertises always the same one.
    - ports: ["9092"]
    + ports: ["9092:9092"]
port-not-published warning PORT_CLOSED
    The address belongs to the host, but no port of the container is published there.
    - KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
    + KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
    + ports: ["9092:9092"]
bound-to-loopback error PORT_CLOSED
    On localhost, a container accepts no connection from outside of it.
    - KAFKA_LISTENERS: PLAINTEXT://localhost:9092
    + KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092
foreign-bind-address error CONFIGURATION
    A listener's host in `listeners` is an address of the container itself. At any other, the broker does not start.
    - KAFKA_LISTENERS: PLAINTEXT://192.168.1.20:9092
    + KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092
variable-spelling error CONFIGURATION
    The image does not turn this variable into the property.
    - KAFKA_ADVERTISED_LISTENER: PLAINTEXT://localhost:9092
    + KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
variable-quotes error CONFIGURATION
    In a list of variables, Docker Compose takes quotes after the equals sign for a part of the value.
    - ["KAFKA_PROCESS_ROLES=\"broker,controller\""]
    + [KAFKA_PROCESS_ROLES=broker,controller]
variable-missing error CONFIGURATION
    The container ends at once without it.
    - KAFKA_PROCESS_ROLES: broker,controller
    + KAFKA_PROCESS_ROLES: broker,controller
    + CLUSTER_ID: bGludC1leGFtcGxlLTAwMQ
variable-refused error CONFIGURATION
    The container ends at once with it.
    - KAFKA_ADVERTISED_HOST: kafka
    + KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092
service-links error CONFIGURATION
    Kubernetes gives each pod the variable KAFKA_PORT for a Service called kafka. Confluent's image ends at once with
    it, and with wurstmeister's the broker does not start.
    - metadata: {name: kafka}
    + enableServiceLinks: false
variable-order error NAME_NOT_RESOLVED
    Kubernetes replaces $(NAME) in a variable only if NAME stands before it in the list. Else the text stays as it is.
    - [{name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://$(POD_NAME).kafka:9092"}, {name: POD_NAME, ...}]
    + [{name: POD_NAME, ...}, {name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://$(POD_NAME).kafka:9092"}]
    = https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
kubernetes-dollar error NAME_NOT_RESOLVED
    Kubernetes replaces $(NAME) in a variable, and the image takes ${NAME} for the text itself.
    - {name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://${POD_IP}:9092"}
    + {name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://$(POD_IP):9092"}
    = https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
image-defaults-lost error CONFIGURATION
    As soon as one KAFKA_ variable is set, this image has no default for any other.
    - KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
    + KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
    + KAFKA_PROCESS_ROLES: broker,controller
plaintext-not-allowed error CONFIGURATION
    Bitnami's images before Kafka 3.5 refuse to start with a plaintext listener otherwise.
    - ALLOW_PLAINTEXT_LISTENER: no
    + ALLOW_PLAINTEXT_LISTENER: yes

# Security
sasl-mechanism-missing error SASL_MECHANISM
    Without sasl.enabled.mechanisms, a listener with SASL has only GSSAPI, which needs Kerberos.
    - listeners=SASL_SSL://:9092
    + listeners=SASL_SSL://:9092
    + sasl.enabled.mechanisms=SCRAM-SHA-512
sasl-jaas-missing error LOGIN_NEEDED
    A listener with SASL needs a JAAS entry. The broker does not start.
    - KAFKA_SASL_ENABLED_MECHANISMS: PLAIN
    + KAFKA_SASL_ENABLED_MECHANISMS: PLAIN
    + KAFKA_LISTENER_NAME_SASL_SSL_PLAIN_SASL_JAAS_CONFIG: ...PlainLoginModule required ...;
jaas-prefix-missing error LOGIN_NEEDED
    A broker ignores sasl.jaas.config without the names of a listener and a mechanism before it.
    - sasl.jaas.config=...ScramLoginModule required;
    + listener.name.external.scram-sha-512.sasl.jaas.config=...ScramLoginModule required;
inter-broker-mechanism error SASL_MECHANISM
    Brokers must log in with a mechanism that their own listener has. The broker does not start.
    - sasl.enabled.mechanisms=SCRAM-SHA-512
    + sasl.enabled.mechanisms=SCRAM-SHA-512
    + sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
ssl-keystore-missing error TLS_FAILED
    A listener with TLS needs a certificate. The broker does not start.
    - listeners=SSL://:9093
    + listeners=SSL://:9093
    + ssl.keystore.location=/etc/kafka/keystore.p12
"""
