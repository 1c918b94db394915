"""The Produce requests of one session: topics, transactional ids, and the headers of batches. Sans-IO."""

from __future__ import annotations

from struct import Struct

from kproxy.base.errors import WireError
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import INT32, Buffer
from kproxy.proxy.access.names import decode
from kproxy.proxy.access.produce import BATCH_HEAD, BY_ID, ProduceReader, ProduceTopic
from kproxy.proxy.observation.record import ClientUsage, PartitionKey, Topic, UsageRecord, Use

# Of a record batch v2: magic, last offset delta, producer id and epoch.
# https://kafka.apache.org/documentation/#recordbatch
_read_batch = Struct(">16xb6xi16xqh").unpack_from
# What a request, and a partition in it, cost in the record's budget.
_REQUEST_COST, _PARTITION_COST = 10.0, 4.0


class ProduceUsage:
    """Notes what one session produces.

    Most requests are like the one before but for the partition and the records: those are compared, and not read.
    """

    def __init__(self, record: UsageRecord) -> None:
        self._record = record
        self._client: ClientUsage | None = None
        self._cluster = self._upstream = ""
        self._reader: ProduceReader | None = None  # of a request that has not come whole
        self._now = 0.0
        # A request to one partition, from its client id up to that partition, its version and topic.
        self._usual, self._usual_version, self._usual_topic, self._usual_transaction = b"", -1, Topic(""), ""

    def set_client(self, client: ClientUsage | None, cluster: str, upstream: str) -> None:
        """Note what comes next for this client."""
        self._client, self._cluster, self._upstream = client, cluster, upstream
        self._usual_version = -1

    def begin(self, data: Buffer, at: int, after: int, end: int, version: int, now: float) -> None:
        """Take the beginning of a request, data[at:after], of which the bytes before `end` have come."""
        self._now = now
        if self._is_usual(data, at, min(after, end), version):
            return
        if not self._record.budget.allows(now):
            self._record.left_out["requests"] += 1
            return
        self._record.budget.charge(_REQUEST_COST)
        self._usual_version = -1
        reader = self._reader = ProduceReader(version, self._on_batch)
        request = data[at : min(after, end)]
        self.feed(request, ends=after <= end)
        if reader.count == 1 and reader.partition_count == 1 and reader.topics[0].partitions:
            # The partition's number comes next, and then its records.
            self._usual, self._usual_version = bytes(request[12 : reader.partitions_at]), version
            self._usual_topic = _topic(reader.topics[0], version)
            self._usual_transaction = decode(reader.transactional_id) or ""

    def feed(self, chunk: Buffer, *, ends: bool) -> None:
        """Take the next bytes of the request, if it is read. `ends`: they are its last."""
        if self._reader is None:
            return
        reader = self._reader
        try:
            reader.feed(chunk)
        except WireError:  # malformed, or more partitions than are read
            self._record.left_out["requests"] += 1
            self._reader = None
        if ends or reader.has_all_topics:
            self._reader = None

    def _is_usual(self, data: Buffer, at: int, end: int, version: int) -> bool:
        """Note a request that is like the last one to one partition; return False for others."""
        behind = at + 12 + len(self._usual)
        if version != self._usual_version or data[at + 12 : behind] != self._usual:
            return False
        width = 4
        if ApiKey.PRODUCE.is_flexible(version):
            width = 1
            while width < 5 and behind + 3 + width < end and data[behind + 3 + width] & 0x80:
                width += 1
        batch_at = behind + 4 + width
        if end - batch_at < BATCH_HEAD:
            return False
        self._note(self._usual_topic, self._usual_transaction)
        self._note_batch(self._usual_topic, INT32.unpack_from(data, behind)[0], data, batch_at)
        return True

    def _on_batch(self, topic: ProduceTopic, partition: int, batch: Buffer) -> None:
        reader = self._reader
        assert reader is not None
        self._record.budget.charge(_PARTITION_COST)
        named = _topic(topic, reader.version)
        if not topic.partitions:
            self._note(named, decode(reader.transactional_id) or "")
        if len(batch) == BATCH_HEAD:  # else it is empty or nonsense, which brokers refuse
            self._note_batch(named, partition, batch, 0)

    def _note(self, topic: Topic, transaction: str) -> None:
        if self._client is None:
            return
        self._record.note_topic(self._client, Use.WRITES, topic, self._now)
        if transaction:
            self._record.note_name(self._client, Use.TRANSACTION, transaction, self._now)
            self._record.note_transaction(self._client, transaction, Use.WRITES, topic, self._now)

    def _note_batch(self, topic: Topic, partition: int, data: Buffer, at: int) -> None:
        magic, last_offset_delta, producer_id, epoch = _read_batch(data, at)
        key = PartitionKey(self._cluster, self._upstream, topic, partition)
        if magic < 2:
            self._record.note_batch(key, 0, -1, -1, self._now)
        else:
            self._record.note_batch(key, last_offset_delta + 1, producer_id, epoch, self._now)


def _topic(topic: ProduceTopic, version: int) -> Topic:
    return Topic("", topic.key) if version >= BY_ID else Topic(topic.key.decode("utf-8", "replace"))
