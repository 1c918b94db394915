"""Messages of clients and their programs about a request that fails: the cluster's state, rights, versions, settings.

Sources: those of `programs` and `connecting`; Errors.java, ConfigDef.java and the tools of Apache Kafka; rd_kafka_err2str of librdkafka.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages

MESSAGES = parse_messages("""
== wrong-node
Note: The leader has moved, and the client's metadata is older: most clients ask again by themselves. If it lasts,
several brokers answer at one address.
java> For requests intended only for the leader, this error indicates that the broker is not the current
java> org.apache.kafka.common.errors.NotLeaderOrFollowerException: …
java> NOT_LEADER_OR_FOLLOWER
librdkafka> Broker: Not leader for partition
kafka-python> NotLeaderForPartitionError
kafkajs> This server is not the leader for that topic-partition
franz-go> NOT_LEADER_FOR_PARTITION: …
sarama> kafka server: Tried to send a message to a replica that is not the leader for some partition
kafka-go!> Not Leader For Partition
ruby-kafka!> Kafka::NotLeaderForPartition
rskafka!> NotLeaderOrFollower
kafka-node> NotLeaderForPartition
librdkafka!> NotLeaderForPartition
Note:
ruby-kafka!> not currently leader for

== no-leader
Note: The client asks the leader of each partition: one of them is down, or cannot be reached.
java!> Failed to get offsets by times in
Note: A topic that is only just created has no leader yet: the next attempt works. If it lasts, brokers are down.
kafka-go> Leader Not Available
ruby-kafka!> Kafka::LeaderNotAvailable
ruby-kafka!> Leader not available
kafka-node> LeaderNotAvailable
kafka-node!> BrokerNotAvailableError: Could not find the leader
kafka-node> Could not find the leader
sarama!> kafka server: Replica not available
librdkafka> Broker: Replica not available
librdkafka> Broker: Eligible partition leaders are not available
librdkafka> Broker: Preferred leader was not available

== topic-unknown no-leader
any> unknown_topic_or_partition
any> leader_not_available
Note: The cluster has no such topic and does not create it by itself, or its partitions have no leader.
ruby-kafka!> Failed to assign partitions to
ruby-kafka> Failed to assign partition
java!> Unable to retrieve any partitions for the requested topics
java!> Failed to find leader for partitions
kafkajs!> There is no leader for this topic-partition
Note:
kafkajs!> Topic metadata not loaded
kafkajs!> Producing to topic without metadata
kafka-node!> leaders are still missing for
ruby-kafka!> Leader not yet available for
ruby-kafka!> Leader currently not available for
rskafka> Could not find metadata for partition
java!> The metadata response from the cluster reported a recoverable issue with correlation id
java> Topic partition … has no leader
kafka-go!> failed to get topic metadata

== name-not-resolved
Note: Flink's and other old clients end so if they cannot resolve the advertised name of a broker.
java!> No entry found for connection
Note:
librdkafka> Local: Host resolution failure

== wrong-listener
librdkafka> Broker: No matching listener
Note: The leader of the partition has no listener of the name to which the client has connected: the listeners of the
brokers differ.
java!> partitions have leader brokers without a matching listener
Note:
Note: The listeners of the brokers differ: the leader or coordinator has none of the name that the client uses.
franz-go!> has no listener named

== topic-unknown
java!> MissingSourceTopicException
java!> One or more source topics were missing during rebalance
kafka-go!> Unknown Topic Or Partition
sarama!> kafka: Topic not recognized by brokers
librdkafka> Broker: Unknown topic id
librdkafka> Local: Unknown group
ruby-kafka!> Kafka::UnknownTopicOrPartition
librdkafka!> UnknownTopicOrPartition
kafka-node> Topic(s) does not exist
kafka-node!> TopicsNotExistError
Note: The topic's name is not allowed: it has 1 to 249 letters, digits, `.`, `_` and `-`.
librdkafka> Broker: Invalid topic
kafka-python!> (error_code=17, topic=
Note:
java!> and missingTopicsFatal is true
java!> present and missingTopicsFatal
java!> most likely a source topic is missing
java!> has missing source topics
java!> make sure all user input topics are created
kafka-python!> not found in ClusterMetadata
ruby-kafka!> Unknown topic or partition

== tls-to-plaintext client-certificate-missing
kafka-python!> SSL connection closed by server during handshake
kafka-python> Connection reset during SSL handshake

== port-closed
kafka-python> returned error 111. Disconnecting
kafka-python> returned error 61. Disconnecting
kafka-python> returned error 10061. Disconnecting

== filtered
kafka-python> returned error 110. Disconnecting
kafka-python> returned error 60. Disconnecting
kafka-python> returned error 10060. Disconnecting

== no-route
kafka-python> returned error 113. Disconnecting
kafka-python> returned error 101. Disconnecting
kafka-python> returned error 65. Disconnecting
kafka-python> returned error 51. Disconnecting
kafka-python> returned error 10065. Disconnecting
kafka-python> returned error 10051. Disconnecting

== broker-too-old
Note: The client's library is newer than the broker, or the service supports only a part of the protocol.
broker!> Invalid version for API key
java!> The broker does not support
java!> because brokers don't support configuration replication.factor=-1
java!> Creating topics with default partitions/replication factor are only supported in
franz-go!> broker is too old
kafka-go> failed to find … supported version
Note:
kafka-python!> Kafka broker does not support the '…' Kafka protocol
kafka-python!> producer requires broker >=
kafka-python!> Attempting to use idempotence with a broker which does not support the required message format
kafka-python> requires 0.8.1+ broker
kafka-python> Group Coordinator APIs require 0.9+ broker
librdkafka!> requires Apache Kafka broker version >=
librdkafka> not supported by broker
java!> does not support usage of config group.instance.id
java> The node does not support …
java!> The broker only supports
java!> Cannot create a v… FindCoordinator request because we require features supported only in
java!> JoinGroup failed due to unsupported version error
connect!> Enabling exactly-once support for source connectors requires a Kafka broker version

== login-needed tls-to-plaintext not-kafka
Note: The first bytes of the connection are no login. The reasons that the broker lists are guesses.
broker!> InvalidRequestException: Invalid request, potential

== broker-too-old broker-too-new
librdkafka!> No viable ProduceRequest ApiVersions …supported by broker: unable to produce
kafka-go!> no matching versions were found between the client and the broker
java!> Cancelled request … due to a version mismatch with node
java!> when making an ApiVersionsRequest with correlation id
librdkafka!> not supported by broker, requires broker version
librdkafka!> Broker does not support
librdkafka!> SASL Handshake not supported by broker
Note:
kafka-python!> is supported by both the client
kafkajs!> API Versions not supported
franz-go!> below the user defined min of

== broker-too-old broker-too-new login-not-offered
Note: The broker does not understand the request: its log has the reason. Mostly the versions of client and broker are
too far apart, or another program answers in the broker's place.
java!> This most likely occurs because of a request being malformed by the client library
librdkafka> Broker: Invalid request
kafka-python> InvalidRequestError

== broker-too-new broker-too-old
any!> unsupported_vsn_range

== broker-too-new
rskafka!> Did not found a version for ApiVersion that works with that broker
rskafka> Cannot find matching version for

== record-too-large
kafka-go> Message Size Too Large
ruby-kafka!> Kafka::MessageSizeTooLarge
librdkafka!> MessageSizeTooLarge
Note:
librdkafka> Broker: Invalid message size
kafka-python!> whose size is larger than the fetch size
aiokafka!> whose size is larger than the fetch size
java!> whose size is larger than the fetch size

== broker-missing
kafka-go!> [8] Broker Not Available
franz-go!> unknown broker
librdkafka> Local: Unknown broker
librdkafka> Broker: Invalid replica assignment
sarama!> kafka server: Broker not available
Note:
kafkajs!> not found in the cached metadata
kafka-node!> No broker with id
ruby-kafka!> No brokers in cluster
ruby-kafka!> No broker with id
rskafka!> not found in metadata response
sarama!> client/metadata receiving empty brokers from the metadata response
sarama!> Unable to find broker with ID
sarama> could not find broker id
kafka-python!> Bootstrap metadata response has no brokers
kafka-python!> No broker metadata found in MetadataResponse
aiokafka!> not in current metadata
aiokafka!> No broker metadata found in MetadataResponse
java!> There are no nodes in the Kafka cluster
java!> Metadata fetch failed due to missing broker list
java!> AdminClient discovered an empty Kafka Cluster
any!> Requested replication factor … more than brokers count
schema-registry!> Creating the schema topic … using a replication factor of
schema-registry!> The replication factor of the schema topic

== broker-missing overloaded not-authorized
Note: Kafka Streams creates its internal topics itself. Too few brokers for `replication.factor`, brokers that do not
answer, or a missing right to create topics prevent it.
java!> Could not create internal topics within
java!> Could not create topics within
java!> Could not create topic … within

== no-controller
franz-go!> broker replied that the controller broker is
Note:
kafka-python!> Failed to find active controller id
aiokafka!> Controller node not found
kafka-python!> Controller ID not available
rskafka> Leader is NULL

== closed plaintext-to-tls login-needed
kafkajs> Connection error: write after end
librdkafka> Local: Communication failure with broker
librdkafka> Broker: Broker disconnected before response received
sarama!> kafka: broker: not connected

== name-not-resolved port-closed filtered closed not-authorized
Note: The client counts the records that it could not write, and keeps the reasons: print each error of `kafka.WriteErrors`
(`errors.As`), and explain that.
kafka-go!> kafka write errors (

== overloaded silent
Note: The connection was in use, and the broker has not answered a request for `socket.timeout.ms` (60 s unless it is set),
though it has answered others: it is overloaded, or a device between loses packets.
librdkafka> … request(s) timed out: disconnect (…) (after …ms in state UP
librdkafka> … request(s) timed out: disconnect (after …ms in state UP

== too-many-files
Note: The client's machine has no free local port, or no address of the family (IPv4 or IPv6) of the broker's address.
Connections that are opened and closed all the time use the ports up: `ss -s` counts them. Keep clients and their connections.
librdkafka!> Failed to connect to broker at …: Cannot assign requested address
librdkafka!> failed: Cannot assign requested address

== overloaded
Note: Amazon MSK limits the new connections of a broker with IAM: clients must keep their connections, and start again
more slowly (`reconnect.backoff.max.ms`).
java> Too many connects
any> Too many connects
Note: The broker answers too slowly. It has not refused the password.
kafkajs!> authentication failed: Request SaslAuthenticate… timed out
Note: The producer's buffer is full, because the brokers take less than it sends, or take nothing: look for the lines
about connections.
ruby-kafka!> Kafka::BufferOverflow
any> internal queue is full, retrying in
franz-go!> the maximum amount of records are buffered, cannot buffer more
franz-go!> record failed after being retried too many times
kafka-python!> KafkaTimeoutError: Failed to allocate memory
Note: A quota of the cluster slows the client down.
sarama!> kafka server: The throttling quota has been exceeded
Note:
kafka-go!> [7] Request Timed Out

== configuration
Note: Another Kafka proxy stands between client and broker, and has no address of its own for this broker: its list of
brokers is not complete, or names the broker differently than the broker does in `advertised.listeners`. Add the broker
to the proxy's mappings.
proxy!> net address mapping for … was not found
Note: The program knows no bootstrap server: set `bootstrap.servers`, under the name and in the section that the
program reads.
any> Missing required configuration …bootstrap.servers… which has no default value
Note: The tool needs `--bootstrap-server HOST:PORT`.
tools!> Missing required argument "[bootstrap-server]"
tools!> Missing required argument "[bootstrap-controller]"
tools!> You must specify either --bootstrap-controller or --bootstrap-server
tools!> One of the following arguments must be specified: --bootstrap-server
Note: A rule or limit of the cluster forbids the request: `create.topic.policy.class.name`,
`alter.config.policy.class.name`, or a limit of the service (Event Hubs' basic tier does not speak Kafka's protocol at
all, and clouds demand a replication factor of 3).
java!> PolicyViolationException: …
librdkafka> Broker: Policy violation
kafkajs!> Request parameters do not satisfy the configured policy
kafka-python> PolicyViolationError
franz-go> POLICY_VIOLATION: …
sarama!> kafka server: Request parameters do not satisfy the configured policy
Note: Kafka Connect keeps its state in topics that must have `cleanup.policy=compact`: create the topic anew, or change
it with `kafka-configs --alter --add-config cleanup.policy=compact`.
connect!> is required to have 'cleanup.policy=compact'
Note: Schema Registry keeps its schemas in a topic that must have `cleanup.policy=compact`, and one partition.
schema-registry!> The retention policy of the schema topic
schema-registry!> The retention policy of the schema topic _schemas is incorrect
Note: The protocol of Schema Registry's own client differs from the listeners: `kafkastore.security.protocol` must be
that of `kafkastore.bootstrap.servers`, where each address may have it as a prefix (`SASL_SSL://HOST:PORT`).
schema-registry!> No supported Kafka endpoints are configured
Note: The version of Kafka that the program is told to speak is none that it knows: leave the setting out, or give a
version that it lists, such as `2.1.0`.
beats!> unknown/unsupported kafka version
Note: Debezium uses a client of its own for its schema history, which lacks its bootstrap servers: set
`schema.history.internal.kafka.bootstrap.servers` in the connector's configuration. Before Debezium 2.0 the setting is
`database.history.kafka.bootstrap.servers`.
connect!> kafka.bootstrap.servers' value is invalid: A value is required
Note: Debezium demands this setting: add it to the connector's configuration.
connect!> value is invalid: A value is required
Note: The file with the settings does not exist where the program runs: inside a container, its path is another one.
java?> .properties (No such file or directory)
java!> org.apache.kafka.common.utils.Utils.loadProps
java?> .conf (No such file or directory)
any?> .properties: No such file or directory
Note: A setting of time is too small beside another one; the message names both.
java!> request.timeout.ms should be greater than session.timeout.ms
java!> delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms
librdkafka!> must be set to 0 or higher than
librdkafka> Broker: Invalid session timeout
java!> InvalidSessionTimeoutException: …
java!> The session timeout is not within the range allowed by the broker
Note: Idempotence needs `acks=all`, `retries` above 0 and at most 5 requests in flight.
java!> Must set acks to all in order to use the idempotent producer
java!> Must set retries to non-zero when using the idempotent producer
java!> to at most 5 to use the idempotent producer
librdkafka!> must be set to … when …enable.idempotence… is true
Note: A consumer needs a `group.id` for this.
java!> InvalidGroupIdException: …
librdkafka> Broker: Invalid group.id
librdkafka> "group.id" must be configured
Note:
librdkafka> Broker: Configuration is invalid
librdkafka> Broker: Invalid number of partitions
librdkafka> Broker: Invalid required acks value
librdkafka> Local: Erroneous state
librdkafka> Local: Conflicting use
librdkafka> Local: Functionality not configured
librdkafka> Broker: Topic deletion is disabled
java!> Topic deletion is disabled

== not-authorized
kafka-python!> Not authorized to read from topic
kafka-python!> Not authorized to commit offsets for group
kafka-python!> OffsetCommit failed for unauthorized topics
aiokafka!> Not authorized to read from topic
aiokafka!> OffsetCommit failed for unauthorized topics
java!> Not authorized to read from partition
java!> due to topic authorization failure
java!> failed due to authorization failure
java!> failed due to cluster authorization failure
java!> failed due to transactional ID authorization failure
java!> due to group authorization failure
sarama!> client was not authorized to access group

== not-authorized credentials-refused
Note: Spring stops the container of a listener at such an error, unless `authExceptionRetryInterval` is set. The exception
below it has the reason.
java!> Authentication/Authorization Exception and no authExceptionRetryInterval set
java!> Authentication/Authorization Exception, retrying in

== not-enough-replicas
ruby-kafka!> Not enough in-sync replicas for
ruby-kafka!> but to fewer in-sync replicas than required for

== controller-port
kafka-python!> Did you attempt to connect to a kafka controller

== client-too-old
kafka-go> unsupported magic byte
librdkafka!> Unsupported Message(Set) MagicByte
""")
