"""Words that show whether lines are about Kafka. Words such as "connection refused" alone prove nothing."""

from __future__ import annotations

# Only Kafka's programs and libraries use these words.
_KAFKA_WORDS = (
    "org.apache.kafka", "rdkafka", "aiokafka", "kafka.errors", "kafka.net", "kafka.conn", "kafka.client", "kafka.coordinator",
    "kafka.consumer", "kafka.producer", "kafka.admin", "kafka.cluster", "kafka.sasl", "kafka.server.", "kafka.network.", "kafka.log.",
    "kafka.utils.", "kafka.tools", "KafkaError", "KafkaException", "KafkaConnection", "KafkaTimeoutError", "KafkaProducer",
    "KafkaConsumer", "KafkaAdminClient", "KafkaJS", "kafkajs", "confluent_kafka", "cimpl.Kafka", "bootstrap.servers",
    "bootstrap_servers", "/bootstrap:", "/bootstrap]", "bootstrap-0", "clientId=", "kafka-producer-network-thread", "kafka-admin-client",
    "kcat", "[sarama]", "sarama", "franz-go", "kgo", "BrokerConnection", "NetworkClient", "kafka010", "KafkaSource", "kafka:", "kproxy",
    "broker: seed_", "SslAuthenticationException", "SaslAuthenticationException", "listener.security.protocol.map",
)  # fmt: skip

# Other programs, which may run beside Kafka or on a machine named after it.
_OTHER_PROGRAMS = (
    "postgres", "psql", "psycopg", "pgbouncer", "mysql", "mariadb", "jdbc", "redis", "jedis", "lettuce", "mongo", "elastic",
    "opensearch", "rabbitmq", "amqp", "pika.", "celery", "kombu", "cassandra", "datastax", "http://", "https://", "urllib", "requests.",
    "okhttp", "httpclient", "HttpHostConnect", "nginx", "upstream", "ssh:", "sshd", "git@", "fatal:", "docker:", "kubectl", "kubelet",
    "grpc", "rpc error", "zookeeper", "curator", "memcache", "ldap", "smtp", "mqtt", "activemq", "pulsar", "nats:", "etcd", "consul",
    "influx", "hadoop", "hdfs", "hive", "npm ", "pip ", "curl:", "wget", "dial unix", "systemd", "sqlalchemy", "oracle", "sqlserver",
)  # fmt: skip

_CLIENT_PORTS = (":9092", ":9093", ":9094", ":9095", ":9096", ":9098", ":19092", ":29092", ":9192")


def names_kafka(text: str) -> bool:
    """Check whether a record has words that only Kafka's programs use."""
    return any(word in text for word in _KAFKA_WORDS)


def looks_like_kafka(text: str) -> bool:
    """Check whether a record without such words names Kafka or its ports, and no other program."""
    lower = text.lower()
    return ("kafka" in lower or any(port in lower for port in _CLIENT_PORTS)) and not names_other_program(lower)


def names_other_program(lower: str) -> bool:
    """Check whether a record names a program that is not Kafka."""
    return any(word.lower() in lower for word in _OTHER_PROGRAMS)
