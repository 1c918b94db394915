"""What a transactional producer is told whose producer id the new cluster does not know. Pure.

Its transaction was begun in the former cluster, where it is aborted; the new one answers INVALID_PRODUCER_ID_MAPPING.
Clients of other libraries, and Java's before version 4, abort the transaction then, ask for a producer id, and go on.
For Java's since version 4 that answer is fatal. It is told another, at which it does the same; and to the abort itself,
that it is done: there is nothing to abort. Kafka Streams has the broker's own answer: it takes it for the loss of its
tasks, and makes another producer; at any other it ends.

Responses are whole frames, in the versions that `caps` leaves. Each function raises Underflow or WireError if a frame
is not what it says it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kproxy.protocol.wire.api import APIS, END_TXN, PRODUCE, TXN_OFFSET_COMMIT
from kproxy.protocol.wire.primitives import INT16, Buffer
from kproxy.protocol.wire.reader import ResponseReader
from kproxy.proxy.switching.kafkastreams import is_streams_producer

ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN = 24, 25
INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID, TRANSACTION_ABORTABLE = 49, 59, 120
# By API key, at what a Java producer aborts. At 59 it would repeat a batch for ever; a version that does not know 120
# takes that for another error, and aborts as well.
_SUBSTITUTES: Mapping[int, int] = MappingProxyType(
    {
        PRODUCE: TRANSACTION_ABORTABLE,
        TXN_OFFSET_COMMIT: TRANSACTION_ABORTABLE,
        ADD_PARTITIONS_TO_TXN: UNKNOWN_PRODUCER_ID,
        ADD_OFFSETS_TO_TXN: UNKNOWN_PRODUCER_ID,
        END_TXN: UNKNOWN_PRODUCER_ID,
    }
)
TRANSACTIONAL = frozenset(_SUBSTITUTES)
# A version of AddPartitionsToTxn that only brokers use has another shape.
_NEWEST_OF_CLIENTS = 3


def needs_substitute(software: str, client_id: str) -> bool:
    """Whether a client, as it calls itself, cannot survive the broker's answer: a Java producer, unless it is one of
    Kafka Streams. A lie harms only the one that says it."""
    return software.startswith("apache-kafka-java") and not is_streams_producer(client_id)


def is_commit(request: Buffer) -> bool:
    """Whether an EndTxn request, a whole frame of version 4 and before, commits; else it aborts."""
    version, client_id = INT16.unpack_from(request, 6)[0], INT16.unpack_from(request, 12)[0]
    reader = ResponseReader(request, 14 + max(0, client_id), compact=version >= APIS[END_TXN].flexible)
    reader.tags()
    reader.raw()  # the transactional id
    reader.int64()
    reader.int16()
    return reader.boolean()


def substitute_errors(response: Buffer, key: int, version: int, *, aborts: bool = False) -> Buffer:
    """A response to a Java producer, as it can survive it. `aborts`: it answers an EndTxn that aborts."""
    instead = 0 if aborts else _SUBSTITUTES[key]
    changed: bytearray | None = None
    for place in _error_offsets(response, key, version):
        if INT16.unpack_from(response, place)[0] == INVALID_PRODUCER_ID_MAPPING:
            changed = bytearray(response) if changed is None else changed
            INT16.pack_into(changed, place, instead)
    return response if changed is None else changed


def _error_offsets(response: Buffer, key: int, version: int) -> Iterator[int]:
    reader = ResponseReader(response, 8, compact=version >= APIS[key].flexible)
    reader.tags()
    if key == ADD_PARTITIONS_TO_TXN and version > _NEWEST_OF_CLIENTS:
        return
    if key != PRODUCE:
        reader.int32()  # throttled
    if key in (ADD_OFFSETS_TO_TXN, END_TXN):
        yield _pass_error(reader)
        return
    for _ in range(reader.count()):
        reader.raw()  # the topic
        for _ in range(reader.count()):
            reader.int32()
            yield _pass_error(reader)
            if key == PRODUCE:
                _skip_partition(reader, version)
            reader.tags()
        reader.tags()


def _pass_error(reader: ResponseReader) -> int:
    place = reader.at
    reader.int16()
    return place


def _skip_partition(reader: ResponseReader, version: int) -> None:
    """Pass over a partition of a Produce response, from behind its error on."""
    reader.int64()  # the first offset
    if version >= 2:
        reader.int64()  # the time
    if version >= 5:
        reader.int64()  # where the log begins
    if version >= 8:
        for _ in range(reader.count()):
            reader.int32()  # the record that is wrong,
            reader.raw()  # and why
            reader.tags()
        reader.raw()  # why, in words
