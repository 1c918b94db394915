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

from collections.abc import Mapping

from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import read_request
from kproxy.protocol.wire.primitives import Buffer
from kproxy.proxy.switching.clientsoftware import is_streams_producer
from kproxy.proxy.switching.responses import replace_errors

# By API key, at what a Java producer aborts. At 59 it would repeat a batch for ever; a version that does not know 120
# takes that for another error, and aborts as well.
_SUBSTITUTES: Mapping[int, int] = {
    ApiKey.PRODUCE: ErrorCode.TRANSACTION_ABORTABLE,
    ApiKey.TXN_OFFSET_COMMIT: ErrorCode.TRANSACTION_ABORTABLE,
    ApiKey.ADD_PARTITIONS_TO_TXN: ErrorCode.UNKNOWN_PRODUCER_ID,
    ApiKey.ADD_OFFSETS_TO_TXN: ErrorCode.UNKNOWN_PRODUCER_ID,
    ApiKey.END_TXN: ErrorCode.UNKNOWN_PRODUCER_ID,
}
TRANSACTIONAL = frozenset(_SUBSTITUTES)
# A version of AddPartitionsToTxn that only brokers use has another shape.
_NEWEST_OF_CLIENTS = 3


def needs_substitute(software: str, client_id: str) -> bool:
    """Return True if this client cannot survive the broker's error: a Java producer, unless it is one of Streams.

    `software` and `client_id` are what the client says of itself. A wrong name harms only that client.
    """
    return software.startswith("apache-kafka-java") and not is_streams_producer(client_id)


def is_commit(request: Buffer) -> bool:
    """Return True if an EndTxn request commits, False if it aborts. The request is a whole frame."""
    return bool(read_request(request).fields["Committed"])


def substitute_errors(response: Buffer, key: int, version: int, *, aborts: bool = False) -> Buffer:
    """Return a response to a Java producer with errors that the producer survives.

    `aborts`: the response belongs to an EndTxn that aborts.
    """
    if key == ApiKey.ADD_PARTITIONS_TO_TXN and version > _NEWEST_OF_CLIENTS:
        return response
    substitute = ErrorCode.NONE if aborts else _SUBSTITUTES[key]
    return replace_errors(response, key, version, {ErrorCode.INVALID_PRODUCER_ID_MAPPING: substitute})
