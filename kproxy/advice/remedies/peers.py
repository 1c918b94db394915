"""Faults of the server that answers at an address, and of the cluster's state."""

from __future__ import annotations

from kproxy.advice.remedies.network import DISCONNECTED_PYTHON, SARAMA_EOF
from kproxy.advice.remedies.remedy import Remedy, program_messages
from kproxy.base.faults import Fault

# Tried with producers and Kafka 4.3's brokers.
_UNNOTICED = (
    "Most clients raise no error: they write to whichever cluster answers. In tests, the clients of Java (4.3), librdkafka "
    "(2.16), kafka-python (3.0), aiokafka (0.14) and kafkajs (2.2) did. Java's client logs one warning of "
    "`UNKNOWN_TOPIC_ID` and continues; librdkafka's sometimes logs one of `CLUSTERID`. Only where client and broker both "
    "compare cluster ids, the client stops with `REBOOTSTRAP_REQUIRED`."
)

TABLE: tuple[Remedy, ...] = (
    Remedy(
        Fault.NOT_KAFKA,
        "The server at the address is not a Kafka broker",
        "Another program listens at this address: a web server, an HTTP proxy, an SSH server, or another service. The "
        "client takes the first bytes of its answer for the size of a Kafka message.",
        "`curl -v http://HOST:PORT` or `nc HOST PORT` shows what answers. 1213486160 as a size is the word `HTTP`.",
        "Correct the port. Check what the port-forward, load balancer or Ingress leads to: Kafka needs a TCP route, "
        "not an HTTP route.",
        program_messages(
            java=(
                "InvalidReceiveException: Invalid receive (size = 1213486160 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 1347703880 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 1397966893 larger than …)",
                "java.lang.OutOfMemoryError: Java heap space … at org.apache.kafka.common.network.NetworkReceive.readFrom",
                "The AdminClient thread has exited.",
            ),
            librdkafka=(
                "Receive failed: Invalid response size 1213486160 (0..…): increase receive.message.max.bytes",
                "Receive failed: Invalid response size 1397966893 (0..…): increase receive.message.max.bytes",
            ),
            kafka_python=(
                *DISCONNECTED_PYTHON,
                "InvalidReceiveError: Invalid frame length: 1213486160",
                "Received unrecognized correlation id",
                "Received response with no in-flight-requests!",
            ),
            aiokafka=(
                "Connection at … closed",
                "CorrelationIdError: Correlation ids do not match: sent …, recv …",
            ),
            kafkajs=("KafkaJSConnectionClosedError: Closed connection", "Connection closed by the server"),
            franz_go=(
                "the four size bytes are 'HTTP' in ascii, the beginning of an HTTP response; is your broker port correct?",
            ),
            sarama=(
                "Failed to read ApiVersionsResponse V… payload from …: unexpected EOF",
                *SARAMA_EOF,
                "kafka: error decoding packet: message of length 1213486160 too large or too small",
                "kafka: error decoding packet: message of length 1397966893 too large or too small",
            ),
            broker=(
                "Unexpected error from …; closing connection",
                "InvalidReceiveException: Invalid receive (size = 1195725856 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 1347375956 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 1212501072 larger than …)",
                "InvalidReceiveException: Invalid receive (size = 1347571544 larger than …)",
                "InvalidRequestException: Unknown API key …",
            ),
        ),
    ),
    Remedy(
        Fault.WRONG_NODE,
        "Another broker of the cluster answers",
        "The address leads to another broker than the one that advertises it: port-forwards are mixed up, or the "
        "address is a load balancer in front of several brokers.",
        "`kproxy doctor` compares the broker that answers with the one that advertises the address.",
        "Give each broker an address of its own, and correct the port-forward or the `--map`.",
        program_messages(
            java=(
                "For requests intended only for the leader, this error indicates that the broker is not the current",
                "org.apache.kafka.common.errors.NotLeaderOrFollowerException: …",
                "NOT_LEADER_OR_FOLLOWER",
                "org.apache.kafka.common.errors.NotControllerException: …",
                "This is not the correct controller for this cluster.",
            ),
            librdkafka=("Broker: Not leader for partition", "Broker: Not controller for cluster"),
            kafka_python=("NotLeaderForPartitionError", "NotControllerError"),
            kafkajs=("This server is not the leader for that topic-partition",),
            franz_go=("NOT_LEADER_FOR_PARTITION: …", "NOT_CONTROLLER: …"),
            sarama=(
                "kafka server: Tried to send a message to a replica that is not the leader for some partition",
                "kafka server: This is not the correct controller for this cluster",
            ),
        ),
    ),
    Remedy(
        Fault.WRONG_CLUSTER,
        "Another Kafka cluster answers",
        "The address leads to a broker of another cluster, perhaps one on the client's own machine, or the cluster has "
        "been created again.",
        "`kcat -b HOST:PORT -L` shows other brokers or topics than expected. `kafka-cluster cluster-id` shows the id.",
        "Correct the bootstrap servers, the port-forward or the name in DNS. After a cluster has been created again, "
        "restart the clients. A broker that finds the id of another cluster in its directories has that cluster's data: "
        "correct its `log.dirs` or its controllers, and delete nothing that you may still need.",
        program_messages(
            java=("REBOOTSTRAP_REQUIRED",),
            librdkafka=(
                'reports different ClusterId "…" than previously known "…": a client must not be simultaneously '
                "connected to multiple clusters",
                "Broker: Client metadata is stale, client should rebootstrap to obtain new metadata",
            ),
            kafka_python=("RebootstrapRequiredError",),
            franz_go=("broker rejected our connection with REBOOTSTRAP_REQUIRED",),
            broker=(
                "InconsistentClusterIdException: The Cluster ID … doesn't match stored clusterId",
                "Unexpected error INCONSISTENT_CLUSTER_ID in …",
            ),
        ),
        _UNNOTICED,
    ),
    Remedy(
        Fault.MIXED_CLUSTERS,
        "One address leads to several Kafka clusters",
        "The address is a load balancer, a name in DNS or a port-forward that leads some connections to one cluster and "
        "some to another.",
        "`kcat -b HOST:PORT -L` several times: it shows other brokers or topics. `kafka-cluster cluster-id` shows the id.",
        "Let the address lead to one cluster, and give the other one an address of its own. Stop the producers until "
        "then: records are in both clusters. With `--cluster-id ID`, kproxy sends no request to the other one, and "
        "closes each connection that leads there.",
        (),
        _UNNOTICED,
    ),
    Remedy(
        Fault.MIXED_BOOTSTRAP,
        "The bootstrap servers belong to different clusters",
        "The list of bootstrap servers names brokers of several clusters. A client then works with the cluster whose "
        "server happens to answer first.",
        "`kcat -b HOST:PORT -L` shows other brokers for one bootstrap server than for another.",
        "List the servers of one cluster only.",
        (),
    ),
    Remedy(
        Fault.MIXING_LOAD_BALANCER,
        "One address leads to several brokers",
        "The address is a load balancer that leads each connection to another broker. That is fine for a bootstrap "
        "server, but not for an advertised address: a client must reach the leader of each partition.",
        "Connect to the address several times: different brokers answer.",
        "Give each broker an advertised address of its own behind the load balancer: a port or a name for each broker.",
        program_messages(
            java=("org.apache.kafka.common.errors.NotLeaderOrFollowerException: …",),
            librdkafka=("Broker: Not leader for partition",),
            kafka_python=("NotLeaderForPartitionError",),
        ),
    ),
    Remedy(
        Fault.BROKER_MISSING,
        "A broker is not in the cluster's metadata",
        "A broker is down, or has not registered itself with the controllers, so too few brokers are left.",
        "`kafka-broker-api-versions --bootstrap-server HOST:PORT` lists the brokers that are up.",
        "Start the broker, and look into its log. For a new topic, use a replication factor that is not larger than "
        "the number of brokers.",
        program_messages(
            java=(
                "InvalidReplicationFactorException: Unable to replicate the partition … time(s): …",
                "InvalidReplicationFactorException: Replication factor: … larger than available brokers: …",
                "InvalidReplicationFactorException: …",
                "NotEnoughReplicasException: …",
                "NotEnoughReplicasAfterAppendException: …",
            ),
            librdkafka=(
                "Broker: Invalid replication factor",
                "Broker: Not enough in-sync replicas",
                "Broker: Message(s) written to insufficient number of in-sync replicas",
                "Broker: Broker not available",
            ),
            kafka_python=(
                "InvalidReplicationFactorError",
                "NotEnoughReplicasError",
                "NotEnoughReplicasAfterAppendError",
                "BrokerNotAvailableError",
            ),
            kafkajs=(
                "Replication-factor is invalid",
                "Messages are rejected since there are fewer in-sync replicas than required",
            ),
            franz_go=("INVALID_REPLICATION_FACTOR: …", "NOT_ENOUGH_REPLICAS: …"),
            sarama=(
                "kafka server: Replication factor is invalid",
                "kafka server: Messages are rejected since there are fewer in-sync replicas than required",
            ),
            broker=("The size of the current ISR … is insufficient to satisfy the min.isr requirement of …",),
        ),
    ),
    Remedy(
        Fault.NO_LEADER,
        "A partition has no leader",
        "All replicas that could lead the partition are down, or the topic has only just been created.",
        "`kafka-topics --describe --topic TOPIC --bootstrap-server HOST:PORT` shows `Leader: none` or -1.",
        "Start the brokers that have the replicas. For a topic that is being created, the next attempt works.",
        program_messages(
            java=(
                "Error while fetching metadata with correlation id … : {…=LEADER_NOT_AVAILABLE}",
                "LeaderNotAvailableException: …",
                "There is no leader for this topic-partition as we are in the middle of a leadership election.",
            ),
            librdkafka=("Broker: Leader not available",),
            kafka_python=("LeaderNotAvailableError", "is not available during auto-create initialization"),
            kafkajs=("There is no leader for this topic-partition as we are in the middle of a leadership election",),
            franz_go=("LEADER_NOT_AVAILABLE: …",),
            sarama=(
                "kafka server: In the middle of a leadership election, there is currently no leader for this partition",
                "client/metadata found some partitions to be leaderless",
            ),
        ),
    ),
    Remedy(
        Fault.NO_CONTROLLER,
        "The cluster has no controller",
        "No controller is elected, or the brokers cannot reach it. Topics cannot be created, and brokers cannot "
        "register.",
        "`kafka-metadata-quorum --bootstrap-server HOST:PORT describe --status` shows the leader of the controllers.",
        "Start the majority of the controllers. Check `controller.quorum.voters` or "
        "`controller.quorum.bootstrap.servers`, and that the brokers reach the controllers' listener.",
        program_messages(
            java=("Timed out waiting to send the call. Call: createTopics",),
            kafkajs=("KafkaJSBrokerNotFound: Controller broker with id … not found in the cached metadata",),
            sarama=("kafka: controller is not available",),
            broker=(
                "Received a fatal error while waiting for the controller to acknowledge that we are caught up",
                "Unable to register with the controller quorum",
                "Unable to register the broker because the RPC got timed out before it could be sent.",
            ),
        ),
    ),
    Remedy(
        Fault.NO_COORDINATOR,
        "The group or transaction has no coordinator",
        "The broker that coordinates the group or transaction is down, or `__consumer_offsets` or "
        "`__transaction_state` cannot be created: too few brokers for its replication factor.",
        "`kafka-topics --describe --topic __consumer_offsets --bootstrap-server HOST:PORT` shows whether it exists and "
        "has leaders.",
        "Start the brokers that are down. With fewer than three brokers, set `offsets.topic.replication.factor` and "
        "`transaction.state.log.replication.factor` to the number of brokers. After a start, wait some seconds.",
        program_messages(
            java=(
                "Group coordinator … is unavailable or invalid due to cause",
                "org.apache.kafka.common.errors.CoordinatorNotAvailableException: …",
                "The coordinator is not available.",
            ),
            librdkafka=(
                "Broker: Coordinator not available",
                "Broker: Not coordinator",
                "Broker: Coordinator load in progress",
            ),
            kafka_python=(
                "GroupCoordinatorNotAvailableError",
                "CoordinatorNotAvailableError",
                "NotCoordinatorForGroupError",
                "CoordinatorLoadInProgressError",
            ),
            aiokafka=("Marking the coordinator dead (node …)for group …",),
            kafkajs=("The group coordinator is not available", "KafkaJSGroupCoordinatorNotFound"),
            franz_go=("COORDINATOR_NOT_AVAILABLE: …", "NOT_COORDINATOR: …"),
            sarama=(
                "kafka server: Offset's topic has not yet been created",
                "client/coordinator coordinator for … is not available",
            ),
        ),
    ),
    Remedy(
        Fault.TOPIC_UNKNOWN,
        "The topic or partition does not exist",
        "The cluster has no topic with this name, or the topic has no such partition. A user without the right "
        "to describe a topic gets the same answer. Perhaps it is the wrong cluster.",
        "`kcat -b HOST:PORT -L -t TOPIC` shows the topic and its partitions.",
        "Create the topic (`kafka-topics --create`), correct its name, or check the bootstrap servers and the ACLs.",
        program_messages(
            java=(
                "Error while fetching metadata with correlation id … : {…=UNKNOWN_TOPIC_OR_PARTITION}",
                "UnknownTopicOrPartitionException: …",
                "This server does not host this topic-partition.",
                "Topic '…' does not exist as expected",
                "Topic … not present in metadata after … ms",
                "Error while fetching metadata with correlation id … : {…=INVALID_TOPIC_EXCEPTION}",
            ),
            librdkafka=(
                "Broker: Unknown topic or partition",
                "Local: Unknown topic",
                "Local: Unknown partition",
                "Subscribed topic not available: …",
            ),
            kafka_python=("UnknownTopicOrPartitionError", "not found in cluster metadata"),
            kafkajs=("This server does not host this topic-partition",),
            franz_go=("UNKNOWN_TOPIC_OR_PARTITION: …",),
            sarama=("kafka server: Request was for a topic or partition that does not exist on this broker",),
        ),
    ),
)
