"""Faults of versions and limits."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import Remedy, program_messages
from kproxy.base.faults import Fault

TABLE: tuple[Remedy, ...] = (
    Remedy(
        Fault.BROKER_TOO_OLD,
        "The broker is too old for the client",
        "The client needs a request, or a version of a request, that this broker does not support yet. The Java client "
        "4.0 needs brokers 2.1 or later.",
        "`kafka-broker-api-versions --bootstrap-server HOST:PORT` shows the versions that the broker supports.",
        "Upgrade the broker, use an older client, or turn off the feature (for example `enable.idempotence=false`, "
        "`group.protocol=classic`).",
        program_messages(
            java=(
                "UnsupportedVersionException: The node does not support …",
                "UnsupportedVersionException: The broker does not support …",
                "UnsupportedVersionException: …",
                "The version of API is not supported.",
            ),
            librdkafka=(
                "Local: Required feature not supported by broker",
                "Broker: API version not supported",
                "ApiVersionRequest v… failed due to … (lower-version request not supported by broker)",
            ),
            kafka_python=("UnsupportedVersionError", "IncompatibleBrokerVersion", "UnrecognizedBrokerVersion"),
            aiokafka=("UnsupportedVersionError", "IncompatibleBrokerVersion"),
            kafkajs=("The version of API is not supported", "KafkaJSServerDoesNotSupportApiKey"),
            franz_go=(
                "broker is too old; the broker has already indicated it will not know how to handle the request",
            ),
            sarama=("kafka server: The version of API is not supported",),
        ),
    ),
    Remedy(
        Fault.BROKER_TOO_NEW,
        "The broker is too new for the client",
        "The broker no longer supports the versions of requests that the client sends. Kafka 4.0 has removed the versions "
        "from before Kafka 2.1 (KIP-896).",
        "The broker's log says `UnsupportedVersionException` or `InvalidRequestException` for the client's connection.",
        "Upgrade the client: Java 2.1, librdkafka 1.8.2, kafka-python 2.0.3, kafkajs 2.2.4 or later.",
        program_messages(
            java=("UnsupportedVersionException: …", "The version of API is not supported."),
            librdkafka=("Broker: API version not supported",),
            kafka_python=("UnsupportedVersionError", "UnrecognizedBrokerVersion"),
            kafkajs=("The version of API is not supported",),
            sarama=("kafka server: The version of API is not supported",),
            broker=(
                "UnsupportedVersionException: Received request for api with key … (…) and unsupported version …",
                "InvalidRequestException: Received request for api with key … (…) and unsupported version …",
                "Error getting request for apiKey: …, apiVersion: …",
            ),
        ),
    ),
    Remedy(
        Fault.CLIENT_TOO_OLD,
        "The client does not understand the broker's answer",
        "The client is older than the broker, and receives something that it does not support: an error code, a mechanism "
        "or a version of an answer.",
        "The message names a number that the client does not know.",
        "Upgrade the client.",
        program_messages(
            java=("Unexpected error code: …", "UnknownServerException: …"),
            librdkafka=("Broker: Unknown error", "Unsupported MessageSet magic byte"),
            kafka_python=("UnrecognizedBrokerError",),
            franz_go=("client is too old; this client does not know what to do with this request",),
        ),
    ),
    Remedy(
        Fault.FRAME_SIZE,
        "A message has an impossible size",
        "Kafka begins each message with its size. A size beyond the limit is mostly no size, but the first four bytes of "
        "another protocol: TLS, HTTP, SSH. Otherwise the limit is too low for the requests or answers in use.",
        "Write the number in hexadecimal: 0x16 at the start is TLS, 0x48545450 is `HTTP`. `kproxy explain` does it.",
        "If it is another protocol, correct the port or `security.protocol`. If it is a real size, raise "
        "`socket.request.max.bytes` of the broker or `receive.message.max.bytes` of the client.",
        program_messages(
            java=(
                "InvalidReceiveException: Invalid receive (size = … larger than …)",
                "InvalidReceiveException: Invalid receive (size = …)",
            ),
            librdkafka=(
                "Receive failed: Invalid response size … (0..…): increase receive.message.max.bytes",
                "Receive failed: Invalid message size … (0..…): increase receive.message.max.bytes",
                "Invalid frame size …",
            ),
            kafka_python=("InvalidReceiveError: Invalid frame length: …", "InvalidReceiveError"),
            franz_go=("invalid large response size … > limit …", "invalid negative response size …"),
            sarama=("kafka: error decoding packet: message of length … too large or too small",),
            broker=(
                "Unexpected error from …; closing connection",
                "Invalid receive (size = … larger than …)",
                "InvalidReceiveException: Invalid receive (size = -…",
            ),
        ),
    ),
    Remedy(
        Fault.RECORD_TOO_LARGE,
        "A record or batch is larger than a limit",
        "The producer, the topic or the broker has a limit, and the record or the batch is larger.",
        "`kafka-configs --describe --topic TOPIC --bootstrap-server HOST:PORT` shows `max.message.bytes`.",
        "Raise `max.request.size` of the producer (`message.max.bytes` in librdkafka), `max.message.bytes` of the topic "
        "and `fetch.max.bytes` of consumers. Or compress, or send smaller records.",
        program_messages(
            java=(
                "RecordTooLargeException: The message is … bytes when serialized which is larger than …",
                "RecordTooLargeException: The request included a message larger than the max message size the server will",
                "RecordTooLargeException: …",
                "RecordBatchTooLargeException: …",
            ),
            librdkafka=(
                "Broker: Message size too large",
                "Broker: Message batch larger than configured server segment size",
            ),
            kafka_python=(
                "MessageSizeTooLargeError",
                "MessageTooLargeError",
                "RecordBatchTooLargeError",
                "RecordListTooLargeError",
            ),
            kafkajs=("The request included a message larger than the max message size the server will accept",),
            franz_go=("MESSAGE_TOO_LARGE: …",),
            sarama=(
                "kafka server: Message was too large, server rejected it to avoid allocation error",
                "kafka: invalid configuration (Attempt to produce message larger than configured Producer.MaxMessageBytes",
            ),
        ),
    ),
)
