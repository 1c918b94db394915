"""Error codes for a transactional producer whose producer id the new cluster does not know. Pure.

Its transaction began in the former cluster, where it is aborted; the new cluster returns INVALID_PRODUCER_ID_MAPPING.
Clients of other libraries, and Java clients before version 4, then abort the transaction, ask for a producer id, and
continue. For Java clients since version 4 that error is fatal. kproxy returns another error to them, at which they do
the same; to the abort itself it returns success, because there is nothing to abort. Kafka Streams gets the broker's own
error: it takes it for the loss of its tasks, and creates another producer; at any other error it ends.

Responses are whole frames, in the versions that `caps` leaves. Each function raises Underflow or WireError if a frame
is malformed.
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
    """Return True if this client cannot survive the broker's error: a Java producer, unless it is one of Streams.

    `software` and `client_id` are what the client says of itself. A wrong name harms only that client.
    """
    return software.startswith("apache-kafka-java") and not is_streams_producer(client_id)


def is_commit(request: Buffer) -> bool:
    """Return True if an EndTxn request commits, False if it aborts.

    The request is a whole frame of version 4 or older.
    """
    version, client_id = INT16.unpack_from(request, 6)[0], INT16.unpack_from(request, 12)[0]
    reader = ResponseReader(request, 14 + max(0, client_id), compact=version >= APIS[END_TXN].flexible)
    reader.tags()
    reader.raw()  # the transactional id
    reader.int64()
    reader.int16()
    return reader.boolean()


def substitute_errors(response: Buffer, key: int, version: int, *, aborts: bool = False) -> Buffer:
    """Return a response to a Java producer with errors that the producer survives.

    `aborts`: the response belongs to an EndTxn that aborts.
    """
    substitute = 0 if aborts else _SUBSTITUTES[key]
    changed: bytearray | None = None
    for offset in _error_offsets(response, key, version):
        if INT16.unpack_from(response, offset)[0] == INVALID_PRODUCER_ID_MAPPING:
            changed = bytearray(response) if changed is None else changed
            INT16.pack_into(changed, offset, substitute)
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
    """Skip the rest of a partition of a Produce response, after its error code."""
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
