"""Faults of configurations, load, groups and transactions."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import Remedy, program_messages
from kproxy.base.faults import Fault

TABLE: tuple[Remedy, ...] = (
    Remedy(
        Fault.CONFIGURATION,
        "A setting is wrong",
        "A setting of the client or of the broker is missing, misspelt or has an impossible value. The message names it.",
        "The message names the setting and mostly the allowed values.",
        "Correct the setting.",
        program_messages(
            java=(
                "org.apache.kafka.common.config.ConfigException: …",
                "Invalid url in bootstrap.servers: …",
                "KafkaException: Failed to construct kafka …",
            ),
            librdkafka=(
                "Local: Invalid argument or configuration",
                'No such configuration property: "…"',
                'Configuration property "…" …',
                "No `bootstrap.servers` configured: client will not be able to connect to Kafka cluster",
            ),
            kafka_python=("KafkaConfigurationError", "Unrecognized configs: {…}"),
            kafkajs=("Failed to connect: brokers array is empty", "Failed to connect: brokers should not be null"),
            sarama=("kafka: invalid configuration (…)", "You must provide at least one broker address"),
        ),
    ),
    Remedy(
        Fault.CONNECTOR_MISSING,
        "Spark has no Kafka connector",
        "Spark's Kafka source and sink are in a package of their own, which Spark itself does not contain.",
        "`spark-submit --version` shows the versions of Spark and Scala. The driver's log names the jars that Spark adds.",
        "Give Spark the package `org.apache.spark:spark-sql-kafka-0-10_SCALA:SPARK`, with these two versions: for PySpark "
        "4.0.0 `spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 job.py`. With kproxy's plugin: "
        '`kproxy.spark.plugin(packages=["org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"])`.',
        program_messages(
            spark=(
                "Failed to find data source: kafka. …",
                "KAFKA_DATA_SOURCE_NOT_ENABLED",
                "Failed to find the data source: kafka. …",
            )
        ),
    ),
    Remedy(
        Fault.OVERLOADED,
        "The brokers answer too slowly, or limit the client",
        "A request takes longer than its timeout, or a quota slows the client down: a disk or a replica is slow, the "
        "network is narrow, or the client sends more than the cluster takes.",
        "`kafka-topics --describe --under-replicated-partitions --bootstrap-server HOST:PORT` shows slow replicas. The "
        "metrics `request-latency-avg` and `produce-throttle-time-avg` of the client show slow brokers and quotas.",
        "Find the slow broker or disk. Raise `request.timeout.ms` and `delivery.timeout.ms` for slow networks. Raise "
        "the quota, or send less.",
        program_messages(
            java=(
                "Expiring … record(s) for …:… ms has passed since batch creation",
                "ThrottlingQuotaExceededException: …",
                "BufferExhaustedException: Failed to allocate … bytes within the configured max blocking time … ms",
                "org.apache.kafka.common.errors.TimeoutException: The request timed out.",
                "KafkaStorageException: …",
            ),
            librdkafka=(
                "Local: Message timed out",
                "Local: Queue full",
                "Broker: Request timed out",
                "Broker: Throttling quota has been exceeded",
            ),
            kafka_python=(
                "ThrottlingQuotaExceededError",
                "Failed to allocate memory within the configured max blocking time",
                "throttled by broker (… ms)",
            ),
            kafkajs=("KafkaJSRequestTimeoutError: Request … timed out",),
            franz_go=("records have timed out before they were able to be produced",),
            sarama=("kafka server: Request exceeded the user-specified time limit in the request",),
            broker=("Shrinking ISR from … to …",),
        ),
    ),
    Remedy(
        Fault.LISTENER_CONFIGURATION,
        "A broker does not start because of its listeners",
        "`listeners`, `advertised.listeners`, `listener.security.protocol.map`, `inter.broker.listener.name` and "
        "`controller.listener.names` contradict each other, so the broker refuses to start.",
        "The broker's log has the contradiction in its last lines. `kproxy lint server.properties` finds it before.",
        "Give each name of `listeners` a line in `listener.security.protocol.map`. Advertise only names of `listeners`, "
        "and not the controller's. Let `inter.broker.listener.name` be one of the advertised names.",
        program_messages(
            broker=(
                "requirement failed: inter.broker.listener.name must be a listener name defined in advertised.listeners.",
                "requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined in",
                "requirement failed: No security protocol defined for listener …",
                "No security protocol defined for listener …",
                "requirement failed: Each listener must have a different port",
                "requirement failed: Each listener must have a different name",
                "requirement failed: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0.",
                "requirement failed: controller.listener.names must contain at least one value",
                "requirement failed: The advertised.listeners config must not contain KRaft controller listeners",
                "The advertised.listeners config must not contain KRaft controller listeners",
                "There must be at least one broker advertised listener",
                "Error creating broker listeners from '…': …",
                "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set",
                "Socket server failed to bind to …",
                "Configured broker.id … doesn't match stored broker.id … in meta.properties",
            ),
        ),
    ),
    Remedy(
        Fault.GROUP,
        "The consumer group has moved on without this member",
        "A member was too slow between two polls, did not send heartbeats, or another member has the same "
        "`group.instance.id`. The group has given its partitions to others.",
        "`kafka-consumer-groups --describe --group GROUP --bootstrap-server HOST:PORT` shows the members.",
        "Process fewer records for each poll (`max.poll.records`), or raise `max.poll.interval.ms`. Give each member its "
        "own `group.instance.id`. A single rebalance needs no action.",
        program_messages(
            java=(
                "CommitFailedException: Offset commit cannot be completed since the consumer",
                "CommitFailedException: …",
                "RebalanceInProgressException: …",
                "FencedInstanceIdException: …",
                "UnknownMemberIdException: …",
                "IllegalGenerationException: …",
                "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer",
                "InconsistentGroupProtocolException: …",
                "OffsetOutOfRangeException: …",
                "NoOffsetForPartitionException: …",
            ),
            librdkafka=(
                "Application maximum poll interval (…ms) exceeded by …ms",
                "Local: Maximum application poll interval (max.poll.interval.ms) exceeded",
                "Broker: Unknown member",
                "Broker: Group rebalance in progress",
                "Broker: Specified group generation id is not valid",
                "Broker: Inconsistent group protocol",
                "Broker: Static consumer fenced by other consumer with same group.instance.id",
                "Broker: Offset out of range",
            ),
            kafka_python=(
                "CommitFailedError",
                "RebalanceInProgressError",
                "UnknownMemberIdError",
                "IllegalGenerationError",
                "FencedInstanceIdError",
                "OffsetOutOfRangeError",
                "Heartbeat failed for group … because it is rebalancing",
                "Heartbeat session expired - marking coordinator dead",
            ),
            kafkajs=("The coordinator is not aware of this member", "The group is rebalancing, so a rejoin is needed"),
            franz_go=(
                "UNKNOWN_MEMBER_ID: …",
                "REBALANCE_IN_PROGRESS: …",
                "ILLEGAL_GENERATION: …",
                "FENCED_INSTANCE_ID: …",
            ),
            sarama=(
                "kafka server: The provided member is not known in the current generation",
                "kafka server: A rebalance for the group is in progress",
                "kafka server: The requested offset is outside the range of offsets maintained by the server",
            ),
        ),
    ),
    Remedy(
        Fault.TRANSACTION,
        "The producer's transaction or sequence is no longer valid",
        "Another producer has the same `transactional.id`, the transaction took longer than its timeout, or the broker "
        "has forgotten the producer's id or sequence.",
        "`kafka-transactions --bootstrap-server HOST:PORT describe --transactional-id ID` shows the transaction.",
        "Give each producer its own `transactional.id`. Raise `transaction.timeout.ms`, up to "
        "`transaction.max.timeout.ms` of the broker. Close the producer and create it again.",
        program_messages(
            java=(
                "ProducerFencedException: …",
                "InvalidProducerEpochException: …",
                "OutOfOrderSequenceException: …",
                "UnknownProducerIdException: …",
                "InvalidTxnStateException: …",
                "InvalidTxnTimeoutException: …",
                "InvalidPidMappingException: …",
                "ConcurrentTransactionsException: …",
            ),
            librdkafka=(
                "Local: This instance has been fenced by a newer instance",
                "Broker: Producer attempted an operation with an old epoch",
                "Broker: There is a newer producer with the same transactionalId which fences the current one",
                "Broker: Broker received an out of order sequence number",
                "Broker: Unknown Producer Id",
                "Broker: Producer attempted a transactional operation in an invalid state",
            ),
            kafka_python=(
                "ProducerFencedError",
                "InvalidProducerEpochError",
                "OutOfOrderSequenceNumberError",
                "UnknownProducerIdError",
                "InvalidTxnStateError",
            ),
            franz_go=("PRODUCER_FENCED: …", "INVALID_PRODUCER_EPOCH: …", "OUT_OF_ORDER_SEQUENCE_NUMBER: …"),
            sarama=(
                "kafka server: The broker received an out of order sequence number",
                "kafka server: Producer attempted an operation with an old epoch",
            ),
        ),
    ),
    Remedy(
        Fault.KPROXY,
        "kproxy itself printed this message",
        "The message is kproxy's own.",
        "kproxy's log has more lines beside it, and `kproxy wait --timeout 0` shows whether kproxy is ready.",
        "Follow the advice for this message in the table of kproxy's messages.",
        (),
    ),
)
