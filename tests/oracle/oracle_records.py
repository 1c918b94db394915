"""Kafka's own record batches, made and read by its classes: `java/records/Batches.java` says what can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from kproxy.protocol.records.decoding import Record
from tests.oracle.oracle_jvm import Program, Reader, sized

_INT32, _INT64 = Struct(">i"), Struct(">q")
_WRITE = Struct(">bbqqhibi")
_MARKER = Struct(">qqb")
_FILTER = Struct(">qqi")
_BATCH = Struct(">qqbbbbqhiqi")
_PLACE = Struct(">qq")


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A batch as Kafka sees it."""

    base_offset: int
    last_offset: int
    magic: int
    codec: int
    transactional: int
    control: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    records: tuple[Record, ...]


class Batches(Program):
    """Kafka's record batches of one version."""

    def __init__(self, kafka_version: str) -> None:
        super().__init__(kafka_version, "Batches", Path(__file__).parent / "java" / "records")

    def written(
        self,
        records: Sequence[Record],
        magic: int,
        codec: int,
        *,
        append_time: int = -1,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional: bool = False,
    ) -> bytes:
        """The log of one batch; of magic 0 and 1 without a codec, of one for each record."""
        command = bytearray(b"W" + _WRITE.pack(magic, codec, append_time, *producer, transactional, len(records)))
        for record in records:
            command += _PLACE.pack(record.offset, record.timestamp) + _content(record.key) + _content(record.value)
            command += _INT32.pack(len(record.headers))
            for name, value in record.headers:
                command += _content(name) + _content(value)
        return Reader(self._ask(bytes(command))).sized()

    def marker(self, offset: int, producer_id: int, kind: int) -> bytes:
        """A control batch."""
        return Reader(self._ask(b"M" + _MARKER.pack(offset, producer_id, kind))).sized()

    def compacted(self, log: bytes, without: Sequence[int], *, now: int, retention: int) -> bytes:
        """As the log cleaner leaves it when it takes these offsets."""
        taken = b"".join(map(_INT64.pack, without))
        return Reader(self._ask(b"F" + sized(log) + _FILTER.pack(now, retention, len(without)) + taken)).sized()

    def read(self, log: bytes) -> list[ReadBatch]:
        """The batches of a log, each of them valid in every checksum."""
        answer = Reader(self._ask(b"R" + sized(log)))
        return [_batch(answer) for _ in range(answer.numbers(_INT32)[0])]


def _batch(answer: Reader) -> ReadBatch:
    *said, count = answer.numbers(_BATCH)
    return ReadBatch(*said, tuple(_record(answer) for _ in range(count)))


def _record(answer: Reader) -> Record:
    offset, timestamp = answer.numbers(_PLACE)
    key, value = answer.content(), answer.content()
    headers = tuple((answer.sized(), answer.content()) for _ in range(answer.numbers(_INT32)[0]))
    return Record(offset, timestamp, key, value, headers)


def _content(content: bytes | None) -> bytes:
    return _INT32.pack(-1) if content is None else sized(content)
