"""The kind of a producer, as its Produce requests show it. Pure."""

from __future__ import annotations

from enum import StrEnum

from kproxy.base.errors import WireError
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.primitives import Buffer, Underflow, read_size, read_string, skip_tags


class ProducerKind(StrEnum):
    """The kind of a producer; a PLAIN one has no producer id, so brokers have no sequence numbers of it."""

    PLAIN = "plain"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


# Where these stand in a batch of records of format 2, and where the second ends.
_MAGIC, _PRODUCER_ID, _ENOUGH = 16, 43, 51
# The versions from which on a request has a transactional id, and names topics by their ids.
_TRANSACTIONAL_ID, _TOPIC_IDS = 3, 13
_TOPIC_ID = 16  # bytes


def producer_kind(request: Buffer, at: int, end: int, version: int) -> ProducerKind | None:
    """Return the kind of the producer that sent the Produce request at request[at:end].

    A transactional id decides, or else the producer id of the first batch. None if these bytes end too early to tell.
    """
    if version < _TRANSACTIONAL_ID:
        return ProducerKind.PLAIN
    try:
        return _producer_kind(request, at, end, version)
    except (Underflow, WireError):
        return None


def _producer_kind(request: Buffer, at: int, end: int, version: int) -> ProducerKind | None:
    flexible = ApiKey.PRODUCE.is_flexible(version)
    width = 0 if flexible else 4  # of counts, and of the size of records
    _, at = read_string(request, at + 12, end, compact=False, nullable=True)  # the client id
    if flexible:
        at = skip_tags(request, at, end)
    transactional_id, at = read_string(request, at, end, compact=flexible, nullable=True)
    if transactional_id:
        return ProducerKind.TRANSACTIONAL
    topics, at = read_size(request, at + 6, end, width, True)  # behind acks and timeout
    if version >= _TOPIC_IDS:
        at += _TOPIC_ID
    else:
        _, at = read_string(request, at, end, compact=flexible, nullable=False)
    partitions, at = read_size(request, at, end, width, True)
    size, at = read_size(request, at + 4, end, width, True)  # behind the partition
    if topics < 1 or partitions < 1 or size < _ENOUGH or end - at < _ENOUGH:
        return None
    plain = request[at + _MAGIC] < 2 or request[at + _PRODUCER_ID] >= 0x80  # a negative id is none
    return ProducerKind.PLAIN if plain else ProducerKind.IDEMPOTENT
