"""The error code in the beginning of a response. Sans-IO.

In many responses it stands before anything of variable length. Others have one for each partition, topic or group:
Produce, Fetch, Metadata, AddPartitionsToTxn. Of these, the first that is not 0 counts.
"""

from __future__ import annotations

from functools import cache

from kproxy.base.errors import WireError
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.definitions import SIZES, Field, load_message, split_fields
from kproxy.protocol.wire.messages import MessageReader, response_reader
from kproxy.protocol.wire.primitives import INT16, Buffer, Underflow

LONGEST = 1024
"""The most bytes of a response that are examined, from behind its correlation id on."""
WITHOUT_DEFINITION = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""The APIs without a definition, whose responses begin with the throttle time and the error code."""
_BEHIND_THROTTLE_TIME = 1 + 4  # of the header, an empty section of tagged fields


def error_code(key: int, version: int, head: Buffer) -> int | None:
    """Return the first error code that is not 0 in a response; `head` is what follows the correlation id.

    0 if the response has only zeros, as far as `head` goes; None if `head` does not show it.
    """
    api = APIS.get(key)
    if key == ApiKey.API_VERSIONS:  # of any version: a client reads it before it knows which ones there are (KIP-511)
        return INT16.unpack_from(head)[0] if len(head) >= 2 else None
    if api is None or not api.serves(version):
        return None
    if api.is_flexible(version) and head[:1] != b"\0":
        return None  # tagged fields in the header, which no broker sends yet
    if key in WITHOUT_DEFINITION:
        return INT16.unpack_from(head, _BEHIND_THROTTLE_TIME)[0] if len(head) >= _BEHIND_THROTTLE_TIME + 2 else None
    reader, own = _reader(key, version)
    if reader is None:
        return None
    is_whole = True
    try:
        reader.read(head)
    except (Underflow, WireError):
        is_whole = False
    codes = [INT16.unpack_from(head, at)[0] for at in reader.indexes]
    return next((code for code in codes if code), 0 if codes and (is_whole or own) else None)


@cache
def _reader(key: int, version: int) -> tuple[MessageReader | None, bool]:
    """Return the reader of the error codes, and whether one of them is of the response as a whole, near its start."""
    name = f"{APIS[key].name}Response"
    try:
        fields = load_message(name).fields
    except FileNotFoundError:
        return None, False
    return response_reader(key, version, *_names(fields)), _is_near_start(fields, version)


def _names(fields: tuple[Field, ...]) -> set[str]:
    own = {field.name for field in fields if field.name.endswith("ErrorCode")}
    return own.union(*(_names(field.fields) for field in fields))


def _is_near_start(fields: tuple[Field, ...], version: int) -> bool:
    for field in split_fields(fields, version)[0]:
        if field.name.endswith("ErrorCode"):
            return True
        if field.type not in SIZES:
            return False
    return False
