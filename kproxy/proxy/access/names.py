"""Reads the names of topics, groups and transactional ids in requests.

Each function takes a whole frame, or the beginning of one, and returns families and names: None is a topic that has
only an id. It raises Underflow if more bytes are needed, and WireError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from struct import Struct
from typing import Any, TypeAlias

from kproxy.base.errors import WireError
from kproxy.base.messages.sessions import ACCESS_REQUEST_TOO_LARGE
from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.messages import SHORT, Request, read_request
from kproxy.protocol.wire.primitives import INT16, Buffer, Underflow, malformed, read_string, skip_tags

LONGEST_DECODED = SHORT
"""The most bytes of a request that kproxy decodes to judge or to answer it."""
MOST_DECODED = 2_000
"""The most structs and strings of such a request: a few milliseconds of work."""


class Unnamed(Enum):
    """What stands in place of a name."""

    ANY = auto()
    """Some topic: an idempotent producer does not say which."""


Name: TypeAlias = str | Unnamed | None
ReadNames = Callable[[Buffer, int, int], Sequence[tuple[str, Name]]]
"""Takes a frame, its API key and its version."""
_read_head = Struct(">iI").unpack_from
# Resource types of AlterConfigs, as in Kafka's ConfigResource.Type.
_RESOURCES = {2: "topic", 32: "group"}


def cost_of(request: Buffer) -> int:
    """Return what one step of the work for a request costs, in the unit of the authorizer: an element has few bytes."""
    return len(request) >> 5


def body_at(frame: Buffer, key: int, version: int) -> int:
    """Return the index behind the header of a request."""
    _, at = read_string(frame, 12, len(frame), compact=False, nullable=True)
    return skip_tags(frame, at, len(frame)) if APIS[key].is_flexible(version) else at


def decode(name: bytes | None) -> str | None:
    """Return a name of the protocol as text."""
    return None if name is None else name.decode("utf-8", "replace")


def none(frame: Buffer, key: int, version: int) -> Sequence[tuple[str, Name]]:
    """Return the only name of the family `admin`: the request names nothing that rules decide about."""
    return (("admin", ""),)


def first(family: str) -> ReadNames:
    """Return the function for requests that begin with a name."""

    def read(frame: Buffer, key: int, version: int) -> Sequence[tuple[str, Name]]:
        name, _ = _string(frame, body_at(frame, key, version), key, version)
        return ((family, decode(name) or ""),)

    return read


def of_elements(family: str, array: str, field: str) -> ReadNames:
    """Return the function for requests with an array of names, or of structs that have a name in `field`."""

    def read(frame: Buffer, key: int, version: int) -> Sequence[tuple[str, Name]]:
        elements = _fields(frame)[array] or ()
        return [(family, decode(element[field] if field else element)) for element in elements]

    return read


def of_deleted_topics(frame: Buffer, key: int, version: int) -> Sequence[tuple[str, Name]]:
    """Read DeleteTopics, whose topics have names or, from version 6 on, perhaps ids."""
    fields = _fields(frame)
    topics = fields["TopicNames"] if version < 6 else [topic["Name"] for topic in fields["Topics"]]
    return [("topic", decode(topic)) for topic in topics]


def of_producer(frame: Buffer, key: int, version: int) -> Sequence[tuple[str, Name]]:
    """Read InitProducerId, whose transactional id is null for an idempotent producer without transactions."""
    name, _ = _string(frame, body_at(frame, key, version), key, version)
    return (("produce", Unnamed.ANY),) if name is None else (("transaction", decode(name)),)


def of_added_partitions(frame: Buffer, key: int, version: int) -> Sequence[tuple[str, Name]]:
    """Read AddPartitionsToTxn: up to version 3 of one transaction, later of several, between brokers."""
    fields = _fields(frame)
    if version >= 4:
        return [("transaction", decode(each["TransactionalId"])) for each in fields["Transactions"]]
    topics = [("produce", decode(topic["Name"])) for topic in fields["V3AndBelowTopics"]]
    return [("transaction", decode(fields["V3AndBelowTransactionalId"])), *topics]


def of_added_offsets(frame: Buffer, key: int, version: int) -> Sequence[tuple[str, Name]]:
    """Read AddOffsetsToTxn: transactional id, producer id and epoch, group."""
    transaction, at = _string(frame, body_at(frame, key, version), key, version)
    group, _ = _string(frame, at + 10, key, version)
    return ("transaction", decode(transaction) or ""), ("group", decode(group) or "")


def of_transactional_commit(frame: Buffer, key: int, version: int) -> Sequence[tuple[str, Name]]:
    """Read TxnOffsetCommit: transactional id, group."""
    transaction, at = _string(frame, body_at(frame, key, version), key, version)
    group, _ = _string(frame, at, key, version)
    return ("transaction", decode(transaction) or ""), ("group", decode(group) or "")


def of_configs(frame: Buffer, key: int, version: int) -> Sequence[tuple[str, Name]]:
    """Read AlterConfigs or IncrementalAlterConfigs: settings of topics, groups, brokers and so on."""
    return [
        (_RESOURCES.get(resource["ResourceType"], "admin"), decode(resource["ResourceName"]))
        for resource in _fields(frame)["Resources"]
    ]


def _string(frame: Buffer, at: int, key: int, version: int) -> tuple[bytes | None, int]:
    return read_string(frame, at, len(frame), compact=APIS[key].is_flexible(version), nullable=True)


def decode_request(frame: Buffer) -> Request:
    """Return a request with all its fields. Raises Underflow if it is not whole, WireError also if it is too large."""
    size, code = _read_head(frame)
    if size > LONGEST_DECODED:
        api = APIS[code >> 16].name
        raise WireError(*ACCESS_REQUEST_TOO_LARGE.with_reason(api=api, size=size, most=LONGEST_DECODED))
    if len(frame) < 4 + size:
        raise Underflow
    if INT16.unpack_from(frame, 12)[0] < -1:
        raise malformed("a request's header has a string of negative length")
    return read_request(frame[: 4 + size], MOST_DECODED)


def _fields(frame: Buffer) -> dict[str, Any]:
    return decode_request(frame).fields
