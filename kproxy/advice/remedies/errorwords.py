"""The words of Kafka's error codes in clients that print no code: the same error has other words in each.

Where several clients have the same words, the program is *any*, and another sign of Kafka must stand beside them.

Sources: Errors.java of Apache Kafka; rd_kafka_err_descs in rdkafka.c of librdkafka; errors.go of Sarama; error.go of
kafka-go; protocol/error.js of kafkajs; protocol.rb of ruby-kafka; kgo/errors.go of franz-go.
"""

from __future__ import annotations

import re

from kproxy.advice.remedies.remedy import parse_messages

_TABLE = """
== wrong-node
Note: The leader or the controller has moved, and the client's metadata is older or newer than the broker's: clients ask
again by themselves. If it lasts, look at the brokers' logs.
any?> The controller moved to another broker
any?> StaleControllerEpochCode
any?> The leader epoch in the request is older than the epoch on the broker
any?> The leader epoch in the request is newer than the epoch on the broker
librdkafka> Broker: Leader epoch is older than broker epoch
librdkafka> Broker: Leader epoch is newer than broker epoch
any?> Broker epoch has changed
franz-go> metadata update is missing a partition that we were previously using

== no-leader
any?> The leader high watermark has not caught up from a recent leader election
librdkafka> Broker: Leader high watermark is not caught up
any?> Eligible topic partition leaders are not available
any?> The preferred leader was not available
any?> The replica is not available for the requested topic-partition
any?> Replica information not available, one or more brokers are down
sarama!> kafka: partition consumer giving up after consecutive failures

== broker-missing
any?> The broker is not available
any?> Replica assignment is invalid
sarama!> kafka: broker for ID is not found
any?> A partition reassignment is in progress
any?> Partition reassignment is in progress
any?> The replication factor is invalid
any?> Replication-factor is invalid

== not-enough-replicas
any?> Messages are written to the log, but to fewer in-sync replicas than required
any?> Messages are rejected since there are fewer in-sync replicas than required
librdkafka> Local: ISR count insufficient

== topic-unknown
any?> The request attempted to perform an operation on an invalid topic
any?> This server does not host this topic-partition
any?> This server does not host this topic ID
any?> The log's topic ID did not match the topic ID in the request
librdkafka> Broker: The log's topic ID did not match the topic ID in the request
sarama!> kafka: response did not contain all the expected topic/partition blocks
any?> The fetch session encountered inconsistent topic ID usage

== no-coordinator
Note: The broker has no topic `__consumer_offsets` yet, and creates it for the first group: the next attempt works. If it
lasts, there are fewer brokers than `offsets.topic.replication.factor` (3 by default).
any?> Offset's topic has not yet been created
sarama!> Offset's topic has not yet been created
ruby-kafka!> Kafka::NotCoordinatorForGroup
any?> The coordinator is loading and hence can't process requests
any?> The coordinator is still loading offsets and cannot currently process requests
any?> Request was for a consumer group that is not coordinated by this broker
any?> the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator
librdkafka> Broker: Indicates that the transaction coordinator sending a WriteTxnMarker
any?> The transaction coordinator sending a WriteTxnMarker is no longer the current coordinator

== group
Note: Members of the group differ in their protocol, their strategy or their settings. Make them equal.
any?> The group member's supported protocols are incompatible with those of existing members
any?> The provider group protocol type is incompatible with the other members
any?> The assignor or its version range is not supported by the consumer group
Note: The group has members, so it cannot be deleted, and its offsets cannot be changed: stop its consumers first.
any?> The group is not empty
any?> Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it
librdkafka> Broker: Deleting offsets of a topic while the consumer group is subscribed to it
Note: The cluster has no such group, or its offsets have expired (`offsets.retention.minutes`). Consumers begin where
`auto.offset.reset` says.
any?> The group id does not exist
any?> The group id was not found
Note: The group has as many members as `group.max.size` of the broker allows. Start fewer members, or raise it.
any?> The consumer group has reached its max size
Note: The offset is no longer in the log: records were deleted (`retention.ms`), or the topic was created anew. The
consumer continues where `auto.offset.reset` says.
any?> The requested offset is not within the range of offsets maintained by the server
librdkafka> Local: Partition log truncation detected
Note: The offsets of an open transaction are not stable yet: clients try again.
any?> There are unstable offsets that need to be cleared
Note:
any?> Specified group generation id is not valid
any?> The group member needs to have a valid member id before actually entering a consumer group
any?> The broker rejected this static consumer since another consumer with the same group instance id
any?> Static consumer fenced by other consumer
librdkafka> Broker: The member epoch is stale
franz-go> partition has no prior committed offset

== transaction
any?> The broker received an out of order sequence number
any?> The broker received a duplicate sequence number
ruby-kafka!> Kafka::InvalidProducerIDMappingError
ruby-kafka!> Kafka::ConcurrentTransactionError
any?> Producer attempted an operation with an old epoch
any?> producer attempted to produce with an old epoch
any?> The producer attempted a transactional operation in an invalid state
any?> The producer attempted to use a producer id which is not currently assigned to its transactional id
any?> The producer attempted to update a transaction while another concurrent operation on the same transaction was ongoing
any?> if it could not locate the producer metadata associated with the producerId in question
any?> The broker could not locate the producer metadata associated with the Producer ID
any?> The transactionalId could not be found
any?> The transaction timeout is larger than the maximum value allowed by the broker
franz-go> cannot produce record transactionally if not in a transaction
franz-go> invalid attempt to begin a transaction with a non-transactional client
sarama!> transaction manager: transaction is not ready
sarama!> transaction manager: invalid transition attempted
sarama!> transaction manager: you need to add TransactionalID to producer
librdkafka> Local: Inconsistent state
Note: The client has ended itself after a fatal error, and the reason is in another line: as a producer, its sequence or
transaction is no longer valid; as a consumer with `group.instance.id`, another instance has the same id. Create the client anew.
librdkafka> Local: Fatal error

== record-too-large
any?> The request included message batch larger than the configured segment size on the server
any?> The request included a message larger than the max message size the server will accept
sarama!> kafka: message is larger than Consumer.Fetch.Max
any?> The metadata field of the offset request was too large
any?> Specified a string larger than the configured maximum for offset metadata
librdkafka> Broker: Offset metadata string too large
librdkafka> Broker: Commit offset data size is not valid
any?> The committing offset data size is not valid
any?> The provided commit metadata was too large

== clock
any?> The timestamp of the message is out of acceptable range

== overloaded
any?> The request timed out
any?> The throttling quota has been exceeded
any?> The fetch session ID was not found
any?> The fetch session epoch is invalid
any?> The share session was not found
any?> The share session epoch is invalid
any?> The limit of share sessions has been reached
any?> Client sent a push telemetry request
any?> There are too many fetch sessions
sarama!> kafka: message received by producer in process of shutting down
kafkajs!> KafkaJSRequestTimeoutError

== not-authorized
any?> Transactional ID authorization failed
any?> Delegation Token authorization failed
sarama!> kafka server: failed to create one or more ACL rules
sarama!> kafka server: failed to delete records

== credentials-refused
Note: The delegation token has expired, is unknown to the cluster, or belongs to another principal: get a new one with
`kafka-delegation-tokens`.
any?> Delegation Token is expired
any?> Delegation Token is not found on server
any?> Specified Principal is not valid Owner/Renewer
Note:
kafkajs!> "error":"SASL Authentication failed"
any?> Requested credential would not meet criteria for acceptability

== configuration
Note: Delegation tokens need `delegation.token.secret.key` on all brokers, and a connection with SASL that has not used a
token itself.
any?> Delegation Token feature is not enabled
any?> Delegation Token requests are not allowed on
Note: The broker has no authorizer, so it has no ACLs: set `authorizer.class.name`.
any?> Security features are disabled
any?> No Authorizer is configured on the broker
Note: `acks` must be 0, 1 or all (-1).
any?> Produce request specified an invalid value for required acks
any?> The number of required acks is invalid
Note: `session.timeout.ms` must lie between `group.min.session.timeout.ms` and `group.max.session.timeout.ms` of the broker.
any?> The provided session timeout is outside the allowed range
Note:
any?> Number of partitions is below 1
any?> Number of partitions is invalid
any?> Configuration is invalid
any?> The regular expression is not valid
any?> Supplied principalType is not supported
any?> The configured groupId is invalid
any?> The provided group id was empty
sarama!> kafka: partitioner returned an invalid partition index
franz-go> cannot produce record with no topic and no default topic
any?> Fetch request specified an invalid fetch size
any?> The requested fetch size is invalid

== broker-too-old
any?> The message format version on the broker does not support the request
librdkafka> Broker: Message format on broker does not support request
any?> The requesting client does not support the compression type of given partition
librdkafka> Broker: Unsupported compression type
librdkafka> Local: Unknown protocol

== client-too-old
librdkafka> Local: Partial response
Note: The client cannot decode what the broker has sent: the client is too old, or a proxy between them changes it.
sarama!> kafka: insufficient data to decode packet, more bytes expected
sarama!> kafka: unknown protocol message key
sarama> kafka: error decoding packet
librdkafka> Local: Read underflow
java!> SchemaException: Buffer underflow while parsing response for request with header
kafkajs!> KafkaJSProtocolError: Unknown error code
franz-go> correlation ID mismatch
librdkafka> Local: Bad message format

== login-not-offered
ruby-kafka!> Kafka::InvalidSaslState

== closed
sarama!> kafka: broker not connected
sarama!> kafka: broker connection already initiated

== kraft-configuration
any?> one of the expected voters
librdkafka> Broker: Indicates that the either the sender or recipient of a voter-only request
any?> This controller ID is not known
any?> This broker ID is already in use
any?> The given broker ID was not registered
any?> The controller has considered the broker registration to be invalid
any?> The voter is already part of the set of voters
any?> The voter is not part of the set of voters
any?> The voter key doesn't match the receiving replica's key

== controller-port
librdkafka> Broker: This endpoint type is not supported yet

== wrong-cluster
any?> The clusterId in the request does not match that found on the server

== not-about-reaching-kafka
Note: A record is damaged, or has not passed the checks of the broker or topic, for example one without a key in a
compacted topic.
any?> This message has failed its CRC checksum
any?> Message contents does not match its CRC
any?> This record has failed the validation on broker
any?> This record has failed the validation on the broker
librdkafka> Broker: Broker failed to validate record
librdkafka> Local: an invalid record in the same batch caused the failure of this message too
any?> The message has a negative size
ruby-kafka!> Kafka::InvalidMessageSize
Note: A directory of the broker cannot be used: its log has the reason.
any?> Disk error when trying to access log file on the disk
any?> The specified log directory is not found in the broker config
any?> The user-specified log directory is not found in the broker config
Note: The client's machine or process has too little of a resource, or a file cannot be used.
librdkafka> Local: Critical system resource failure
librdkafka> Local: File or filesystem error
any?> The record state is invalid
Note: The application calls the library in a wrong order or while another call is under way.
librdkafka> Local: Operation in progress
librdkafka> Local: Previous operation in progress
librdkafka> Local: Existing subscription
librdkafka> Local: Read-only object
librdkafka> Local: Not implemented
Note: The election was not needed, or no move of partitions is under way: nothing has to be done.
any?> Leader election not needed for topic partition
any?> No partition reassignment is in progress
Note: The broker has not tried this part of the request, because another part has failed: its error is beside it.
any?> The broker did not attempt to execute this operation
librdkafka> Broker: Operation not attempted
Note: The features of the cluster cannot be changed so: see `kafka-features describe`.
any?> The given update version was invalid
librdkafka> Broker: Invalid update version
any?> Unable to update finalized features due to
Note: The application of Kafka Streams and the group on the broker have different topologies: upgrade all instances.
any?> The supplied topology is invalid
any?> The supplied topology epoch is
"""

# librdkafka puts "Broker: " before the words of a broker's error, so that they need no other sign of Kafka.
MESSAGES = parse_messages(re.sub(r"(?m)^any\?> (.+)$", r"any?> \1\nlibrdkafka> Broker: \1", _TABLE))
