"""Faults of configurations, load, groups and transactions."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== configuration: A setting is wrong
A setting of the client or of the broker is missing, misspelt or has an impossible value. The message names it.
Check: The message names the setting and mostly the allowed values.
Fix: Correct the setting.
java> org.apache.kafka.common.config.ConfigException: …
librdkafka> Local: Invalid argument or configuration
librdkafka!> No such configuration property: "…"
librdkafka> Configuration property "…" …
librdkafka> Invalid value "…" for configuration property "…"
librdkafka> No `bootstrap.servers` configured: client will not be able to connect to Kafka cluster
kafka-python> KafkaConfigurationError
kafka-python> Unrecognized configs: {…}
kafkajs> Failed to connect: brokers array is empty
kafkajs!> Failed to connect: expected brokers array and got nothing
kafkajs!> Failed to connect: broker at index … is invalid
kafkajs!> Failed to connect: "config.brokers" threw
kafkajs> Failed to connect: brokers should not be null
sarama> You must provide at least one broker address

== connector-missing: Spark has no Kafka connector
Spark's Kafka source and sink are in a package of their own, which Spark itself does not contain.
Check: `spark-submit --version` shows the versions of Spark and Scala. The driver's log names the jars that Spark
adds.
Fix: Give Spark the package `org.apache.spark:spark-sql-kafka-0-10_SCALA:SPARK`, with these two versions: for PySpark
4.0.0 `spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 job.py`. With kproxy's plugin:
`kproxy.spark.plugin(packages=["org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"])`.
spark> Failed to find data source: kafka. …
spark> KAFKA_DATA_SOURCE_NOT_ENABLED
spark> Failed to find the data source: kafka. …

== overloaded: The brokers answer too slowly, or limit the client
A request takes longer than its timeout, or a quota slows the client down: a disk or a replica is slow, the network is
narrow, or the client sends more than the cluster takes.
Check: `kafka-topics --describe --under-replicated-partitions --bootstrap-server HOST:PORT` shows slow replicas. The
metrics `request-latency-avg` and `produce-throttle-time-avg` of the client show slow brokers and quotas.
Fix: Find the slow broker or disk. Raise `request.timeout.ms` and `delivery.timeout.ms` for slow networks. Raise the
quota, or send less.
java!> ms has passed since batch creation
java> ThrottlingQuotaExceededException: …
java> BufferExhaustedException: Failed to allocate … bytes within the configured max blocking time … ms
java> org.apache.kafka.common.errors.TimeoutException: The request timed out.
java> KafkaStorageException: …
librdkafka> Local: Message timed out
librdkafka> Local: Queue full
librdkafka> Broker: Request timed out
librdkafka> Broker: Throttling quota has been exceeded
kafka-python> ThrottlingQuotaExceededError
kafka-python> Failed to allocate memory within the configured max blocking time
kafka-python> throttled by broker (… ms)
kafkajs> KafkaJSRequestTimeoutError: Request … timed out
franz-go> records have timed out before they were able to be produced
sarama> kafka server: Request exceeded the user-specified time limit in the request
broker> Shrinking ISR from … to …

== listener-configuration: A broker does not start because of its listeners
`listeners`, `advertised.listeners`, `listener.security.protocol.map`, `inter.broker.listener.name` and
`controller.listener.names` contradict each other, so the broker refuses to start.
Check: The broker's log has the contradiction in its last lines. `kproxy lint server.properties` finds it before.
Fix: Give each name of `listeners` a line in `listener.security.protocol.map`. Advertise only names of `listeners`,
and not the controller's. Let `inter.broker.listener.name` be one of the advertised names.
broker> requirement failed: inter.broker.listener.name must be a listener name defined in advertised.listeners.
broker> requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined in
broker> requirement failed: No security protocol defined for listener …
broker> No security protocol defined for listener …
broker> requirement failed: Each listener must have a different port
broker> requirement failed: Each listener must have a different name
broker> requirement failed: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0.
broker> requirement failed: controller.listener.names must contain at least one value
broker> requirement failed: The advertised.listeners config must not contain KRaft controller listeners
broker> The advertised.listeners config must not contain KRaft controller listeners
broker> There must be at least one broker advertised listener
broker> Error creating broker listeners from '…': …
broker> Only one of inter.broker.listener.name and security.inter.broker.protocol should be set
broker> Socket server failed to bind to …

== group: The consumer group has moved on without this member
A member was too slow between two polls, did not send heartbeats, or another member has the same `group.instance.id`.
The group has given its partitions to others.
Check: `kafka-consumer-groups --describe --group GROUP --bootstrap-server HOST:PORT` shows the members.
Fix: Process fewer records for each poll (`max.poll.records`), or raise `max.poll.interval.ms`. Give each member its
own `group.instance.id`. A single rebalance needs no action.
java> CommitFailedException: Offset commit cannot be completed since the consumer
java> CommitFailedException: …
java> RebalanceInProgressException: …
java> FencedInstanceIdException: …
java> UnknownMemberIdException: …
java> IllegalGenerationException: …
java> consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer
java> InconsistentGroupProtocolException: …
java> OffsetOutOfRangeException: …
java> NoOffsetForPartitionException: …
librdkafka> Application maximum poll interval (…ms) exceeded by …ms
librdkafka> Local: Maximum application poll interval (max.poll.interval.ms) exceeded
librdkafka> Broker: Unknown member
librdkafka> Broker: Group rebalance in progress
librdkafka> Broker: Specified group generation id is not valid
librdkafka> Broker: Inconsistent group protocol
librdkafka> Broker: Static consumer fenced by other consumer with same group.instance.id
librdkafka> Broker: Offset out of range
kafka-python> CommitFailedError
kafka-python> RebalanceInProgressError
kafka-python> UnknownMemberIdError
kafka-python> IllegalGenerationError
kafka-python> FencedInstanceIdError
kafka-python> OffsetOutOfRangeError
kafka-python> Heartbeat failed for group … because it is rebalancing
kafka-python> Heartbeat session expired - marking coordinator dead
kafkajs> The coordinator is not aware of this member
kafkajs> The group is rebalancing, so a rejoin is needed
franz-go> UNKNOWN_MEMBER_ID: …
franz-go> REBALANCE_IN_PROGRESS: …
franz-go> ILLEGAL_GENERATION: …
franz-go> FENCED_INSTANCE_ID: …
sarama> kafka server: The provided member is not known in the current generation
sarama> kafka server: A rebalance for the group is in progress
sarama> kafka server: The requested offset is outside the range of offsets maintained by the server

== transaction: The producer's transaction or sequence is no longer valid
Another producer has the same `transactional.id`, the transaction took longer than its timeout, or the broker has
forgotten the producer's id or sequence.
Check: `kafka-transactions --bootstrap-server HOST:PORT describe --transactional-id ID` shows the transaction.
Fix: Give each producer its own `transactional.id`. Raise `transaction.timeout.ms`, up to `transaction.max.timeout.ms`
of the broker. Close the producer and create it again.
java> ProducerFencedException: …
java> InvalidProducerEpochException: …
java> OutOfOrderSequenceException: …
java> UnknownProducerIdException: …
java> InvalidTxnStateException: …
java> InvalidTxnTimeoutException: …
java> InvalidPidMappingException: …
java> ConcurrentTransactionsException: …
librdkafka> Local: This instance has been fenced by a newer instance
librdkafka> Broker: Producer attempted an operation with an old epoch
librdkafka> Broker: There is a newer producer with the same transactionalId which fences the current one
librdkafka> Broker: Broker received an out of order sequence number
librdkafka> Broker: Unknown Producer Id
librdkafka> Broker: Producer attempted a transactional operation in an invalid state
kafka-python> ProducerFencedError
kafka-python> InvalidProducerEpochError
kafka-python> OutOfOrderSequenceNumberError
kafka-python> UnknownProducerIdError
kafka-python> InvalidTxnStateError
franz-go> PRODUCER_FENCED: …
franz-go> INVALID_PRODUCER_EPOCH: …
franz-go> OUT_OF_ORDER_SEQUENCE_NUMBER: …
sarama> kafka server: The broker received an out of order sequence number
sarama> kafka server: Producer attempted an operation with an old epoch

== kproxy: kproxy itself printed this message
The message is kproxy's own.
Check: kproxy's log has more lines beside it, and `kproxy wait --timeout 0` shows whether kproxy is ready.
Fix: Follow the advice for this message in the table of kproxy's messages.
""")
