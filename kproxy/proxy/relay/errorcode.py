"""The error code in the beginning of a response. Sans-IO.

In many responses it stands before anything of variable length. Others have one for each partition, topic or group:
Produce, Fetch, Metadata, AddPartitionsToTxn. Of these, the first that is not 0 counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from kproxy.base.errors import WireError
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import API_VERSIONS, APIS
from kproxy.protocol.wire.definitions import Field
from kproxy.protocol.wire.primitives import INT16, Buffer, Underflow
from kproxy.protocol.wire.reader import ResponseReader

LONGEST = 1024
"""The most bytes of a response that are examined, from behind its correlation id on."""

_SIZES = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}
_NAME = "ErrorCode"


def error_code(key: int, version: int, head: Buffer) -> int | None:
    """Return the first error code that is not 0 in a response; `head` is what follows the correlation id.

    0 if the response has no error code, as far as `head` goes, or only zeros; None if `head` does not show it.
    """
    api = APIS.get(key)
    if api is None or not api.serves(version):
        return None
    flexible = version >= api.flexible
    if flexible and key != API_VERSIONS and head[:1] != b"\0":
        return None  # tagged fields in the header, which no broker sends yet
    offset = error_code_offset(key, version)
    first = None
    if offset is not None:
        if offset + 2 > len(head):
            return None
        first = int(INT16.unpack_from(head, offset)[0])
        if first or not _has_more(key, version):
            return first
    reader = ResponseReader(head, 1 if flexible and key != API_VERSIONS else 0, compact=flexible)
    last = None
    try:
        for code in _codes(_fields(key), version, reader):
            last = code
            if code:
                return code
    except (Underflow, WireError):
        return first
    return last


@cache
def error_code_offset(key: int, version: int) -> int | None:
    """Return the offset of a response's error code behind its correlation id, in bytes.

    None if fields of variable length stand before it.
    """
    api = APIS.get(key)
    if api is None or not api.serves(version):
        return None
    at = 1 if version >= api.flexible and key != API_VERSIONS else 0  # the header's tags: none
    for field in _fields(key):
        if not _is_there(field, version):
            continue
        if field.name.endswith(_NAME):
            return at
        if field.type not in _SIZES:
            return None
        at += _SIZES[field.type]
    return None


@cache
def _fields(key: int) -> tuple[Field, ...]:
    try:
        return definitions.load_message(f"{APIS[key].name}Response").fields
    except FileNotFoundError:
        return ()


@cache
def _has_more(key: int, version: int) -> bool:
    """Check whether there are error codes below the first level."""
    present = [field for field in _fields(key) if _is_there(field, version)]
    return any(_has_code(field.fields, version) for field in present)


def _has_code(fields: Sequence[Field], version: int) -> bool:
    present = [field for field in fields if _is_there(field, version)]
    return any(field.name.endswith(_NAME) or _has_code(field.fields, version) for field in present)


def _is_there(field: Field, version: int) -> bool:
    return version in field.versions and version not in field.tagged


def _codes(fields: Sequence[Field], version: int, reader: ResponseReader) -> Iterator[int]:
    """Yield the error codes in these fields. Raises Underflow and WireError."""
    for field in fields:
        if _is_there(field, version):
            if field.type.startswith("[]"):
                for _ in range(reader.count()):
                    yield from _codes_in(field, field.type[2:], version, reader)
            else:
                yield from _codes_in(field, field.type, version, reader)
    reader.tags()


def _codes_in(field: Field, kind: str, version: int, reader: ResponseReader) -> Iterator[int]:
    if field.name.endswith(_NAME):
        yield reader.int16()
    elif kind in _SIZES:
        reader.skip(_SIZES[kind])
    elif kind == "string":
        reader.raw()
    elif kind in ("bytes", "records"):
        reader.skip_blob()
    elif version not in field.nullable or field.type.startswith("[]") or reader.int8() >= 0:
        yield from _codes(field.fields, version, reader)
