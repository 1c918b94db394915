"""Ports that programs around Kafka have by default, and what a client of Kafka meets there (pure).

Sources: the defaults in the configuration files that come with Apache Kafka, ZooKeeper, Confluent Platform and Redpanda.
"""

from __future__ import annotations

OTHER_SERVERS: dict[int, str] = {
    80: "HTTP servers, such as an ingress",
    2181: "ZooKeeper",
    2182: "ZooKeeper with TLS",
    2888: "ZooKeeper's own connections",
    3888: "ZooKeeper's own connections",
    8081: "Schema Registry",
    8082: "Confluent's REST Proxy",
    8083: "Kafka Connect's REST server",
    8088: "ksqlDB",
    8090: "Confluent's metadata service",
    8080: "HTTP servers",
    9644: "Redpanda's admin server",
    33145: "Redpanda's own connections",
    9308: "kafka_exporter",
    9404: "the metrics of the JMX exporter",
    9999: "JMX",
    19091: "kproxy's admin server",
}
"""Ports at which no Kafka broker answers by default."""

USUALLY_TLS: dict[int, str] = {
    443: "a route or an ingress with TLS, such as those of OpenShift",
    9093: "a TLS listener, or a controller's listener",
    9094: "a TLS listener, or one for clients outside the cluster",
    9096: "a listener with SASL and TLS",
    9098: "a listener with SASL and TLS",
}
"""Ports whose listeners often speak TLS. It is a habit only, and no rule."""
