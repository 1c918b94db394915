"""kafka-python, imported without our rule that warnings are errors: it reads its own files in a deprecated way."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import (
        ConsumerGroupMetadata,
        KafkaAdminClient,
        KafkaConsumer,
        KafkaProducer,
        OffsetAndMetadata,
        TopicPartition,
    )
    from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
    from kafka.errors import KafkaError, KafkaTimeoutError
    from kafka.net.sasl.msk import AwsMskIamClient
    from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

__all__ = [
    "ApiVersionsResponse",
    "AwsMskIamClient",
    "ConfigResource",
    "ConfigResourceType",
    "ConsumerGroupMetadata",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "KafkaTimeoutError",
    "MetadataResponse",
    "NewTopic",
    "OffsetAndMetadata",
    "TopicPartition",
]
