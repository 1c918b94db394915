"""Errors of programs around Kafka that are not about reaching Kafka: each is named in one line, and no more.

Sources: the messages of Apache Kafka, Schema Registry, Debezium and Kafka Connect, as their repositories have them.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== not-about-reaching-kafka: It is not about reaching Kafka
The message has another subject than the connection between a client and its brokers.
Check: The message itself says what has failed.
Fix: Ask the program that prints it: kproxy knows only connections.
Note: ZooKeeper's client does not reach ZooKeeper (by default at port 2181), and that is not Kafka. A broker with
`zookeeper.connect` needs it first: start ZooKeeper, and see whether its name leads to it from the broker's own container.
any!> Session 0x0 for server
any!> Client session timed out, have not heard from server
any!> org.apache.zookeeper.client.StaticHostProvider
any!> Error while waiting for Zookeeper client to connect to the server
any!> Timed out waiting for connection to Zookeeper server
any!> Session 0x0 for sever
any!> org.I0Itec.zkclient.exception.ZkTimeoutException
any!> Unable to connect to ZooKeeper
Note: ZooKeeper refuses the login of its client: see the section `Client` of the JAAS file, and with Kerberos the principal of
ZooKeeper (`zookeeper/HOST`).
any!> org.apache.zookeeper.client.ZooKeeperSaslClient
any!> received SASL token. Zookeeper Client will go to AUTH_FAILED state
any!> SASL authentication with Zookeeper Quorum member failed
any!> KeeperErrorCode = AuthFailed
any!> sname is zookeeper/
any!> but the Zookeeper client code does not currently support obtaining a password
Note: ZooKeeper forbids the operation: its nodes belong to another login (`zookeeper.set.acl`).
any!> KeeperErrorCode = NoAuth
Note: A disk of the broker is full.
any?> No space left on device
any?> There is not enough space on the disk
broker!> Error while appending records to … in dir
Note: A disk or a file of the broker cannot be used.
broker!> org.apache.kafka.common.errors.KafkaStorageException: Error while writing
any?> Read-only file system
broker> java.io.IOException: Input/output error
broker> java.io.IOException: Map failed
broker!> Found a corrupted index file
broker> CorruptIndexException
Note: Kubernetes has given the Service of a listener no address: a listener of the type `loadbalancer` needs a load
balancer in the cluster. `kubectl get service` shows the pending one.
broker!> in namespace … to be addressable
broker!> -external-bootstrap in namespace
Note: The operator for Confluent Platform waits for pods of Kafka or of its controllers: their events and logs have the reason.
broker!> waiting for at-least one kafka pod availability
broker!> waiting for at-least one kRaft controller pod availability
Note: The operator waits for a resource of Kubernetes: the events and the log of its pods have the reason.
broker!> io.strimzi.operator.common.operator.resource.TimeoutException: …
Note: Schema Registry answers about a schema or a subject, and not about a connection.
schema-registry> error code: 40401
schema-registry> error code: 40402
schema-registry> error code: 40403
schema-registry> error code: 42201
schema-registry!> schemaregistry.client.rest.exceptions.RestClientException
schema-registry!> Schema being registered is incompatible with an earlier schema
schema-registry!> Error retrieving Avro schema for id
schema-registry!> Error retrieving Avro unknown schema for id
schema-registry!> Error registering Avro schema
schema-registry!> Error deserializing Avro message for id
Note: The topic has fewer replicas than Schema Registry wants, because there are fewer brokers: it works. In production, add
brokers and replicas.
any!> which is less than the desired one of …crucial to add more brokers
schema-registry> which is less than the desired one of
schema-registry!> The replication factor of the …topic … is less than the desired one of
schema-registry!> The replication factor of topic … is less than the desired one of
Note: The broker has failed to process the request, and says no more: its own log has the reason.
java> UnknownServerException: …
java!> The server experienced an unexpected error when processing the request
java!> Unknown server error while fetching offset
librdkafka> Broker: Unknown error
librdkafka> Unknown broker error
kafka-python> UnknownError
sarama!> kafka server: Unexpected (unknown?) server error
Note: A record, a batch or a file of the log is damaged.
java!> CorruptRecordException: …
librdkafka> Broker: Invalid message
librdkafka> Local: Bad message format
librdkafka> Local: Invalid compressed data
librdkafka> Broker: Broker failed to validate record
librdkafka> Broker: Disk error when trying to access log file on disk
sarama!> kafka server: Message contents does not match its CRC
Note: The client itself has ended: its own program has closed it, or still used it afterwards.
librdkafka> Local: Broker handle destroyed
librdkafka> : Client is terminating
librdkafka> Local: Broker handle destroyed for termination
librdkafka> Local: Broker handle destroyed without termination
librdkafka> Local: Purged in queue
librdkafka> Local: Purged in flight
java!> Cannot perform operation after producer has been closed
java!> This consumer has already been closed
java!> KafkaConsumer is not safe for multi-threaded access
franz-go!> client closed
sarama!> kafka: tried to use a client that was closed
kafkajs!> The producer is disconnected
Note: The program's output selects no topic for the event.
beats!> no topic could be selected
Note: The bytes of a record are not in the form that the deserializer expects.
java!> SerializationException: Unknown magic byte!
java!> SerializationException: …
java!> RecordDeserializationException
java!> Error deserializing key/value for partition
java> Failed to deserialize
any?> Converting byte[] to Kafka Connect data failed due to serialization error
connect> DataException: …
connect!> JsonConverter with schemas.enable requires "schema" and "payload" fields
any?> com.fasterxml.jackson.core.JsonParseException
librdkafka!> KafkaError{code=_VALUE_DESERIALIZATION
librdkafka!> KafkaError{code=_KEY_DESERIALIZATION
librdkafka> Local: Key deserialization error
librdkafka> Local: Value deserialization error
librdkafka> Local: Key serialization error
librdkafka> Local: Value serialization error
Note: The connector has a fault with its database, and not with Kafka.
connect!> Cannot read the binlog filename and position
connect> SHOW MASTER STATUS
connect> SHOW BINARY LOG STATUS
connect> Failed to create replication slot
connect> replication slot
connect!> The connector is trying to read binlog starting at
connect!> The db history topic or its content is fully or partially missing
connect!> The db history topic is missing
connect!> The MySQL server is not configured to use a ROW binlog_format
connect> Communications link failure
connect!> for configuration connection.url
connect> io.debezium.jdbc
Note: The connector's own configuration or class is wrong, and not the connection to Kafka.
connect!> Failed to find any class that implements Connector
connect!> Connector configuration is invalid and contains the following
connect!> Conflicting operation: connector … already exists
connect!> Connector … already exists
Note: The program has too little memory.
any?> There is insufficient memory for the Java Runtime Environment to continue
any?> java.lang.OutOfMemoryError: Metaspace
any?> GC overhead limit exceeded
Note: The program is built for another version of Java.
any?> UnsupportedClassVersionError
any?> has been compiled by a more recent version of the Java Runtime
Note: Two copies of kafka-clients are on the class path, in a plugin, a fat jar or the container's library directory,
and two class loaders have loaded them.
java!> is not an instance of org.apache.kafka.common.serialization
java!> cannot be cast to class org.apache.kafka.common.serialization
Note: The start script is for another version of Java than the one that is installed.
any?> Unrecognized VM option
any?> Could not create the Java Virtual Machine
Note: A channel of the application has no configuration, or its name is misspelt (`mp.messaging.incoming.NAME` and
`mp.messaging.outgoing.NAME`), so the application does not start.
java!> SRMSG00019
java!> Unable to connect an emitter with the channel
java!> SRMSG00018
java!> SRMSG00072
java!> No channel found for name
Note: Testcontainers has not been able to start a container: the container's own log has the reason.
any?> org.testcontainers.containers.ContainerLaunchException
any?> Timed out waiting for container port to open
Note: The port of JMX is in use: in a broker's container, call the tools with an empty `JMX_PORT` and `KAFKA_JMX_OPTS`.
any?> AgentConfigurationError
any?> java.rmi.server.ExportException: Port already in use
Note: The program asks Redpanda's admin server (port 9644), and not a Kafka listener.
franz-go!> failed to test admin client connectivity
franz-go!> testing admin client connectivity
franz-go!> unable to issue request to any of
franz-go!> unable to initialize admin client
Note: The REST server of ksqlDB itself does not answer; it is not Kafka.
java!> does not appear to be a valid KSQL server
Note: The worker has no answer from another worker of its Connect cluster: see `rest.advertised.host.name`.
connect!> Error trying to forward REST request
connect!> IO Error trying to forward REST request
connect!> Request cannot be completed because a rebalance is expected
connect!> Cannot complete request momentarily due to stale configuration
Note: An instance of Schema Registry cannot forward a request to its leader: see `host.name` and `inter.instance.listener.name`.
schema-registry!> Error while forwarding register schema request
schema-registry!> Unexpected error while forwarding the registering schema request
Note: The records were deleted before the query has read them: by retention, or because the topic was made again. Raise
`retention.ms` or let the query run more often. With `failOnDataLoss` `false` it continues without them.
spark!> Some data may have been lost because they are not available in Kafka any more
spark!> Cannot fetch offset …(GroupId: …TopicPartition: …
Note: The topic exists already.
librdkafka> Broker: Topic already exists
kafka-python> TopicAlreadyExistsError
kafkajs!> Topic with this name already exists
sarama!> kafka server: Topic with this name already exists
java!> TopicExistsException: …
java!> Topic '…' already exists
librdkafka!> Topic '…' already exists
any?> TOPIC_ALREADY_EXISTS
Note: Kafka Streams cannot use its local state, or the topology is not the one of its topics.
java!> Failed to lock the state directory
java!> Existing internal topic … has invalid partitions
java> InvalidStateStoreException
java!> TaskCorruptedException
Note: The name of a topic is empty or not allowed: it has 1 to 249 letters, digits, `.`, `_` and `-`.
java> Error while fetching metadata with correlation id … : {…=INVALID_TOPIC_EXCEPTION}
java!> The metadata response from the cluster reported a recoverable issue with correlation id … : {…=INVALID_TOPIC_EXCEPTION}
java!> Metadata response reported invalid topics
java!> InvalidTopicException: …
java!> is illegal, it contains a character other than ASCII alphanumerics
java!> Topic name is illegal
Note: A topic that is compacted takes no record without a key.
java!> Compacted topic cannot accept message without key
broker!> InvalidRecordException
Note: An MBean is registered twice in one process; it changes nothing for the connection.
any?> InstanceAlreadyExistsException: kafka.
java!> Error registering AppInfo mbean
""")
