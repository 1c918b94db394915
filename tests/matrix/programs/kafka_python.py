"""The scenario with kafka-python 2.0 and 3: BOOTSTRAP NAME RECORDS."""

# ruff: noqa: T201 (what it saw goes to stdout)

import sys
import time

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

PATIENCE_S = 120


def brokers_of(admin):
    try:
        brokers = admin.describe_cluster()["brokers"]
    except KeyError:  # 3.0.12 wants a field that DescribeCluster has from version 1 on: Kafka 2.8 to 3.6 do not
        return [(broker.node_id, f"{broker.host}:{broker.port}") for broker in admin._client.cluster.brokers()]
    # 2.0 asks by Metadata, and names the fields as that does.
    return [
        (broker.get("broker_id", broker.get("node_id")), f"{broker['host']}:{broker['port']}") for broker in brokers
    ]


def main():
    bootstrap, name, count = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=3)])
    for node, address in brokers_of(admin):
        print("broker", node, address)
    admin.close()

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    sent = [producer.send(name, f"value-{i}".encode(), f"key-{i}".encode()) for i in range(count)]
    for future in sent:
        future.get(PATIENCE_S)
    producer.close()

    consumer = KafkaConsumer(name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest")
    values = []
    end = time.monotonic() + PATIENCE_S
    while len(set(values)) < count and time.monotonic() < end:
        for records in consumer.poll(500).values():
            values += [record.value for record in records]
    consumer.close()
    print("consumed", len(values), len(set(values)))


main()
