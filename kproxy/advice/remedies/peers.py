"""Faults of the server that answers at an address, and of the cluster's state."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== not-kafka: The server at the address is not a Kafka broker
Another program listens at this address: a web server, an HTTP proxy, an SSH server, or another service. The client
takes the first bytes of its answer for the size of a Kafka message.
Check: `curl -v http://HOST:PORT` or `nc HOST PORT` shows what answers. 1213486160 as a size is the word `HTTP`.
Fix: Correct the port. Check what the port-forward, load balancer or Ingress leads to: Kafka needs a TCP route, not an
HTTP route.
java> InvalidReceiveException: Invalid receive (size = 1213486160 larger than …)
java> InvalidReceiveException: Invalid receive (size = 1347703880 larger than …)
java> InvalidReceiveException: Invalid receive (size = 1397966893 larger than …)
java> java.lang.OutOfMemoryError: Java heap space … at org.apache.kafka.common.network.NetworkReceive.readFrom
java> The AdminClient thread has exited.
librdkafka> Receive failed: Invalid response size 1213486160 (0..…): increase receive.message.max.bytes
librdkafka> Receive failed: Invalid response size 1397966893 (0..…): increase receive.message.max.bytes
kafka-python> KafkaConnectionError: socket disconnected
kafka-python> socket disconnected
kafka-python> InvalidReceiveError: Invalid frame length: 1213486160
kafka-python> Received unrecognized correlation id
kafka-python> Received response with no in-flight-requests!
aiokafka> Connection at … closed
aiokafka> CorrelationIdError: Correlation ids do not match: sent …, recv …
kafkajs> KafkaJSConnectionClosedError: Closed connection
kafkajs> Connection closed by the server
franz-go> the four size bytes are 'HTTP' in ascii, the beginning of an HTTP response
sarama> Failed to read ApiVersionsResponse V… payload from …: unexpected EOF
sarama> kafka: client has run out of available brokers to talk to
sarama> kafka: client has run out of available brokers to talk to: EOF
sarama> client/metadata got error from broker … while fetching metadata: EOF
sarama> client/metadata got error from broker … while fetching metadata: unexpected EOF
sarama> kafka: error decoding packet: message of length 1213486160 too large or too small
sarama> kafka: error decoding packet: message of length 1397966893 too large or too small
broker> Unexpected error from …; closing connection
broker> InvalidReceiveException: Invalid receive (size = 1195725856 larger than …)
broker> InvalidReceiveException: Invalid receive (size = 1347375956 larger than …)
broker> InvalidReceiveException: Invalid receive (size = 1212501072 larger than …)
broker> InvalidReceiveException: Invalid receive (size = 1347571544 larger than …)
broker> InvalidRequestException: Unknown API key …

== wrong-node: Another broker of the cluster answers
The address leads to another broker than the one that advertises it: port-forwards are mixed up, or the address is a
load balancer in front of several brokers.
Check: `kproxy doctor` compares the broker that answers with the one that advertises the address.
Fix: Give each broker an address of its own, and correct the port-forward or the `--map`.
java> For requests intended only for the leader, this error indicates that the broker is not the current
java> org.apache.kafka.common.errors.NotLeaderOrFollowerException: …
java> NOT_LEADER_OR_FOLLOWER
java> org.apache.kafka.common.errors.NotControllerException: …
java> This is not the correct controller for this cluster.
librdkafka> Broker: Not leader for partition
librdkafka> Broker: Not controller for cluster
kafka-python> NotLeaderForPartitionError
kafka-python> NotControllerError
kafkajs> This server is not the leader for that topic-partition
franz-go> NOT_LEADER_FOR_PARTITION: …
franz-go> NOT_CONTROLLER: …
sarama> kafka server: Tried to send a message to a replica that is not the leader for some partition
sarama> kafka server: This is not the correct controller for this cluster

== wrong-cluster: Another Kafka cluster answers
The address leads to a broker of another cluster, perhaps one on the client's own machine, or the cluster has been
created again.
Check: `kcat -b HOST:PORT -L` shows other brokers or topics than expected. `kafka-cluster cluster-id` shows the id.
Fix: Correct the bootstrap servers, the port-forward or the name in DNS. After a cluster has been created again,
restart the clients; kproxy serves it after `kproxy reload --accept-cluster`, or after a restart. A broker that finds
the id of another cluster in its directories has that cluster's data: correct its `log.dirs` or its controllers, and
delete nothing that you may still need.
Clients: Most clients raise no error: they write to whichever cluster answers. In tests, the clients of Java (4.3),
librdkafka (2.16), kafka-python (3.0), aiokafka (0.14) and kafkajs (2.2) did. Java's client logs one warning of
`UNKNOWN_TOPIC_ID` and continues; librdkafka's sometimes logs one of `CLUSTERID`. Only where client and broker both
compare cluster ids, the client stops with `REBOOTSTRAP_REQUIRED`.
java> REBOOTSTRAP_REQUIRED
java!> RebootstrapRequiredException
librdkafka> reports different ClusterId "…" than previously known "…": a client must not be simultaneously connected to multiple clusters
librdkafka> Broker: Client metadata is stale, client should rebootstrap to obtain new metadata
kafka-python> RebootstrapRequiredError
franz-go> broker rejected our connection with REBOOTSTRAP_REQUIRED
broker> Unexpected error INCONSISTENT_CLUSTER_ID in …

== mixed-clusters: One address leads to several Kafka clusters
The address is a load balancer, a name in DNS or a port-forward that leads some connections to one cluster and some to
another.
Check: `kcat -b HOST:PORT -L` several times: it shows other brokers or topics. `kafka-cluster cluster-id` shows the
id.
Fix: Let the address lead to one cluster, and give the other one an address of its own. Stop the producers until then:
records are in both clusters. With `--cluster-id ID`, kproxy sends no request to the other one, and closes each
connection that leads there.
Clients: Most clients raise no error: they write to whichever cluster answers. In tests, the clients of Java (4.3),
librdkafka (2.16), kafka-python (3.0), aiokafka (0.14) and kafkajs (2.2) did. Java's client logs one warning of
`UNKNOWN_TOPIC_ID` and continues; librdkafka's sometimes logs one of `CLUSTERID`. Only where client and broker both
compare cluster ids, the client stops with `REBOOTSTRAP_REQUIRED`.

== mixed-bootstrap: The bootstrap servers belong to different clusters
The list of bootstrap servers names brokers of several clusters. A client then works with the cluster whose server
happens to answer first.
Check: `kcat -b HOST:PORT -L` shows other brokers for one bootstrap server than for another.
Fix: List the servers of one cluster only.

== mixing-load-balancer: One address leads to several brokers
The address is a load balancer that leads each connection to another broker. That is fine for a bootstrap server, but
not for an advertised address: a client must reach the leader of each partition.
Check: Connect to the address several times: different brokers answer.
Fix: Give each broker an advertised address of its own behind the load balancer: a port or a name for each broker.
java> org.apache.kafka.common.errors.NotLeaderOrFollowerException: …
librdkafka> Broker: Not leader for partition
kafka-python> NotLeaderForPartitionError

== broker-missing: A broker is not in the cluster's metadata
A broker is down, or has not registered itself with the controllers, so too few brokers are left.
Check: `kafka-broker-api-versions --bootstrap-server HOST:PORT` lists the brokers that are up.
Fix: Start the broker, and look into its log. For a new topic, use a replication factor that is not larger than the
number of brokers.
java> InvalidReplicationFactorException: Unable to replicate the partition … time(s): …
java> InvalidReplicationFactorException: Replication factor: … larger than available brokers: …
java> InvalidReplicationFactorException: …
librdkafka> Broker: Invalid replication factor
librdkafka> Broker: Broker not available
kafka-python> InvalidReplicationFactorError
kafka-python> BrokerNotAvailableError
kafkajs> Replication-factor is invalid
franz-go> INVALID_REPLICATION_FACTOR: …
sarama> kafka server: Replication factor is invalid

== no-leader: A partition has no leader
All replicas that could lead the partition are down, or the topic has only just been created.
Check: `kafka-topics --describe --topic TOPIC --bootstrap-server HOST:PORT` shows `Leader: none` or -1.
Fix: Start the brokers that have the replicas. For a topic that is being created, the next attempt works.
java> Error while fetching metadata with correlation id … : {…=LEADER_NOT_AVAILABLE}
java> LeaderNotAvailableException: …
java> There is no leader for this topic-partition as we are in the middle of a leadership election.
librdkafka> Broker: Leader not available
kafka-python> LeaderNotAvailableError
kafka-python> is not available during auto-create initialization
kafkajs> There is no leader for this topic-partition as we are in the middle of a leadership election
franz-go> LEADER_NOT_AVAILABLE: …
sarama> kafka server: In the middle of a leadership election, there is currently no leader for this partition
sarama> client/metadata found some partitions to be leaderless

== not-enough-replicas: Too few replicas are in sync for acks=all
A producer with `acks=all` wants that as many replicas have the record as `min.insync.replicas` says, and fewer are in
sync: brokers are down or lag behind; or, before Kafka 3.7, the setting is larger than the replication factor. Other
producers can write.
Check: `kafka-topics --describe --under-min-isr-partitions --bootstrap-server HOST:PORT` lists such partitions.
Fix: Start the brokers that have the other replicas, and look into their logs. If `min.insync.replicas` of the topic is
larger than its replication factor, lower the one or raise the other.
java> NotEnoughReplicasException: …
java> NotEnoughReplicasAfterAppendException: …
librdkafka> Broker: Not enough in-sync replicas
librdkafka> Broker: Message(s) written to insufficient number of in-sync replicas
kafka-python> NotEnoughReplicasError
kafka-python> NotEnoughReplicasAfterAppendError
kafkajs> Messages are rejected since there are fewer in-sync replicas than required
franz-go> NOT_ENOUGH_REPLICAS: …
sarama> kafka server: Messages are rejected since there are fewer in-sync replicas than required
broker> The size of the current ISR … is insufficient to satisfy the min.isr requirement of …

== no-controller: The cluster has no controller
No controller is elected, or the brokers cannot reach it. Topics cannot be created, and brokers cannot register.
Check: `kafka-metadata-quorum --bootstrap-server HOST:PORT describe --status` shows the leader of the controllers.
Fix: Start the majority of the controllers. Check `controller.quorum.voters` or `controller.quorum.bootstrap.servers`,
and that the brokers reach the controllers' listener.
java> Timed out waiting to send the call. Call: createTopics
kafkajs> KafkaJSBrokerNotFound: Controller broker with id … not found in the cached metadata
sarama> kafka: controller is not available
broker> Received a fatal error while waiting for the controller to acknowledge that we are caught up
broker> Unable to register with the controller quorum
broker> Unable to register the broker because the RPC got timed out before it could be sent.

== no-coordinator: The group or transaction has no coordinator
The broker that coordinates the group or transaction is down, or `__consumer_offsets` or `__transaction_state` cannot
be created: too few brokers for its replication factor. The first group of a new cluster waits until
`__consumer_offsets` is created: its next attempt works.
Check: `kafka-topics --describe --topic __consumer_offsets --bootstrap-server HOST:PORT` shows whether it exists and
has leaders.
Fix: Start the brokers that are down. With fewer than three brokers, set `offsets.topic.replication.factor` and
`transaction.state.log.replication.factor` to the number of brokers. After a start, wait some seconds.
java> Group coordinator … is unavailable or invalid due to cause
java> org.apache.kafka.common.errors.CoordinatorNotAvailableException: …
java> The coordinator is not available.
librdkafka> Broker: Coordinator not available
librdkafka> Broker: Not coordinator
librdkafka> Broker: Coordinator load in progress
kafka-python> GroupCoordinatorNotAvailableError
kafka-python> CoordinatorNotAvailableError
kafka-python> NotCoordinatorForGroupError
kafka-python> CoordinatorLoadInProgressError
aiokafka> Marking the coordinator dead (node …)for group …
kafkajs> The group coordinator is not available
kafkajs> KafkaJSGroupCoordinatorNotFound
franz-go> COORDINATOR_NOT_AVAILABLE: …
franz-go> NOT_COORDINATOR: …
sarama> kafka server: Offset's topic has not yet been created
sarama> client/coordinator coordinator for … is not available

== topic-unknown: The topic or partition does not exist
The cluster has no topic with this name, or the topic has no such partition. A user without the right to describe a
topic gets the same answer. Perhaps it is the wrong cluster.
Check: `kcat -b HOST:PORT -L -t TOPIC` shows the topic and its partitions.
Fix: Create the topic (`kafka-topics --create`), correct its name, or check the bootstrap servers and the ACLs.
java> Error while fetching metadata with correlation id … : {…=UNKNOWN_TOPIC_OR_PARTITION}
java> UnknownTopicOrPartitionException: …
java> This server does not host this topic-partition.
java> Topic '…' does not exist as expected
java> Topic … not present in metadata after … ms
librdkafka> Broker: Unknown topic or partition
librdkafka> Local: Unknown topic
librdkafka> Local: Unknown partition
librdkafka> Subscribed topic not available: …
kafka-python> UnknownTopicOrPartitionError
kafka-python> not found in cluster metadata
kafkajs> This server does not host this topic-partition
franz-go> UNKNOWN_TOPIC_OR_PARTITION: …
sarama> kafka server: Request was for a topic or partition that does not exist on this broker
""")
