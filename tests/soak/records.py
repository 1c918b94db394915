"""The records of one topic: each a function of its number, and what a log must have of them.

A partition gets the records 0, 1, 2, … from one idempotent producer, and nothing else is in it: so the offset of a
record is its number. An acknowledgement with another offset, and another record at an offset, say at once that one was
lost, came twice, came out of order, or went to another log.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from random import Random

_POOL = Random(11).randbytes(1500) + b"kproxy " * 3000
# One in so many is larger than what is sent at once.
_LARGE_EVERY, _LARGE = 199, 20_000
_MOST_PROBLEMS = 20


def record(topic: str, partition: int, number: int) -> tuple[bytes, bytes]:
    """Key and value."""
    start = zlib.crc32(b"%s %d %d" % (topic.encode(), partition, number)) % 1000
    size = _LARGE if number % _LARGE_EVERY == 7 else number % 461
    return b"key-%d" % (number % 97), b"%s/%d/%d:" % (topic.encode(), partition, number) + _POOL[start : start + size]


def named(value: bytes | None) -> str:
    """The name at the head of a value, for people."""
    return repr(bytes(value or b"").partition(b":")[0][:80])


class Account:
    """What became of a topic's records, as producer and consumers say. `problems` is empty if all is well."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = range(partitions)
        self.sent = [0] * partitions
        self.acknowledged = [0] * partitions
        self.read = [0] * partitions
        """The offset behind the highest one that was consumed."""
        self.problems: list[str] = []

    def acknowledge(self, partition: int, number: int, offset: int | None) -> None:
        """The producer was told that a record is in the log; it is not always told where."""
        self.acknowledged[partition] += 1
        if offset is not None and offset >= 0 and offset != number:
            self._problem(f"record {number} of partition {partition} was acknowledged at offset {offset}")

    def consume(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """A consumer of a group has read this; again, perhaps, but nothing may be left out."""
        if (key, value) != record(self.topic, partition, offset):
            self._problem(f"a consumer read {named(value)} at offset {offset} of partition {partition}")
        if offset > self.read[partition]:
            self._problem(f"the group left out offsets {self.read[partition]} to {offset - 1} of partition {partition}")
        self.read[partition] = max(self.read[partition], offset + 1)

    def unread(self) -> int:
        """Records that were acknowledged and that no consumer has read yet."""
        return sum(max(0, a - r) for a, r in zip(self.acknowledged, self.read, strict=True))

    def _problem(self, text: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(f"{self.topic}: {text}")


class Audit:
    """The log itself, compared with what was sent, record by record as it is read."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._at = defaultdict[int, int](int)
        self._seen = {partition: Counter[bytes]() for partition in account.partitions}
        self._first: dict[int, str] = {}

    def add(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """The next record of a partition."""
        wanted = self._at[partition]
        self._at[partition] += 1
        self._seen[partition][bytes(value or b"").partition(b":")[0]] += 1
        if offset != wanted or (key, value) != record(self._account.topic, partition, wanted):
            self._first.setdefault(partition, f"record {wanted} should stand where {named(value)} is, at {offset}")

    def problems(self) -> list[str]:
        """In words, once everything is read; empty if the log is what was sent."""
        found = []
        topic = self._account.topic
        for partition in self._account.partitions:
            seen, count = self._seen[partition], self._account.acknowledged[partition]
            names = [b"%s/%d/%d" % (topic.encode(), partition, number) for number in range(count)]
            missing = [number for number, name in enumerate(names) if not seen[name]]
            twice = [name.decode(errors="replace") for name, times in seen.items() if times > 1]
            foreign = [name.decode(errors="replace") for name in seen.keys() - set(names)]
            where = f"{topic}, partition {partition}, {count} acknowledged:"
            for word, which in (("missing", missing), ("more than once", twice), ("never acknowledged", foreign)):
                if which:
                    found.append(f"{where} {len(which)} {word}: {which[:10]}")
            if partition in self._first:
                found.append(f"{where} {self._first[partition]}")
        return found
