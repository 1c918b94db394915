"""Messages of clients and their programs about a request that fails: the cluster's state, groups, versions, settings.

Sources: those of `programs`; Errors.java, ConfigDef.java and the tools of Apache Kafka; rd_kafka_err2str of librdkafka.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages

MESSAGES = parse_messages("""
== wrong-node
Note: The leader has moved, and the client's metadata is older: most clients ask again by themselves. If it lasts,
several brokers answer at one address.
kafka-go!> Not Leader For Partition
ruby-kafka!> Kafka::NotLeaderForPartition
rskafka!> NotLeaderOrFollower
kafka-node> NotLeaderForPartition
librdkafka!> NotLeaderForPartition

== no-leader
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
Note: The cluster has no such topic and does not create it by itself, or its partitions have no leader.
ruby-kafka!> Failed to assign partitions to
ruby-kafka> Failed to assign partition
java!> Unable to retrieve any partitions for the requested topics
java!> Failed to find leader for partitions
kafkajs!> There is no leader for this topic-partition

== name-not-resolved
Note: Flink's and other old clients end so if they cannot resolve the advertised name of a broker.
java!> No entry found for connection
librdkafka> Local: Host resolution failure

== wrong-listener
librdkafka> Broker: No matching listener
Note: The leader of the partition has no listener of the name to which the client has connected: the listeners of the
brokers differ.
java!> partitions have leader brokers without a matching listener

== topic-unknown
java!> MissingSourceTopicException
java!> One or more source topics were missing during rebalance
kafka-go!> Unknown Topic Or Partition
sarama!> kafka: Topic not recognized by brokers
librdkafka> Broker: Unknown topic id
librdkafka> Broker: Invalid topic
librdkafka> Local: Unknown group
ruby-kafka!> Kafka::UnknownTopicOrPartition
librdkafka!> UnknownTopicOrPartition
kafka-node> Topic(s) does not exist
kafka-node!> TopicsNotExistError

== no-coordinator
kafka-go!> Group Coordinator Not Available
kafka-go!> Not Coordinator For Group
ruby-kafka!> Group coordinator not available for group
ruby-kafka!> Kafka::CoordinatorNotAvailable
java!> coordinator is loading and hence can't process requests
java!> This is not the correct coordinator
java!> Offset commit failed on partition
java!> Timeout expired while initializing transactional state
franz-go!> but did not reply with that broker in the broker list
librdkafka> Local: Waiting for coordinator
librdkafka> Broker: The coordinator is not available
ruby-kafka!> Failed to find coordinator

== tls-to-plaintext client-certificate-missing
kafka-python!> SSL connection closed by server during handshake
kafka-python> Connection reset during SSL handshake

== port-closed
kafka-python> returned error 111. Disconnecting
kafka-python> returned error 61. Disconnecting

== filtered
kafka-python> returned error 110. Disconnecting

== no-route
kafka-python> returned error 113. Disconnecting

== broker-too-old
Note: The client's library is newer than the broker, or the service supports only a part of the protocol.
java!> The broker does not support
java!> because brokers don't support configuration replication.factor=-1
java!> Creating topics with default partitions/replication factor are only supported in
franz-go!> broker is too old
kafka-go> failed to find … supported version

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

== broker-too-old broker-too-new login-not-offered
Note: The broker does not understand the request: its log has the reason. Mostly the versions of client and broker are
too far apart, or another program answers in the broker's place.
java!> This most likely occurs because of a request being malformed by the client library
librdkafka> Broker: Invalid request
kafka-python> InvalidRequestError

== broker-too-new
rskafka!> Did not found a version for ApiVersion that works with that broker
rskafka> Cannot find matching version for

== record-too-large
kafka-go> Message Size Too Large
ruby-kafka!> Kafka::MessageSizeTooLarge
librdkafka!> MessageSizeTooLarge

== group
Note: The consumer takes longer between two polls than `max.poll.interval.ms`.
java!> consumer poll timeout has expired
Note: The group has given the partitions to other members.
java!> Offset commit cannot be completed since the consumer
java!> Synchronous auto-commit of offsets
java!> Asynchronous auto-commit of offsets
java!> Offset commit failed with a retriable exception
Note:
sarama!> kafka server: The provided generation id is not the current generation
sarama!> kafka server: The broker rejected this static consumer
kafka-go!> Rebalance In Progress
franz-go!> unable to join group session
librdkafka> Local: No offset stored
librdkafka> Local: Group partition assignment lost
librdkafka> Broker: The group is not empty
librdkafka> Broker: The group id does not exist
librdkafka> Broker: Group member needs a valid member ID
librdkafka> Broker: Consumer group has reached maximum size
librdkafka> Broker: The member epoch is fenced by the group coordinator
librdkafka> Broker: The instance ID is still used by another member in the consumer group
librdkafka> Local: No offset to automatically reset to
java!> This member will leave the group because
Note: The group has active members: stop its consumers before you change its offsets.
tools!> Assignments can only be reset if the group
tools!> Consumer group … has active members
Note:
Note: The offset is no longer in the log: records were deleted (`retention.ms`), or the topic was created anew. The
consumer continues where `auto.offset.reset` says.
java!> is out of range for partition
java!> Offsets out of range with no configured reset policy for partitions
Note:
java!> Attempt to heartbeat failed since group is rebalancing
kafka-go!> Unknown Member ID
ruby-kafka!> Kafka::RebalanceInProgress
ruby-kafka!> Kafka::UnknownMemberId
ruby-kafka!> Kafka::IllegalGeneration
ruby-kafka!> Kafka::OffsetOutOfRange

== broker-missing
kafka-go!> [8] Broker Not Available
franz-go!> unknown broker
librdkafka> Local: Unknown broker
librdkafka> Broker: Invalid replica assignment
sarama!> kafka server: Broker not available

== broker-missing overloaded not-authorized
Note: Kafka Streams creates its internal topics itself. Too few brokers for `replication.factor`, brokers that do not
answer, or a missing right to create topics prevent it.
java!> Could not create internal topics within
java!> Could not create topics within
java!> Could not create topic … within

== no-controller
franz-go!> broker replied that the controller broker is

== closed plaintext-to-tls login-needed
kafkajs> Connection error: write after end
librdkafka> Local: Communication failure with broker
librdkafka> Broker: Broker disconnected before response received
sarama!> kafka: broker: not connected

== too-many-files ipv6-only
Note: The client's machine has no free local port, or no address of this family.
librdkafka!> Failed to connect to broker at …: Cannot assign requested address
librdkafka!> failed: Cannot assign requested address

== transaction
Note: The transaction's timeout is longer than the broker allows: lower `transaction.timeout.ms`, or raise
`transaction.max.timeout.ms` of the broker (15 minutes by default). Flink's own default is one hour.
java!> The transaction timeout is larger than the maximum value allowed by the broker
librdkafka> Broker: Transaction timeout is larger than the maximum value allowed by the broker's max.transaction.timeout.ms
Note:
java!> There is a newer producer with the same transactionalId which fences the current one
librdkafka> Broker: Producer attempted to use a producer id which is not currently assigned to its transactional id
librdkafka> Broker: Producer attempted to update a transaction while another concurrent operation
librdkafka> Broker: Broker received a duplicate sequence number
librdkafka> Local: Gap-less ordering would not be guaranteed if proceeding
librdkafka> Broker: The server encountered an error with the transaction

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
Note: Debezium uses a client of its own for its schema history: `schema.history.internal.kafka.bootstrap.servers`.
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
""")
