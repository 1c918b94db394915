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
Note: The topic exists already.
java!> TopicExistsException: …
java!> Topic '…' already exists
librdkafka!> Topic '…' already exists
any?> TOPIC_ALREADY_EXISTS
Note: Kafka Streams cannot use its local state, or the topology is not the one of its topics.
java!> Failed to lock the state directory
java!> Existing internal topic … has invalid partitions
java> InvalidStateStoreException
java!> TaskCorruptedException
Note: The name of a topic is not allowed: at most 249 letters, digits, `.`, `_` and `-`.
java!> is illegal, it contains a character other than ASCII alphanumerics
java!> Topic name is illegal
Note: A topic that is compacted takes no record without a key.
java!> Compacted topic cannot accept message without key
broker!> InvalidRecordException
Note: An MBean is registered twice in one process; it changes nothing for the connection.
any?> InstanceAlreadyExistsException: kafka.
java!> Error registering AppInfo mbean
""")
