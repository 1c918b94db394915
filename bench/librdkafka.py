"""librdkafka as a process of its own: produce|consume BOOTSTRAP TOPIC SIZE COUNT ACKS; prints {"seconds": …}."""

from __future__ import annotations

import json
import sys
import time
import uuid

from confluent_kafka import Consumer, Producer


def produce(bootstrap: str, topic: str, size: int, count: int, acks: str) -> float:
    """Seconds from the first record to the last acknowledgement."""
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
    """Seconds from the first record to the last."""
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
        records = consumer.consume(10_000, timeout=1)
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


def main() -> None:
    what, bootstrap, topic, size, count, acks = sys.argv[1:]
    if what == "produce":
        seconds = produce(bootstrap, topic, int(size), int(count), acks)
    else:
        seconds = consume(bootstrap, topic, int(count))
    sys.stdout.write(json.dumps({"seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
