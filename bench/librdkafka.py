"""librdkafka as a separate process.

python -m bench.librdkafka produce|consume BOOTSTRAP TOPIC SIZE COUNT ACKS    prints the seconds it took
python -m bench.librdkafka topic BOOTSTRAP NEW PARTITIONS OLD                 creates a topic and deletes another
"""

from __future__ import annotations

import sys
import time
import uuid

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic


def produce(bootstrap: str, topic: str, size: int, count: int, acks: str) -> float:
    """Return the seconds from the first record to the last acknowledgement."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "batch.size": 131072,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 65536,
            "message.max.bytes": 2 << 20,
        }
    )
    producer.list_topics(topic, timeout=30)
    value = bytes(range(256)) * (size // 256 + 1)
    value = value[:size]
    began = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(120):
        raise SystemExit("not every record was delivered")
    return time.perf_counter() - began


def consume(bootstrap: str, topic: str, count: int) -> float:
    """Return the seconds from the first record to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "message.max.bytes": 64 << 20,
        }
    )
    consumer.subscribe([topic])
    got, began, deadline = 0, 0.0, time.monotonic() + 120
    while got < count:
        # The first record alone, as the clock starts with it; never more than exist, which would wait for the timeout.
        records = consumer.consume(min(10_000, count - got) if began else 1, timeout=1)
        if not began and records:
            began = time.perf_counter()
        for record in records:
            if record.error():
                raise SystemExit(str(record.error()))
        got += len(records)
        if time.monotonic() > deadline:
            raise SystemExit(f"only {got} of {count} records came")
    took = time.perf_counter() - began
    consumer.close()
    return took


def topic(bootstrap: str, new: str, partitions: int, old: str) -> None:
    """Create a topic with replicas on every broker, so that acks=all waits for followers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    replicas = len(admin.list_topics(timeout=30).brokers)
    settings = {"max.message.bytes": str(2 << 20), "file.delete.delay.ms": "0"}
    made = admin.create_topics([NewTopic(new, partitions, replicas, config=settings)])
    gone = admin.delete_topics([old])
    made[new].result(30)
    try:
        gone[old].result(30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


def main() -> None:
    match sys.argv[1:]:
        case ["produce", bootstrap, name, size, count, acks]:
            seconds = produce(bootstrap, name, int(size), int(count), acks)
            sys.stdout.write(f"{seconds}\n")
        case ["consume", bootstrap, name, _, count, _]:
            seconds = consume(bootstrap, name, int(count))
            sys.stdout.write(f"{seconds}\n")
        case ["topic", bootstrap, new, partitions, old]:
            topic(bootstrap, new, int(partitions), old)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
