"""A million records, each a function of its number, so that a test can compare them one by one.

Number n goes to partition n mod PARTITIONS. With nothing else in the topic its offset there is n div PARTITIONS, so the
comparison includes place and order. The topic needs `retention.ms=-1`, because the records' timestamps are old.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from time import monotonic
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.harness.topics import create_topic, note_failures

PARTITIONS = 6

Headers: TypeAlias = list[tuple[str, str | bytes | None]]
Record: TypeAlias = tuple[bytes | None, bytes | None, Headers, int]
"""Key, value, headers, timestamp in ms since the epoch."""

_START_MS = 1_500_000_000_000
_SECONDS = 30
# Bytes of every kind, half of which compress.
_POOL = random.Random(7).randbytes(1500) + b"kproxy " * 200
_KEYS: list[bytes] = [b"key-%d" % number for number in range(997)]
_HEADERS: list[Headers] = [
    [],
    [("one", b"1")],
    [("twice", b"a"), ("twice", b"b")],
    [("null", None), ("empty", b"")],
    [("ключ", "значение".encode()), ("raw", bytes(range(256)))],
]


def create(bootstrap: str, replicas: int = 3) -> str:
    """Create a topic for such records; return its name."""
    return create_topic(bootstrap, PARTITIONS, replicas, retention_ms="-1")


def record(number: int) -> Record:
    """Return the record of this number. Some have no key, some no value; timestamps go back and forth."""
    start = number * 31 % 2011
    return (
        None if number % 7 == 3 else _KEYS[number % 997],
        None if number % 13 == 5 else b"%d:" % number + _POOL[start : start + number % 97],
        _HEADERS[number % 5],
        _START_MS + number * 7919 % 86_400_000,
    )


def produce(bootstrap: str, topic: str, numbers: Iterable[int], compression: str) -> None:
    """Send the records of these numbers in order, without duplicates; fail if one is not acknowledged."""
    failed: list[KafkaError] = []
    delivered = note_failures(failed)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": compression,
            "enable.idempotence": True,
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
        }
    )

    for number in numbers:
        key, value, headers, timestamp = record(number)
        while True:
            try:
                producer.produce(
                    topic, value, key, number % PARTITIONS,
                    timestamp=timestamp, headers=headers, on_delivery=delivered,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    assert not failed, failed[:3]


def difference(bootstrap: str, topic: str, count: int) -> str:
    """Read the topic to its end and return the first difference in words; empty if all records are right."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "only-assigned",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "queued.max.messages.kbytes": 65_536,
        }
    )
    try:
        reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        return _compare(reader, count)
    finally:
        reader.close()


def _compare(reader: Consumer, count: int) -> str:
    following = [0] * PARTITIONS  # the offset that must come next
    ended = 0
    patience = monotonic() + _SECONDS
    while ended < PARTITIONS:
        messages = reader.consume(20_000, timeout=0.2)
        if messages:
            patience = monotonic() + _SECONDS
        elif monotonic() > patience:
            return f"nothing came for {_SECONDS} s; the next offsets are {following}"
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                ended += 1
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            if offset != following[partition]:
                return f"partition {partition}: offset {offset} came where {following[partition]} was next"
            following[partition] = offset + 1
            expected = record(offset * PARTITIONS + partition)
            got = (message.key(), message.value(), message.headers() or [], message.timestamp()[1])
            if got != expected:
                return f"partition {partition}, offset {offset}: sent {expected}, got {got}"
    wanted = [len(range(partition, count, PARTITIONS)) for partition in range(PARTITIONS)]
    return "" if following == wanted else f"records per partition: sent {wanted}, got {following}"
