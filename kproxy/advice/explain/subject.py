"""The subject of a line, Kafka or another system, by the words beside a message (pure).

Words such as "connection refused" alone prove nothing.
"""

from __future__ import annotations

import re

from kproxy.advice.explain.facts import without_own_addresses

# Only Kafka's programs and libraries use these words.
_KAFKA_WORDS = (
    "org.apache.kafka", "rdkafka", "RdKafka", "aiokafka", "kafka.errors", "kafka.net", "kafka.conn", "kafka.client",
    "kafka.coordinator", "kafka.consumer", "kafka.producer", "kafka.admin", "kafka.cluster", "kafka.sasl", "kafka.server.",
    "kafka.network.", "kafka.log.", "kafka.utils.", "kafka.tools", "kafka.common.", "KafkaError", "KafkaException",
    "KafkaConnection", "KafkaTimeoutError", "KafkaProducer", "KafkaConsumer", "KafkaAdminClient", "KafkaJS", "kafkajs",
    "confluent_kafka", "Confluent.Kafka", "cimpl.Kafka", "bootstrap.servers", "bootstrap_servers", "/bootstrap:",
    "/bootstrap]", "bootstrap-0", "clientId=", "kafka-producer-network-thread", "kafka-admin-client", "kcat", "[sarama]",
    "sarama", "franz-go", "kgo", "kafka-go", "rskafka", "kafka-node", "ruby-kafka", "Kafka::", "kafka://", "seed brokers",
    "BrokerConnection", "NetworkClient", "kafka010", "KafkaSource", "kafka:", "kproxy", "broker: seed", '"seed_', '"seed ',
    "broker=seed_", "SslAuthenticationException", "SaslAuthenticationException", "listener.security.protocol.map",
    "KafkaServer", "KafkaRaftServer", "KafkaApi", "AdminClient", "kafkashaded", "out_kafka", "outputs.kafka", "inputs.kafka",
    "SaslClientAuthenticator", "security.protocol", "sasl.mechanism", "ssl.truststore", "ssl.keystore", "ssl.ca.location",
    "servicebus.windows.net:9093", ".confluent.cloud:9092", "connecting to broker", "connection to broker", "kafkastore",
    "SaslHandshake", "ApiVersions", "aws.msk", "amazon.msk", "IAMLoginModule", "msk-iam", "amazon/msk", "PlainLoginModule", "ScramLoginModule",
    "connect.runtime", "strimzi.kafka", "connect.errors", "kafka.zk.", "kafka.zookeeper.", "kafka.Kafka$", "kafka.metadata",
    "confluent.ksql", "confluent.kafka", "confluent/kafka", "GetLeaderBrokers", "kpro_", "brod_client", "phpkafka", "afkak", "kafka-php", "pubsub.kafka", "msk_iam_auth", "bindings.kafka",
)  # fmt: skip

# Other programs, which may run beside Kafka or on a machine named after it.
_OTHER_PROGRAMS = (
    "postgres", "psql", "psycopg", "pgbouncer", "mysql", "mariadb", "jdbc", "redis", "jedis", "lettuce", "mongo", "elastic",
    "opensearch", "rabbitmq", "amqp", "pika.", "celery", "kombu", "cassandra", "datastax", "http://", "https://", "urllib", "requests.",
    "okhttp", "httpclient", "httphostconnect", "nginx", "upstream", "ssh:", "sshd", "git@", "fatal:", "docker:", "kubectl", "kubelet",
    "grpc", "rpc error", "zookeeper", "curator", "memcache", "ldap", "smtp", "mqtt", "activemq", "pulsar", "nats:", "etcd", "consul",
    "influx", "hadoop", "hdfs", "hive", "npm ", "pip ", "curl:", "wget", "dial unix", "systemd", "sqlalchemy", "oracle", "sqlserver",
)  # fmt: skip
# Programs that download packages, among them those of Kafka's clients.
_PACKAGE_MANAGERS = (
    "npm err", "registry.npmjs", "registry.yarnpkg", "pypi.org", "files.pythonhosted", "repo.maven", "could not resolve dependencies",
    "could not transfer artifact", "rubygems.org", "index.crates.io", "proxy.golang.org", "nuget.org", "packagist.org",
    "registry-1.docker.io", "error response from daemon", "manifest unknown",
)  # fmt: skip
# More systems, which count where nothing at all points to Kafka.
_OTHER_SYSTEMS = (
    "http", "kernel", "sql", "npm", "yarn", "pnpm", "git ", "git:", "github", "gitlab", "docker", "containerd", "registry", "helm",
    "kube", "k8s", "cargo", "rustup", "maven", "gradle", "pip:", "pip3", "apt-", "apt:", "dpkg", "yum", "dnf", "apk ", "brew",
    "terraform", "ansible", "vault", "imap", "pop3", "ftp", "rsync", "scp:", "kex_exchange", "nmap", "ping:", "telnet", "snmp", "ntp",
    "chrony", "websocket", "ws://", "wss://", "://", "hikari", "liquibase", "flyway", "prisma", "sequelize", "typeorm", "mongoose",
    "odbc", "ora-", "tns:", "snowflake", "bigquery", "dynamo", "minio", "boto", "couch", "neo4j", "clickhouse", "trino", "presto",
    "solr", "syslog", "prometheus", "grafana", "jaeger", "otlp", "envoy", "istio", "haproxy", "traefik", "ingress", "axios", "fetch",
    "feign", "resttemplate", "webclient", "selenium", "chrome", "sidekiq", "resque", "beanstalk", "samba", "cifs", "nfs", "iscsi",
    "libvirt", "winrm", "xhr", "cors", "openvpn", "wireguard", "ipsec", "strongswan", "bind ", "dig:", "nslookup", "named[", "postfix",
    "dovecot", ";;", "clientcnxn", "jenkins", "hudson", "keytool", "kinit:", "gpg:", "exim", "cups", "x11", "dbus", "unix socket", "/var/run/", "/tmp/", "aerospike", "hazelcast", "ignite", "zmq", "mssql",
    "django.db", "activerecord", "hibernate", "doctrine", "pg::", "gorm", "tomcat", "jetty", "servlet", "odoo", "wordpress", "php-fpm", "fastcgi", "gunicorn", "uwsgi", "puma", "unicorn",
)  # fmt: skip
# Ports of other servers. A URL, a DSN or an address with one of them names the system.
OTHER_PORTS = frozenset(
    map(
        str,
        (21, 22, 23, 25, 53, 80, 88, 110, 111, 123, 139, 143, 161, 389, 443, 445, 465, 514, 543, 587, 636, 873, 993, 995,
         1080, 1433, 1521, 1883, 2049, 2375, 2376, 2379, 2380, 3000, 3128, 3260, 3306, 3389, 4222, 4369, 4873, 5000, 5044,
         5060, 5222, 5432, 5433, 5601, 5671, 5672, 5900, 5984, 6379, 6380, 6432, 6443, 6650, 7000, 7077, 7474, 7687, 8000,
         8001, 8008, 8080, 8086, 8123, 8125, 8200, 8300, 8443, 8500, 8761, 8888, 9000, 9042, 9090, 9100, 9160, 9200, 9300,
         9418, 9870, 10000, 10250, 11211, 15672, 16379, 25672, 26257, 26379, 27017, 27018, 28015, 33060, 50051, 50070, 61616),
    )
)  # fmt: skip
_PORT = re.compile(r"(?::|\bport[ =:\"']{1,3}|, )(\d{2,5})\b")
# The command that people run to reach a broker, and paste with what the client says.
_WAY_TO_BROKER = re.compile(r"\bkubectl [^\n]{0,200}?\bport-forward\b")
_TIME = re.compile(r"(?<!\d)\d\d:\d\d:\d\d(?!\d)")
_CLIENT_PORTS = (
    ":9092",
    ":9093",
    ":9094",
    ":9095",
    ":9096",
    ":9098",
    ":19092",
    ":29092",
    ":9192",
    " port 9092",
    " port 9093",
    " port 9094",
)


def _has_one(text: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 - a generator takes twice as long, and there are many lines
        if word in text:
            return True
    return False


def names_kafka(text: str) -> bool:
    """Check whether a record has words that only Kafka's programs use."""
    return _has_one(text, _KAFKA_WORDS)


def names_package_manager(lower: str) -> bool:
    """Check whether a record, in small letters, is about the download of a package, perhaps of a Kafka client."""
    return _has_one(lower, _PACKAGE_MANAGERS)


def names_client_port(lower: str) -> bool:
    """Check whether a record without such words, in small letters, names Kafka or one of its ports."""
    return "kafka" in lower or _has_one(lower, _CLIENT_PORTS)


def names_other_program(lower: str) -> bool:
    """Check whether a record, in small letters, names a program that is not Kafka."""
    return _has_one(_WAY_TO_BROKER.sub("", lower) if "kubectl" in lower else lower, _OTHER_PROGRAMS)


def names_other_system(lower: str) -> bool:
    """Check whether a text without a sign of Kafka, in small letters, is plainly of another system."""
    # A ticket and a container's host have these names for each program.
    lower = _WAY_TO_BROKER.sub("", lower.replace("/tmp/krb5cc", "").replace(".docker.internal", ""))
    return (
        names_other_program(lower)
        or _has_one(lower, _OTHER_SYSTEMS)
        or any(match[1] in OTHER_PORTS for match in _PORT.finditer(_TIME.sub("", without_own_addresses(lower))))
    )
