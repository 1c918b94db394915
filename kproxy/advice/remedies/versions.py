"""Faults of versions and limits."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== broker-too-old: The broker is too old for the client
The client needs a request, or a version of a request, that this broker does not support yet. The Java client 4.0
needs brokers 2.1 or later.
Check: `kafka-broker-api-versions --bootstrap-server HOST:PORT` shows the versions that the broker supports.
Fix: Upgrade the broker, use an older client, or turn off the feature (for example `enable.idempotence=false`,
`group.protocol=classic`).
java!> does not support … with version in range [… The supported range is
java> UnsupportedVersionException: The node does not support …
java> UnsupportedVersionException: The broker does not support …
java> UnsupportedVersionException: …
java> The version of API is not supported.
librdkafka> Local: Required feature not supported by broker
librdkafka> Broker: API version not supported
librdkafka> ApiVersionRequest v… failed due to … (lower-version request not supported by broker)
kafka-python> UnsupportedVersionError
kafka-python> IncompatibleBrokerVersion
aiokafka> UnsupportedVersionError
aiokafka> IncompatibleBrokerVersion
kafkajs> The version of API is not supported
kafkajs> KafkaJSServerDoesNotSupportApiKey
franz-go> broker is too old; the broker has already indicated it will not know how to handle the request
sarama> kafka server: The version of API is not supported

== broker-too-new: The broker is too new for the client
The broker no longer supports the versions of requests that the client sends. Kafka 4.0 has removed the versions from
before Kafka 2.1 (KIP-896).
Check: The broker's log says `UnsupportedVersionException` or `InvalidRequestException` for the client's connection.
Fix: Upgrade the client: Java 2.1, librdkafka 1.8.2, kafka-python 2.0.3, kafkajs 2.2.4 or later.
java> UnsupportedVersionException: …
java> The version of API is not supported.
librdkafka> Broker: API version not supported
kafka-python> UnsupportedVersionError
kafkajs> The version of API is not supported
sarama> kafka server: The version of API is not supported
broker> UnsupportedVersionException: Received request for api with key … (…) and unsupported version …
broker> InvalidRequestException: Received request for api with key … (…) and unsupported version …
broker> Received request api key … with version … which is not enabled
broker> UnsupportedVersionException: Can't read version … of …
broker> UnsupportedVersionException: Can't write version … of …
java!> does not support … with version in range [… The supported range is
broker> Error getting request for apiKey: …, apiVersion: …
Note: Share groups were a preview in Kafka 4.0 (KIP-932), and those of 4.1 use other versions of the requests: use a
client of the broker's version.
java!> does not support SHARE_… with version in range [… The supported range is
Note:

== client-too-old: The client does not understand the broker's answer
The client is older than the broker, and receives something that it does not support: an error code, a mechanism or a
version of an answer.
Check: The message names a number that the client does not know.
Fix: Upgrade the client.
java> Unexpected error code: …
librdkafka> Unsupported MessageSet magic byte
kafka-python> UnrecognizedBrokerError
franz-go> client is too old; this client does not know what to do with this request

== frame-size: A message has an impossible size
Kafka begins each message with its size. A size beyond the limit is mostly no size, but the first four bytes of
another protocol: TLS, HTTP, SSH. Otherwise the limit is too low for the requests or answers in use.
Check: Write the number in hexadecimal: 0x16 at the start is TLS, 0x48545450 is `HTTP`. `kproxy explain` does it.
Fix: If it is another protocol, correct the port or `security.protocol`. If it is a real size, raise
`socket.request.max.bytes` of the broker or `receive.message.max.bytes` of the client.
java> InvalidReceiveException: Invalid receive (size = … larger than …)
java> InvalidReceiveException: Invalid receive (size = …)
librdkafka> Receive failed: Invalid response size … (0..…): increase receive.message.max.bytes
librdkafka> Receive failed: Invalid message size … (0..…): increase receive.message.max.bytes
librdkafka> Invalid frame size …
kafka-python> InvalidReceiveError: Invalid frame length: …
kafka-python> InvalidReceiveError
franz-go> invalid large response size … > limit …
franz-go> invalid negative response size …
sarama> kafka: error decoding packet: message of length … too large or too small
broker> Unexpected error from …; closing connection
broker> Invalid receive (size = … larger than …)
broker> InvalidReceiveException: Invalid receive (size = -…

== record-too-large: A record or batch is larger than a limit
The producer, the topic or the broker has a limit, and the record or the batch is larger.
Check: `kafka-configs --describe --topic TOPIC --bootstrap-server HOST:PORT` shows `max.message.bytes`.
Fix: Raise `max.request.size` of the producer (`message.max.bytes` in librdkafka), `max.message.bytes` of the topic
and `fetch.max.bytes` of consumers. Or compress, or send smaller records.
java> RecordTooLargeException: The message is … bytes when serialized which is larger than …
java> RecordTooLargeException: The request included a message larger than the max message size the server will
java> RecordTooLargeException: …
java> RecordBatchTooLargeException: …
librdkafka> Broker: Message size too large
librdkafka> Broker: Message batch larger than configured server segment size
kafka-python> MessageSizeTooLargeError
kafka-python> MessageTooLargeError
kafka-python> RecordBatchTooLargeError
kafka-python> RecordListTooLargeError
kafkajs> The request included a message larger than the max message size the server will accept
franz-go> MESSAGE_TOO_LARGE: …
sarama> kafka server: Message was too large, server rejected it to avoid allocation error
sarama> kafka: invalid configuration (Attempt to produce message larger than configured Producer.MaxMessageBytes
""")
