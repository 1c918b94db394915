"""The scenario with confluent-kafka (librdkafka): BOOTSTRAP NAME RECORDS [CONSUMER_PROPERTY=VALUE...]."""

# ruff: noqa: T201 (what it saw goes to stdout)

import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE_S = 120


def consumer_of(bootstrap, group, extra, **properties):
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **{key.replace("_", "."): value for key, value in properties.items()},
            **extra,
        }
    )


def records_of(consumer, topic, count):
    """Yield lists of records until there were `count` different values."""
    consumer.subscribe([topic])
    seen = set()
    end = time.monotonic() + PATIENCE_S
    while len(seen) < count and time.monotonic() < end:
        batch = []
        for record in consumer.consume(500, timeout=0.5):
            error = record.error()
            # The topic is young: a broker may not have heard of it.
            if error is None:
                batch.append(record)
            elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KafkaException(error)
        seen.update(record.value() for record in batch)
        if batch:
            yield batch


def count_of(consumer, topic, count):
    values = [record.value() for batch in records_of(consumer, topic, count) for record in batch]
    consumer.close()
    return f"{len(values)} {len(set(values))}"


def main():
    bootstrap, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    extra = dict(argument.split("=", 1) for argument in sys.argv[4:])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(topic, num_partitions=3, replication_factor=3) for topic in (name, name + "-transactions")]
    for future in admin.create_topics(topics).values():
        future.result(PATIENCE_S)
    for broker in admin.list_topics(timeout=PATIENCE_S).brokers.values():
        print("broker", broker.id, f"{broker.host}:{broker.port}")

    failed = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for i in range(count):
        producer.produce(name, f"value-{i}", f"key-{i}", on_delivery=lambda error, _: error and failed.append(error))
    if producer.flush(PATIENCE_S) or failed:
        raise SystemExit(f"not all records were delivered: {failed[:1]}")
    print("consumed", count_of(consumer_of(bootstrap, name, extra), name, count))

    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    transactional.init_transactions(PATIENCE_S)
    transactional.begin_transaction()
    for i in range(10):
        transactional.produce(name + "-transactions", f"aborted-{i}")
    transactional.flush(PATIENCE_S)
    transactional.abort_transaction(PATIENCE_S)
    source = consumer_of(bootstrap, name + "-source", extra, enable_auto_commit="false")
    for batch in records_of(source, name, count):
        transactional.begin_transaction()
        for record in batch:
            transactional.produce(name + "-transactions", record.value(), record.key())
        transactional.send_offsets_to_transaction(
            source.position(source.assignment()), source.consumer_group_metadata(), PATIENCE_S
        )
        transactional.commit_transaction(PATIENCE_S)
    source.close()
    copies = consumer_of(bootstrap, name + "-copies", extra, isolation_level="read_committed")
    print("committed", count_of(copies, name + "-transactions", count))


main()
