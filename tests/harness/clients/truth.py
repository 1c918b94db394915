"""The content of topics, read by two clients that share no code with kproxy: librdkafka and Kafka's own consumer.

For each partition: the number of committed records, and one hash over all of them in order: keys, values, headers and
timestamps, in which null is not empty. Offsets are not part of it.
"""

from __future__ import annotations

import hashlib
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, TopicPartition

from kproxy.dev.devcluster import DEFAULT_VERSION
from kproxy.dev.devcluster.jars import cache_directory
from kproxy.dev.devcluster.tools import Programs
from tests.harness.programs.javac import compiled
from tests.harness.topics import unique

Where: TypeAlias = tuple[str, int]
_JAVA = Path(__file__).with_name("java")
_PATIENCE = 180.0
_LENGTH, _TIMESTAMP = struct.Struct(">i"), struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Sum:
    """Number, hash and size of records; `bytes` counts keys, values and headers."""

    records: int
    bytes: int
    hash: str


def program(version: str, name: str) -> list[str]:
    """Return the command line of a program in java/, with this version of Kafka's clients. Raises NotInstalled."""
    # The second compiler pays here: the hash is one of its own instructions.
    programs = replace(Programs.of(version), options=("-XX:TieredStopAtLevel=4",))
    classes = cache_directory() / "harness" / f"{name}-{version}"
    return list(compiled(programs, [_JAVA / f"{name}.java"], classes, f"harness.{name}"))


def by_kafka(bootstrap: str, topics: Sequence[str]) -> Iterator[tuple[Where, Sum]]:
    """Read topics with Kafka's own consumer."""
    done = subprocess.run(
        [*program(DEFAULT_VERSION, "Reader"), bootstrap, *topics], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for line in done.stdout.splitlines():
        topic, partition, records, size, digest = line.split()
        yield (topic, int(partition)), Sum(int(records), int(size), digest)


def by_librdkafka(bootstrap: str, partitions: Mapping[str, int]) -> Iterator[tuple[Where, Sum]]:
    """Read topics, given with their numbers of partitions, with librdkafka."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": unique("truth"), "enable.auto.commit": False,
            "enable.auto.offset.store": False, "isolation.level": "read_committed", "enable.partition.eof": True,
            "auto.offset.reset": "error", "check.crcs": True,
        }
    )  # fmt: skip
    try:
        places = [TopicPartition(topic, at) for topic, count in partitions.items() for at in range(count)]
        for place in places:
            place.offset = reader.get_watermark_offsets(place, timeout=60)[0]
        reader.assign(places)
        yield from _summed(reader, len(places))
    finally:
        reader.close()


class _Summing:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.records = self._bytes = 0

    def add(self, message: Any) -> None:
        kind, timestamp = message.timestamp()
        headers = message.headers() or ()
        parts = [*_content(message.key()), *_content(message.value()), _LENGTH.pack(len(headers))]
        for name, value in headers:
            parts += [*_content(name.encode()), *_content(value)]
        parts.append(_TIMESTAMP.pack(-1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp))
        content = b"".join(parts)
        self._hash.update(content)
        self.records += 1
        self._bytes += len(content) - 4 * (3 + 2 * len(headers)) - 8

    def sum(self) -> Sum:
        return Sum(self.records, self._bytes, self._hash.hexdigest())


def _content(data: bytes | None) -> tuple[bytes, ...]:
    return (_LENGTH.pack(-1),) if data is None else (_LENGTH.pack(len(data)), data)


def _summed(reader: Consumer, partitions: int) -> Iterator[tuple[Where, Sum]]:
    found: dict[Where, _Summing] = {}
    ended: set[Where] = set()
    until = time.monotonic() + _PATIENCE
    while len(ended) < partitions:
        messages = reader.consume(10_000, 0.5)
        if messages:
            until = time.monotonic() + _PATIENCE
        assert time.monotonic() < until, f"nothing more comes; {len(ended)} of {partitions} partitions have ended"
        for message in messages:
            where = message.topic(), message.partition()
            error = message.error()
            if error is None:
                found.setdefault(where, _Summing()).add(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(where)
            else:
                raise KafkaException(error)
    for where in ended:
        yield where, found.get(where, _Summing()).sum()
