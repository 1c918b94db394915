"""Messages of clients about coordinators, consumer groups and transactions.

Sources: those of `programs` and `connecting`; Errors.java of Apache Kafka; rd_kafka_err2str of librdkafka.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages

MESSAGES = parse_messages("""
== no-coordinator
Note: The coordinator still reads the offsets of the group after a start or a move: the next attempt works. If it lasts, the
log of that broker has the reason.
librdkafka> coordinator load in progress
librdkafka> Coordinator load in progress
java> The coordinator is loading and hence can't process requests
java!> is loading the group
kafkajs> The coordinator is loading and hence can't process requests
Note: The coordinator of the group has moved to another broker, for example because one was restarted: the client looks
for it again by itself. If it lasts, brokers join and leave the cluster.
java!> is unavailable or invalid due to cause: error response NOT_COORDINATOR
java!> This is not the correct coordinator
kafka-go!> Not Coordinator For Group
Note: The client has lost the connection to the coordinator, and looks for it again by itself. If it lasts, the lines
about connections have the reason.
java!> is unavailable or invalid due to cause: null
java!> is unavailable or invalid due to cause: coordinator unavailable
java!> is unavailable or invalid due to cause: session timed out without receiving a heartbeat response
Note:
kafka-go!> Group Coordinator Not Available
ruby-kafka!> Group coordinator not available for group
ruby-kafka!> Kafka::CoordinatorNotAvailable
java!> coordinator is loading and hence can't process requests
java!> Offset commit failed on partition
java!> Timeout expired while initializing transactional state
franz-go!> but did not reply with that broker in the broker list
librdkafka> Local: Waiting for coordinator
librdkafka> Broker: The coordinator is not available
ruby-kafka!> Failed to find coordinator
Note:
kafka-python!> Group Coordinator Request failed
kafka-python!> Group Coordinator lookup for group … failed
kafka-python!> is either not started or not valid
kafka-python!> marking coordinator dead
kafka-python!> Marking the coordinator dead
kafka-python> FindCoordinator Request failed
kafka-python!> FindCoordinatorResponse error
kafka-python!> Could not find a coordinator with type
aiokafka!> Group Coordinator Request failed
aiokafka!> is either not started or not valid
aiokafka!> marking coordinator dead
aiokafka!> Unable to get coordinator id for
librdkafka!> FindCoordinator response error
librdkafka!> Failed to find transaction coordinator
librdkafka!> Failed to send coordinator query to
librdkafka!> Failed to add offsets to transaction on broker
librdkafka!> Failed to acquire … PID from broker
librdkafka!> Consumer group session timed out (in join-state
kafkajs!> Failed to find group coordinator
franz-go!> coordinator was not returned in broker response
ruby-kafka!> Coordinator broker still loading
java!> FindCoordinator request failed
java!> Could not find a coordinator with type
schema-registry!> Timed out waiting for join group to complete

== group
Note: The consumer takes longer between two polls than `max.poll.interval.ms`. Process fewer records for each poll
(`max.poll.records`), or raise `max.poll.interval.ms`.
java!> consumer poll timeout has expired
Note: The group has given the partitions to other members. It happens if the consumer is too slow for
`max.poll.interval.ms` or silent for `session.timeout.ms`: a rebalance follows, and records since the last commit come
again.
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
Note:
java!> worker poll timeout has expired
kafka-python!> Consumer poll timeout has expired
kafka-python!> Heartbeat session expired
any> Another consumer with same group.instance.id has connected
Note: The members of the group do not agree on a partition assignor, or on the protocol of the group. Give all members
the same `partition.assignment.strategy` and `group.protocol`, and this `group.id` to no other program.
java!> do not have commonly supported rebalance protocol
java!> Coordinator selected invalid assignment protocol
java!> Coordinator selected invalid protocol
java!> failed due to inconsistent Protocol
java!> JoinGroup failed: Inconsistent Protocol Type
librdkafka> Unsupported partition.assignment.strategy
kafkajs!> Unsupported partition assigner
sarama> do not have a commonly supported rebalance protocol
Note: Two instances of Schema Registry announce the same URL: set `host.name` and `listeners` for each.
schema-registry!> multiple members advertising the same URL
schema-registry!> Found duplicate URLs for schema registry group members
Note: No instance of Schema Registry may be the leader: `leader.eligibility` is false for all of them.
schema-registry!> No leader eligible schema registry instances joined
schema-registry!> request failed since leader is unknown
schema-registry> Request failed since leader is unknown
schema-registry> Error electing leader while initializing schema registry
Note: The workers of the Connect cluster do not reach each other's REST server: see `rest.advertised.host.name`.
connect!> This worker is not able to communicate with the leader of the cluster
connect!> URL of the leader's REST interface is empty
connect!> Request to leader to reconfigure connector tasks failed

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
Note:
librdkafka!> Failed to add partition(s) to transaction on broker
librdkafka!> transactional producer fenced by newer producer instance
librdkafka!> current transaction must be aborted
librdkafka!> unable to satisfy gap-less guarantee
librdkafka!> failed due to sequence desynchronization with broker
librdkafka!> unable to retry without risking duplication
connect!> Unable to claim write privileges for config topic
""")
