"""Produce requests: their topics, without their records, and what is left of one without some of its topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import encode_fields, encode_response
from kproxy.protocol.wire.primitives import (
    INT16,
    INT32,
    Buffer,
    Underflow,
    malformed,
    read_size,
    read_string,
    skip_tags,
    uvarint,
)
from kproxy.proxy.access.names import Name, body_at, decode

MOST_PARTITIONS = 1_000
"""The most topics and partitions of one request that kproxy reads: a few milliseconds of work."""
BATCH_HEAD = 61
"""The bytes of a record batch before its records."""
_API = ApiKey.PRODUCE
BY_ID = 13
"""The first version whose topics have ids in place of names."""


@dataclass(slots=True)
class ProduceTopic:
    """One topic of a Produce request, at frame[start:end]. `key` is its name, or its id from version 13 on."""

    key: bytes
    start: int
    end: int = 0
    partitions: list[int] = field(default_factory=list)


class ProduceReader:
    """Reads a Produce request, a frame that comes in any chunks. Of its records it keeps nothing.

    `acks` is None until it has been read. `count` is the number of topics, -1 until it has been read; it stands at
    frame[count_at:topics_at]. The last of `topics` may not be complete yet; its `partition_count` partitions stand at
    frame[partitions_at:]. `elements` is the number of topics and partitions, as far as their counts have been read.
    `on_batch` receives the topic, the number of a partition, and the first BATCH_HEAD bytes of its records, or all if
    there are fewer.
    """

    def __init__(self, version: int, on_batch: Callable[[ProduceTopic, int, Buffer], None] | None = None) -> None:
        self.version, self._flexible = version, _API.is_flexible(version)
        self._on_batch = on_batch
        self._size, self._width = (0, 0) if self._flexible else (2, 4)  # of sizes and counts; 0 is a varint
        self._rest = b""  # what has come of the field that is read next
        self._skip = 0
        self._passed = 0  # bytes before `_rest`
        self._topics_left = self._partitions_left = 0
        self._step: Callable[[Buffer, int, int], int] | None = self._head
        self.elements = 0
        self.transactional_id: bytes | None = None
        self.acks: int | None = None
        self.count = -1
        self.count_at = self.topics_at = 0
        self.partition_count = self.partitions_at = 0
        self.topics: list[ProduceTopic] = []

    @property
    def has_all_topics(self) -> bool:
        """True if the last topic has been read."""
        return self._step is None

    def name(self, topic: ProduceTopic) -> Name:
        """Return the name of a topic; None if it has only an id."""
        return None if self.version >= BY_ID else decode(topic.key)

    def feed(self, chunk: Buffer) -> None:
        """Take the next bytes of the frame. Raises WireError if they are malformed, or have too many partitions."""
        data: Buffer = self._rest + bytes(chunk) if self._rest else chunk
        at, end = 0, len(data)
        try:
            while self._step is not None:
                if self._skip:
                    skipped = min(self._skip, end - at)
                    self._skip -= skipped
                    at += skipped
                    if self._skip:
                        break
                at = self._step(data, at, end)
        except Underflow:
            pass
        if self._step is None:
            at = end
        self._rest = bytes(data[at:end])
        self._passed += at

    def _head(self, data: Buffer, at: int, end: int) -> int:
        """Read the header, the transactional id, acks, and the number of topics."""
        if end < 14:
            raise Underflow
        at = body_at(data, _API, self.version)
        if self.version >= 3:
            self.transactional_id, at = read_string(data, at, end, compact=self._flexible, nullable=True)
        if end - at < 6:
            raise Underflow
        (self.acks,) = INT16.unpack_from(data, at)
        self.count_at = self._passed + at + 6
        self.count, at = read_size(data, at + 6, end, self._width, False)
        self.topics_at = self._passed + at
        self._topics_left = self.count
        self._count(self.count)
        self._step = self._topic if self.count else None
        return at

    def _count(self, elements: int) -> None:
        self.elements += elements
        if self.elements > MOST_PARTITIONS:
            raise malformed(
                f"a Produce request that the rules must judge has over {MOST_PARTITIONS} topics and partitions"
            )

    def _topic(self, data: Buffer, at: int, end: int) -> int:
        start = at
        if self.version >= BY_ID:
            if end - at < 16:
                raise Underflow
            key, at = bytes(data[at : at + 16]), at + 16
        else:
            name, at = read_string(data, at, end, compact=self._flexible, nullable=False)
            key = name or b""
        count, at = read_size(data, at, end, self._width, False)
        self._count(count)
        self.topics.append(ProduceTopic(key, self._passed + start))
        self._partitions_left = count
        self.partition_count, self.partitions_at = count, self._passed + at
        self._step = self._partition if count else self._topic_end
        return at

    def _partition(self, data: Buffer, at: int, end: int) -> int:
        if end - at < 4:
            raise Underflow
        (number,) = INT32.unpack_from(data, at)
        size, at = read_size(data, at + 4, end, self._width, True)
        if self._on_batch is not None:
            shown = at + min(max(0, size), BATCH_HEAD)
            if shown > end:
                raise Underflow
            self._on_batch(self.topics[-1], number, data[at:shown])
        self.topics[-1].partitions.append(number)
        self._skip = max(0, size)
        self._step = self._partition_end
        return at

    def _partition_end(self, data: Buffer, at: int, end: int) -> int:
        if self._flexible:
            at = skip_tags(data, at, end)
        self._partitions_left -= 1
        self._step = self._partition if self._partitions_left else self._topic_end
        return at

    def _topic_end(self, data: Buffer, at: int, end: int) -> int:
        if self._flexible:
            at = skip_tags(data, at, end)
        self.topics[-1].end = self._passed + at
        self._topics_left -= 1
        self._step = self._topic if self._topics_left else None
        return at


def refused_topics(topics: Sequence[ProduceTopic], version: int, text: str) -> list[dict[str, Any]]:
    """Return these topics as they stand in a response: each of their partitions is refused."""
    name = "TopicId" if version >= BY_ID else "Name"
    refused = {
        "ErrorCode": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "ErrorMessage": text,
        **dict.fromkeys(("BaseOffset", "LogAppendTimeMs", "LogStartOffset"), -1),
    }
    return [
        {name: topic.key, "PartitionResponses": [{"Index": number, **refused} for number in topic.partitions]}
        for topic in topics
    ]


def refused_response(topics: Sequence[ProduceTopic], version: int, correlation_id: int, text: str) -> bytes:
    """Return the response to a request of which all topics are refused."""
    return encode_response(_API, version, correlation_id, {"Responses": refused_topics(topics, version, text)})


def without_topics(request: Buffer, reader: ProduceReader, version: int, left_out: Sequence[ProduceTopic]) -> bytes:
    """Return a whole request without some of the topics that the reader has read in it."""
    count = reader.count - len(left_out)
    pieces: list[Buffer] = [request[4 : reader.count_at], _count(count, version)]
    at = reader.topics_at
    for topic in left_out:
        pieces.append(request[at : topic.start])
        at = topic.end
    pieces.append(request[at:])
    return b"".join((INT32.pack(sum(map(len, pieces))), *pieces))


def with_refused_topics(response: bytes, version: int, topics: Sequence[ProduceTopic], text: str) -> bytes:
    """Return a whole response that also has these topics, which are refused. Raises Underflow and WireError."""
    flexible, end = _API.is_flexible(version), len(response)
    head = skip_tags(response, 8, end) if flexible else 8
    count, at = read_size(response, head, end, 0 if flexible else 4, False)
    alone = encode_fields("ProduceResponse", version, {"Responses": refused_topics(topics, version, text)})
    # Behind the topics stand the throttle time, from version 1 on, and the tags.
    added = alone[len(_count(len(topics), version)) : len(alone) - 4 * (version >= 1) - flexible]
    body = b"".join((response[4:head], _count(count + len(topics), version), added, response[at:]))
    return INT32.pack(len(body)) + body


def _count(count: int, version: int) -> bytes:
    return uvarint(count + 1) if _API.is_flexible(version) else INT32.pack(count)
