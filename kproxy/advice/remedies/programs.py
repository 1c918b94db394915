"""Messages of more clients and of programs that contain one.

Sources: dialer.go, reader.go and error.go of segmentio/kafka-go; cluster.rb, connection.rb and broker.rb of ruby-kafka;
error.rs and messenger.rs of rskafka; kafkaClient.js of kafka-node; broker.go and errors.go of Sarama; rdkafka_broker.c
and rdkafka_conf.c of librdkafka; connect/runtime of Apache Kafka; Debezium's KafkaSchemaHistory; KafkaStore of Schema
Registry; libbeat/outputs/kafka of Beats.
"""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_messages

_UNREACHABLE = "name-not-resolved port-closed filtered login-needed silent closed"

MESSAGES = parse_messages(
    f"""
== {_UNREACHABLE}
Note: The worker has not reached the brokers that it learned of, or too few brokers are up for the replication factor
of the topic. Try the same with `kafka-topics --list` and the worker's own settings.
connect!> Failed to connect to and describe Kafka cluster
connect!> Timed out while checking for or creating topic
connect!> Timed out while checking for or creating topic(s)
connect!> Could not look up partition metadata for offset backing store topic
connect!> Failed to list offsets for topic-partitions
connect!> Unable to initialize ReplicatedTopic
Note: Dapr's component has not connected to its brokers in time; Dapr's log at level `debug` has Sarama's reasons.
sarama?> init timeout for component
Note: MirrorMaker could not list the consumer groups of the source cluster in time: it does not reach one of its
brokers, or the cluster has very many groups. `admin.timeout.ms` of the checkpoint connector gives it more time.
connect!> Timeout while loading consumer groups
Note: Confluent's licensed connectors keep their licence in a topic, with a client of their own: it needs
`confluent.topic.bootstrap.servers`, and the settings of TLS and SASL again below `confluent.topic.`.
connect!> Timed out while checking for or creating topic(s) '_confluent-command'
connect!> -license-manager] Metadata update failed
Note: Debezium uses a client of its own for its schema history: `schema.history.internal.kafka.bootstrap.servers`, and
the settings of TLS and SASL again below `schema.history.internal.producer.` and `.consumer.`.
connect!> Creation of database schema history topic failed, please create the topic manually
connect!> Creation of database history topic failed, please create the topic manually
connect!> Creation of database … history topic failed
connect!> Unable to get cluster default replication factor
Note: Schema Registry keeps its schemas in a topic, and cannot reach the brokers. See
`kafkastore.bootstrap.servers` and `kafkastore.security.protocol`.
schema-registry!> Error initializing kafka store while initializing schema registry
schema-registry!> Failed trying to create or validate schema topic configuration
schema-registry!> Failed to write Noop record to kafka store
schema-registry!> KafkaStoreReaderThread failed to reach target offset within the timeout interval
schema-registry!> Timed out trying to create or validate schema topic configuration
schema-registry!> Error starting the schema registry
Note: The server of ksqlDB cannot reach the brokers: see `bootstrap.servers` (`KSQL_BOOTSTRAP_SERVERS`), and its settings of TLS and
SASL. From a container, localhost is the container itself.
java!> Failed to get Kafka cluster information
java!> Could not get Kafka cluster configuration
java!> Could not fetch broker information. KSQL cannot initialize
java!> Failed to start KSQL
Note: The program waits for brokers at its start and has found none in time.
any!> Timed out waiting for Kafka to be ready
any!> cub kafka-ready
any!> could not get any available broker from
any!> Expected … brokers but found only … Trying to query Kafka for metadata again
any!> Error while getting broker list
Note: A tool with a user interface has its own client: `bootstrap.servers` must be right from its container, and not
from your machine.
java!> Error while creating AdminClient for Cluster
java!> Error while creating AdminClient for the cluster
java!> Failed to collect cluster … info
java!> AdminClient not initialized yet, cannot process request
Note: ClickHouse's consumer has been given no partition: it does not reach the brokers or the group's coordinator (lines of
`StorageKafka` with `rdk:` have the reason), or the group has more consumers than the topic has partitions.
librdkafka!> Can't get assignment
Note:
java!> Sending batch to Kafka failed. Will retry after a delay
Note: This is the producer or consumer of Kafka 0.8, which brokers since Kafka 4.0 no longer understand.
java!> Failed to collate messages by topic
java!> Failed to fetch topic metadata for topic
java!> fetching topic metadata for topics
java!> FailedToSendMessageException
java!> kafka.common.KafkaException: fetching topic metadata
java!> kafka.common.BrokerEndPointNotAvailableException
java!> kafka.network.BlockingChannel
java!> kafka.consumer.SimpleConsumer
java!> KafkaTopicOffsetGetter exception
Note: None of the servers in the brackets has answered.
java!> Request METADATA failed on brokers List(
java!> Request METADATA failed on brokers
Note:
java!> Error sending fetch request
java!> org.apache.kafka.common.errors.DisconnectException
java!> Failed to get offsets by times in
java!> The server disconnected before a response was received
any!> It was not possible to establish a connection for metadata with the brokers
any!> NoHostReachable
any!> No host reachable
kafka-python!> Timeout waiting for future
any!> Not has broker can connection
franz-go!> unable to open connection to broker
franz-go> unable to dial
franz-go!> unable to request metadata
franz-go!> unable to create topics
franz-go!> failed to request metadata
franz-go!> failed to test kafka connection
any!> couldn't connect to redpanda at
Note: The client has failed several times in a row, and waits now. The reason is in an earlier line.
beats!> circuit breaker is open
Note:
kafka-node!> Unable to find available brokers to try
kafka-node!> BrokerNotAvailableError: Broker not available
kafka-node!> refreshBrokerMetadata failed
kafka-node?> Connection timeout of …ms exceeded
kafka-node!> Broker not available (loadMetadataForTopics)
ruby-kafka!> Could not connect to any of the seed brokers
ruby-kafka> Failed to fetch metadata from
ruby-kafka> Timed out while trying to connect to
ruby-kafka!> Kafka::ConnectionError
ruby-kafka!> Kafka::DeliveryFailed
rskafka!> failed to connect to any broker
rskafka!> Failed to connect to any broker, backing off
rskafka!> all retries failed: Retry exceeded deadline
rskafka> error connecting to broker
kafka-go> failed to dial: failed to open connection to
kafka-go!> fetching message: failed to dial
kafka-go> failed to dial
kafka-go!> failed to dial leader
kafka-go!> Failed to establish connection to the consumer group coordinator
kafka-go!> failed to read from current broker
librdkafka> Local: Message timed out
librdkafka!> MessageTimedOut
librdkafka!> Local_MsgTimedOut
librdkafka> Local: Broker transport failure
librdkafka!> Failed to get metadata: Local: Broker transport failure
librdkafka!> Failed to acquire metadata: Local: Broker transport failure
librdkafka!> KafkaError{{code=_TRANSPORT
librdkafka!> broker transport failure
librdkafka!> Error: all broker connections are down
librdkafka?> code: -195
librdkafka?> code: -187
librdkafka?> code: -192
librdkafka!> KafkaError{{code=_ALL_BROKERS_DOWN
librdkafka!> BrokerTransportFailure
librdkafka!> AllBrokersDown
librdkafka!> Local_Transport
librdkafka!> Local_AllBrokersDown
librdkafka!> Local: All broker connections are down
librdkafka> …/… brokers are down
librdkafka!> all broker connections are down
kafkajs!> KafkaJSNumberOfRetriesExceeded
kafkajs!> KafkaJSConnectionError
kafkajs!> Failed to connect to seed broker, trying another broker from the list
kafkajs!> Failed to connect to broker, reconnecting
kafkajs!> KafkaJSBrokerNotFound
kafkajs!> KafkaJSLockTimeout
kafka-node!> NoKafkaConnectionError
kafka-python!> Failed to update metadata after
aiokafka!> No connection to node with id
kafka-python> connection failed -- refreshing metadata
kafka-python> NodeNotReadyError
beats!> client has run out of available brokers
java!> Fetching topic metadata with correlation id
java!> Failed to get metadata for topics
java!> Timed out waiting to send the call
java!> because the node is taking too long to become ready
java!> Failed to allocate … bytes within the configured max blocking time
java!> Failed to list subscribed topic partitions due to
java!> Failed to get offsets from brokers
java> Node … disconnected

== name-not-resolved dns-silent port-closed filtered silent
Note: A broker or the controller does not reach another broker at the address that this one advertises for the listener in
`inter.broker.listener.name`. Each broker must be able to resolve and reach it, from its own container or pod too.
broker!> Controller …'s connection to broker … was unsuccessful
broker!> kafka.controller.RequestSendThread
broker!> targetBrokerId=…Error connecting to node
broker!> java.io.IOException: Connection to … (id: … rack: …) failed
java> java.io.IOException: Connection to … (id: … rack: …) failed

== port-closed filtered
Note: A broker or the controller does not reach another broker at the address that this one advertises for the listener in
`inter.broker.listener.name`. Each broker must be able to resolve and reach it, from its own container or pod too.
broker!> targetBrokerId=…Connection to node … could not be established

== port-closed
Note: Another proxy for Kafka does not reach the broker at the address that the broker advertises: advertise an address
that the proxy can reach. 127.0.0.1 is the proxy's own machine or container.
proxy!> Connection to target cluster on … failed, closing inbound channel
proxy!> Connection to target cluster on … failed
proxy!> Outbound connect error, closing inbound channel

== configuration
Note: The library ruby-kafka sends passwords over TLS only: give it a CA (`ssl_ca_cert`, or `ssl_ca_certs_from_system`), or set
`sasl_over_ssl` to false for a listener of SASL_PLAINTEXT.
ruby-kafka!> SASL authentication requires that SSL is configured
ruby-kafka!> Kafka::Error: SSL must be enabled

== configuration
Note: Another proxy for Kafka tells clients the wildcard address, which is for listening: give each mapping the address
that clients connect to as its third part (`--bootstrap-server-mapping BROKER,LISTEN,ADVERTISED`).
proxy!> Address mappings broker=…, advertised=0.0.0.0

== not-authorized
Note: AWS Lambda logs in, and may not read: the role, or the user of the event source, lacks rights on the topic or the group.
any!> Cluster failed to authorize Lambda

== client-certificate-refused credentials-refused
Note: The broker takes neither the certificate nor the login that AWS Lambda has from the secret of its event source.
any!> Server failed to authenticate Lambda

== certificate-untrusted
Note: AWS Lambda does not trust the broker's certificate: give the event source a secret with the broker's CA.
any!> Lambda failed to authenticate server

== overloaded silent
Note: The worker's producer has not delivered its records in `offset.flush.timeout.ms`: the brokers answer too slowly, or
not at all. Look for the lines about connections before it.
connect!> timed out while waiting for producer to flush outstanding
connect!> Failed to flush, timed out while waiting for producer
connect!> Failed to commit offsets
connect!> Commit of offsets timed out

== not-kafka plaintext-to-tls
kafka-go!> multiple Read calls return no data or error

== filtered
kafkajs!> trying another broker from the list: Connection timeout
kafkajs!> [Connection] Connection timeout
kafkajs!> kafkajs: Connection timeout

== silent filtered
librdkafka> Local: Timed out
librdkafka!> KafkaError{{code=_TIMED_OUT
kafka-go> context deadline exceeded
any*> context deadline exceeded
kafka-go!> fetching message: context deadline exceeded
kafka-node?> Request timed out after …ms
ruby-kafka> Timed out while waiting for response

== sasl-mechanism
Note: The answer is not the one of this mechanism: the broker speaks Kerberos only, or is no Kafka broker of this version.
java!> server may be expecting only GSSAPI tokens

== plaintext-to-tls login-needed closed
franz-go!> brokers keep immediately closing connections
any!> Klife.Connection.Controller.negotiate_api_versions

== credentials-refused
Note: The server answers the login with an empty token. Azure Event Hubs does so if the connection string is wrong, or if
the user is not `$ConnectionString`, for example because a shell or a file has taken the `$` for a variable.
java!> Error reading field 'auth_bytes': Bytes size -1 cannot be negative
java!> non-nullable field authBytes was serialized as null

== credentials-refused sasl-mechanism not-kafka
Note: The client has begun to log in, and cannot read the server's answer.
java!> Invalid SASL mechanism response, server may be expecting a different protocol

== closed plaintext-to-tls login-needed not-kafka credentials-refused
Note: The client and the listener differ in TLS or SASL, or the broker is not the one that is meant.
beats!> kafka: couldn't fetch broker metadata
Note:
kafka-go!> OriginalError: %!w(*errors.errorString=&{{EOF}})
ruby-kafka> Connection error EOFError
rskafka> Connection is poisoned
kafka-node!> Kafka server has closed connection
kafka-node!> Kafka server has closed connnection
kafka-go!> could not successfully authenticate to … with SASL: SASL handshake failed: …
kafka-go> SASL handshake failed
sarama!> Failed to read SASL handshake header
sarama!> Failed to send SASL handshake
sarama!> client/metadata no available broker to send metadata request to
librdkafka!> Disconnected: SSL connection closed by peer
sarama!> Error while performing SASL handshake
franz-go> unable to initialize sasl; … EOF
franz-go!> unable to request api versions
franz-go> read from broker errored, killing connection
franz-go> killing connection after … successful responses

== closed plaintext-to-tls login-needed
Note: The server has closed the connection. If it was in use, the broker was restarted, or the connection was idle for
long, and librdkafka connects again by itself.
librdkafka!> Local: Broker transport failure: (errno: Success)
librdkafka!> Local: Broker transport failure: (errno: Operation now in progress)
librdkafka!> Local: Broker transport failure: (errno: Resource temporarily unavailable)
librdkafka!> Local: Broker transport failure: (errno: No error)
librdkafka!> Local: Broker transport failure: (errno: Undefined error: 0)

== plaintext-to-tls login-needed not-kafka broker-too-old
Note: The client has asked in one version after the other, and each time the server has ended the connection. Only a very
old broker does so because of the version.
kafka-python!> UnrecognizedBrokerVersion

== not-kafka broker-too-old
Note: The answer to the first request is none of Kafka's: another program listens there, or a broker before version 0.10.
librdkafka!> ApiVersionRequest failed: Local: Bad message format

== plaintext-to-tls
kafka-go!> broker appears to be expecting TLS
proxy!> possible cause: using plain connection instead of TLS

== tls-to-plaintext closed
kafka-go> failed to dial: EOF
franz-go!> broker closed the connection immediately after a dial

== plaintext-to-tls login-needed closed
franz-go!> broker closed the connection immediately after a request was issued

== login-needed plaintext-to-tls
franz-go> killing connection after 0 successful responses

== login-needed credentials-refused closed
franz-go!> the broker is repeatedly giving us sasl lifetimes that are too short

== tls-to-plaintext closed credentials-refused
Note: The connection ends during the login or the TLS handshake. The reasons that the client lists are guesses.
java!> Connection to node … terminated during authentication
java!> terminated during authentication

== credentials-refused
kafka-go> could not successfully authenticate to … with SASL
kafka-go!> [58] SASL Authentication Failed
rskafka!> Sasl session error

== sasl-mechanism
librdkafka!> Unsupported SASL mechanism: …
kafka-go!> Unsupported SASL Mechanism
rskafka!> Invalid sasl mechanism
ruby-kafka!> Kafka::Error: … is not supported.
ruby-kafka!> Kafka::Error (… is not supported.
"""
)
