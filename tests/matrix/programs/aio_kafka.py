"""The scenario with aiokafka, old and new: BOOTSTRAP NAME RECORDS."""

# ruff: noqa: T201 (what it saw goes to stdout)

import asyncio
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

try:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
except ImportError:  # until 0.8 it used kafka-python's
    from aiokafka.admin import AIOKafkaAdminClient
    from kafka.admin import NewTopic

PATIENCE_S = 120


async def main():
    bootstrap, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=3)])
    for broker in (await admin.describe_cluster())["brokers"]:
        print("broker", broker["node_id"], f"{broker['host']}:{broker['port']}")
    await admin.close()

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    sent = [await producer.send(name, f"value-{i}".encode(), f"key-{i}".encode()) for i in range(count)]
    await asyncio.gather(*sent)
    await producer.stop()

    consumer = AIOKafkaConsumer(name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest")
    await consumer.start()
    values = []
    end = time.monotonic() + PATIENCE_S
    while len(set(values)) < count and time.monotonic() < end:
        for records in (await consumer.getmany(timeout_ms=500)).values():
            values += [record.value for record in records]
    await consumer.stop()
    print("consumed", len(values), len(set(values)))


asyncio.run(main())
