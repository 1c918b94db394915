"""Whole messages as dicts, read and written by their definitions. The data plane, which decodes nothing, does without.

A struct is a dict by the names of its fields. Strings and UUIDs are bytes, null is None, and bytes and records are
slices of the buffer. Tagged fields are there if the message has them. To write a message, leave out what is 0 or empty.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from kproxy.base.printable import escaped
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.definitions import FORMATS, SIZES, Field, load_message, split_fields
from kproxy.protocol.wire.primitives import (
    INT16,
    INT32,
    Buffer,
    Underflow,
    malformed,
    read_size,
    read_string,
    read_uvarint,
    skip_tags,
    string,
    uvarint,
)

SHORT = 32 * 1024
"""The longest response that a proxy's loop reads at once, in bytes: 5,000 structs take some milliseconds."""
Fields = Mapping[str, Any]
_Read = Callable[[Buffer, int], tuple[Any, int]]
_Write = Callable[[list[bytes], Any], None]


class MessageReader:
    """Reads one API's requests or responses of one version.

    Of a field in `located` it returns the index in the buffer in place of the value. `indexes` has these indexes of the
    last message, in order, also of a message that is cut short.
    """

    def __init__(self, name: str, version: int, located: Collection[str] = ()) -> None:
        self.indexes: list[int] = []
        self._left = 0  # how many structs and strings in arrays may still be read
        definition = load_message(name)
        self._version, self._flexible, self._located = version, version in definition.flexible, located
        self._has_header_tags = self._flexible and name != "ApiVersionsResponse"  # KIP-511
        self._fields = definition.fields
        self._read = self._struct(definition.fields)

    def read(self, buffer: Buffer, at: int = 0, most: int = 1 << 31) -> dict[str, Any]:
        """Read a message that begins behind its correlation or client id. Raises Underflow and WireError.

        `most`: how many structs and strings its arrays may have, all together.
        """
        self.indexes.clear()
        self._left = most
        try:
            if self._has_header_tags:
                at = skip_tags(buffer, at, len(buffer))
            values: dict[str, Any] = self._read(buffer, at)[0]
        except struct.error:
            raise Underflow from None
        return values

    def elements(
        self, field: str, buffer: Buffer, at: int, inner: str = ""
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Yield the elements of this array of the message, which begins at buffer[at], each when it is wanted.

        Each comes with None. If `inner` names an array of structs, the last field of an element, the element comes
        without that field, and then once more with each of its structs. Raises Underflow and WireError.
        """
        fields = _field(self._fields, field).fields
        read = self._struct(tuple(each for each in fields if each.name != inner))
        read_inner = self._struct(_field(fields, inner).fields) if inner else None
        try:
            count, at = _read_count(buffer, at, self._flexible, False)
            for _ in range(count or 0):
                element, at = read(buffer, at)
                yield element, None
                if read_inner is not None:
                    inner_count, at = _read_count(buffer, at, self._flexible, False)
                    for _ in range(inner_count or 0):
                        struct_fields, at = read_inner(buffer, at)
                        yield element, struct_fields
        except struct.error:
            raise Underflow from None

    def _struct(self, fields: tuple[Field, ...]) -> _Read:
        steps: list[tuple[Any, struct.Struct | None, _Read | None]] = []  # of fixed fields together, or of one other
        fixed: list[Field] = []
        present_fields, tagged_fields = split_fields(fields, self._version)
        tagged = {tag: (field.name, self._value(field)) for tag, field in tagged_fields.items()}

        def join_fixed() -> None:
            if fixed:
                formats = ">" + "".join(FORMATS[field.type] for field in fixed)
                steps.append((tuple(field.name for field in fixed), struct.Struct(formats), None))
                fixed.clear()

        for field in present_fields:
            if field.type in FORMATS and field.name not in self._located:
                fixed.append(field)
            else:
                join_fixed()
                steps.append((field.name, None, self._value(field)))
        join_fixed()
        read_tags = self._tags(tagged) if self._flexible else None

        def read(buffer: Buffer, at: int) -> tuple[dict[str, Any], int]:
            values: dict[str, Any] = {}
            for name, together, read_value in steps:
                if together is not None:
                    values.update(zip(name, together.unpack_from(buffer, at), strict=True))
                    at += together.size
                elif read_value is not None:
                    values[name], at = read_value(buffer, at)
            return values, at if read_tags is None else read_tags(buffer, at, values)

        return read

    def _tags(self, tagged: Mapping[int, tuple[str, _Read]]) -> Callable[[Buffer, int, dict[str, Any]], int]:
        """Return the function that adds tagged fields to the values, and returns the index behind them."""
        if not tagged:
            return lambda buffer, at, values: skip_tags(buffer, at, len(buffer))

        def read(buffer: Buffer, at: int, values: dict[str, Any]) -> int:
            count, at = read_uvarint(buffer, at, len(buffer))
            for _ in range(count):
                tag, at = read_uvarint(buffer, at, len(buffer))
                size, at = read_uvarint(buffer, at, len(buffer))
                if at + size > len(buffer):
                    raise Underflow
                if tag in tagged:
                    name, read_value = tagged[tag]
                    values[name] = read_value(buffer, at)[0]
                at += size
            return at

        return read

    def _value(self, field: Field) -> _Read:
        nullable, flexible = self._version in field.nullable, self._flexible
        if not field.type.startswith("[]"):
            if not (field.fields and nullable):
                return self._element(field, field.type, nullable)
            read_struct = self._struct(field.fields)

            def read_nullable(buffer: Buffer, at: int) -> tuple[Any, int]:
                if at >= len(buffer):
                    raise Underflow
                return read_struct(buffer, at + 1) if buffer[at] < 0x80 else (None, at + 1)

            return read_nullable
        kind = field.type[2:]
        read = self._element(field, kind, False)
        together = FORMATS.get(kind) if SIZES.get(kind, 16) < 16 else None  # numbers, which are read all at once

        def read_array(buffer: Buffer, at: int) -> tuple[Any, int]:
            count, at = _read_count(buffer, at, flexible, nullable)
            if count is None:
                return None, at
            if together is not None:
                return struct.unpack_from(f">{count}{together}", buffer, at), at + count * SIZES[kind]
            self._left -= count
            if self._left < 0:
                raise malformed("a message has more structs and strings in its arrays than kproxy reads at once")
            elements = []
            for _ in range(count):
                element, at = read(buffer, at)
                elements.append(element)
            return elements, at

        return read_array

    def _element(self, field: Field, kind: str, nullable: bool) -> _Read:
        flexible = self._flexible
        if field.fields:
            return self._struct(field.fields)
        if kind in FORMATS:
            number = struct.Struct(">" + FORMATS[kind])
            if field.name in self._located:
                return _locate(number.size, self.indexes)
            return lambda buffer, at: (number.unpack_from(buffer, at)[0], at + number.size)
        if kind == "string":
            return lambda buffer, at: read_string(buffer, at, len(buffer), compact=flexible, nullable=nullable)
        # Records are nullable on the wire whatever the definition says.
        width, or_null = 0 if flexible else 4, nullable or kind == "records"

        def read_bytes(buffer: Buffer, at: int) -> tuple[Buffer | None, int]:
            size, at = read_size(buffer, at, len(buffer), width, or_null)
            if at + size > len(buffer):
                raise Underflow
            return (buffer[at : at + size], at + size) if size >= 0 else (None, at)

        return read_bytes


def _field(fields: tuple[Field, ...], name: str) -> Field:
    (field,) = (field for field in fields if field.name == name)
    return field


def _locate(size: int, indexes: list[int]) -> _Read:
    """Return a reader that notes and returns the index of a field of this size."""

    def read(buffer: Buffer, at: int) -> tuple[int, int]:
        if at + size > len(buffer):
            raise Underflow
        indexes.append(at)
        return at, at + size

    return read


def _read_count(buffer: Buffer, at: int, flexible: bool, nullable: bool) -> tuple[int | None, int]:
    count, at = read_size(buffer, at, len(buffer), 0 if flexible else 4, nullable)
    if count > len(buffer) - at:  # each element has a byte at least
        raise Underflow
    return None if count < 0 else count, at


@cache
def request_reader(key: int, version: int) -> MessageReader:
    """Return the reader of one API's requests of one version."""
    return MessageReader(f"{APIS[key].name}Request", version)


@cache
def response_reader(key: int, version: int, *located: str) -> MessageReader:
    """Return the reader of one API's responses of one version. Raises FileNotFoundError if it has no definition."""
    return MessageReader(f"{APIS[key].name}Response", version, located)


class Request(NamedTuple):
    """A request that was read."""

    key: int
    version: int
    correlation_id: int
    fields: dict[str, Any]


_read_header = struct.Struct(">hhih").unpack_from


def read_request(frame: Buffer, most: int = 1 << 31) -> Request:
    """Read a request, a whole frame; for `most` see `MessageReader.read`. Raises Underflow and WireError."""
    key, version, correlation_id, client_id = _read_header(frame, 4)
    fields = request_reader(key, version).read(frame, 14 + max(0, client_id), most)
    return Request(key, version, correlation_id, fields)


def read_response(key: int, version: int, response: Buffer, at: int = 0, longest: int = SHORT) -> dict[str, Any]:
    """Read a response from behind its correlation id, at `at`. Raises Underflow, and WireError if it is longer."""
    if len(response) - at > longest:
        raise malformed(f"a response to {APIS[key].name} has {len(response) - at} bytes")
    return response_reader(key, version).read(response, at)


def read_versions(body: Buffer) -> dict[int, range]:
    """Return the versions that a broker serves, by API key, from an ApiVersions response of version 0."""
    fields = read_response(ApiKey.API_VERSIONS, 0, body)
    return {api["ApiKey"]: range(api["MinVersion"], api["MaxVersion"] + 1) for api in fields["ApiKeys"]}


def text(value: bytes | None) -> str:
    """Return a string, escaped; "" for null."""
    return "" if value is None else escaped(value.decode("utf-8", "replace"))


def text_or_none(value: bytes | None) -> str | None:
    """Return a string, escaped; None for null."""
    return None if value is None else text(value)


# Writing

CLIENT_ID = b"kproxy"


def encode_request(key: int, version: int, correlation_id: int, fields: Fields | bytes = b"") -> bytes:
    """Return a request of kproxy's own, a whole frame. Its fields may be encoded already."""
    flexible = APIS[key].is_flexible(version)
    header = struct.pack(">hhih", key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID + b"\0" * flexible
    body = fields if isinstance(fields, bytes) else encode_fields(f"{APIS[key].name}Request", version, fields)
    return INT32.pack(len(header) + len(body)) + header + body


def encode_response(key: int, version: int, correlation_id: int, fields: Fields) -> bytes:
    """Return a response, a whole frame."""
    header = INT32.pack(correlation_id) + b"\0" * (APIS[key].is_flexible(version) and key != ApiKey.API_VERSIONS)
    body = encode_fields(f"{APIS[key].name}Response", version, fields)
    return INT32.pack(len(header) + len(body)) + header + body


def encode_fields(name: str, version: int, fields: Fields) -> bytes:
    """Return a message without its header."""
    out: list[bytes] = []
    _message_writer(name, version)(out, fields)
    return b"".join(out)


@cache
def _message_writer(name: str, version: int) -> _Write:
    definition = load_message(name)
    return _struct_writer(definition.fields, version, version in definition.flexible)


_EMPTY: Fields = {"string": b"", "bytes": b"", "records": b"", "uuid": bytes(16)}


def _struct_writer(fields: Sequence[Field], version: int, flexible: bool) -> _Write:
    """Return the function that writes the fields that this version has."""
    steps: list[tuple[str, Any, Any, _Write | None]] = []  # of fixed fields together, or of one other, as in the reader
    fixed: list[Field] = []

    def join_fixed() -> None:
        if fixed:
            pack = struct.Struct(">" + "".join(FORMATS[field.type] for field in fixed)).pack
            steps.append(("", [(field.name, _EMPTY.get(field.type, 0)) for field in fixed], pack, None))
            fixed.clear()

    for field in split_fields(tuple(fields), version)[0]:
        if field.type in FORMATS:
            fixed.append(field)
        else:
            join_fixed()
            empty = () if field.type.startswith("[]") else {} if field.fields else _EMPTY[field.type]
            steps.append((field.name, empty, None, _value_writer(field, version, flexible)))
    join_fixed()

    def write(out: list[bytes], values: Any) -> None:
        for name, default, pack, write_value in steps:
            if write_value is None:
                out.append(pack(*[values.get(each, empty) for each, empty in default]))
            else:
                write_value(out, values.get(name, default))
        if flexible:
            out.append(b"\0")

    return write


def _value_writer(field: Field, version: int, flexible: bool) -> _Write:
    if field.type.startswith("[]"):
        return _array_writer(field, version, flexible)
    if not field.fields:
        return _text_writer(field.type, flexible)
    write_struct = _struct_writer(field.fields, version, flexible)
    if version not in field.nullable:
        return write_struct

    def write_nullable(out: list[bytes], value: Any) -> None:
        out.append(b"\xff" if value is None else b"\1")
        if value is not None:
            write_struct(out, value)

    return write_nullable


def _array_writer(field: Field, version: int, flexible: bool) -> _Write:
    kind = field.type[2:]
    write_element: _Write | None = None  # of numbers, which are written all at once
    number = FORMATS.get(kind, "") if not field.fields else ""
    if field.fields:
        write_element = _struct_writer(field.fields, version, flexible)
    elif SIZES.get(kind, 16) >= 16:
        write_element = _uuid if kind in FORMATS else _text_writer(kind, flexible)

    def write(out: list[bytes], elements: Any) -> None:
        count = -1 if elements is None else len(elements)
        out.append(uvarint(count + 1) if flexible else INT32.pack(count))
        if write_element is None:
            out.append(struct.pack(f">{max(0, count)}{number}", *elements or ()))
        else:
            for element in elements or ():
                write_element(out, element)

    return write


def _uuid(out: list[bytes], value: Any) -> None:
    out.append(value)


def _text_writer(kind: str, flexible: bool) -> _Write:
    """Return the function for strings, bytes or records, which are None for null."""
    null = b"\0" if flexible else (INT16 if kind == "string" else INT32).pack(-1)

    def write_string(out: list[bytes], value: Any) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(string(value.encode() if isinstance(value, str) else value, compact=flexible))

    def write_bytes(out: list[bytes], value: Any) -> None:
        if value is None:
            out.append(null)
        else:
            out += (uvarint(len(value) + 1) if flexible else INT32.pack(len(value)), value)

    return write_string if kind == "string" else write_bytes
