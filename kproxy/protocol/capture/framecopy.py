"""Copying one frame by its message definition, from chunks of any size.

Of a redacted field, no byte is kept, however long it is; so the copy of a Fetch response of 100 MB has some hundred
bytes. The memory is bounded: the copy itself, at most `MAX_COPY` bytes and the length of one chunk, and ten bytes that
wait for the next chunk.

A plan is compiled once for each API and version. It is a generator function, which continues with each chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import cache
from struct import pack

from kproxy.protocol.capture.redaction import is_redacted
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.definitions import SIZES, Field, MessageDefinition, load_message, split_fields
from kproxy.protocol.wire.primitives import (
    INT16,
    INT32,
    MAX_STRING,
    Buffer,
    Underflow,
    malformed,
    read_size,
    read_uvarint,
    uvarint,
)

MAX_COPY = 1024 * 1024
"""The largest copy, in bytes: Metadata of some ten thousand partitions."""

# Versions that Kafka 4 serves no more, so that the definitions do not list them as valid. They still describe them.
_OLDER = frozenset({"ProduceRequest", "ProduceResponse", "FetchRequest", "FetchResponse"})
_NULL = {0: b"\x00", 2: b"\xff\xff", 4: b"\xff\xff\xff\xff"}
_EMPTY = {0: b"\x01", 2: b"\x00\x00", 4: b"\x00\x00\x00\x00"}
# Wireshark's dissector calls a Produce request malformed that has no batch where one must be. So the copy has a batch
# of version 2 with no records in it, 61 bytes (https://kafka.apache.org/documentation/#recordbatch).
_BATCH = pack(">qiibIhiqqqhii", 0, 49, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 0)
_NO_RECORDS = {0: uvarint(len(_BATCH) + 1) + _BATCH, 4: INT32.pack(len(_BATCH)) + _BATCH}

_Running = Generator[None, None, None]
CopyPlan = Callable[["FrameCopy"], _Running]


class CopyTooLong(Exception):
    """The copy would have more than `MAX_COPY` bytes."""


class FrameCopy:
    """The copy of one frame.

    `out` has the bytes so far; `left_out` counts the bytes of redacted fields and of unknown tagged fields; `acks` is
    that of a Produce request, once it has arrived; `done` is true after the last field.
    """

    def __init__(self, plan: CopyPlan) -> None:
        self.out = bytearray()
        self.left_out = 0
        self.acks: int | None = None
        self.done = False
        self._buffer: Buffer = b""  # the last chunk, behind bytes that were not enough for a field
        self._at = 0
        self._before = 0  # bytes of the frame before the buffer
        self._running = plan(self)

    def feed(self, chunk: Buffer) -> None:
        """Take the next bytes of the frame, behind its size.

        Raises WireError if they do not match the plan, and CopyTooLong; after that, the object must not be used.
        """
        left = self._buffer[self._at :]
        self._before += self._at
        self._buffer, self._at = bytes(left) + chunk if left else chunk, 0
        if next(self._running, self) is self:
            self.done = True
            if self._at < len(self._buffer):
                raise malformed("a frame continues after its last field")
        self._buffer, self._at, self._before = bytes(self._buffer[self._at :]), 0, self._before + self._at
        self._check_length()

    def _check_length(self) -> None:
        if len(self.out) > MAX_COPY:
            raise CopyTooLong

    @property
    def position(self) -> int:
        """The index in the frame of the next byte."""
        return self._before + self._at

    def move(self, size: int, *, copied: bool = True) -> _Running:
        """Copy or skip this many bytes."""
        while size:
            part = self._buffer[self._at : self._at + size]
            if copied:
                self.out += part
            else:
                self.left_out += len(part)
            self._at += len(part)
            size -= len(part)
            if size:
                yield

    def size(self, width: int, nullable: bool = False) -> Generator[None, None, int]:
        """Read a size or a count, -1 for null."""
        while True:
            try:
                size, self._at = read_size(self._buffer, self._at, len(self._buffer), width, nullable)
                return size
            except Underflow:
                yield

    def uvarint(self) -> Generator[None, None, int]:
        while True:
            try:
                number, self._at = read_uvarint(self._buffer, self._at, len(self._buffer))
                return number
            except Underflow:
                yield

    def count(self, width: int, nullable: bool) -> Generator[None, None, int]:
        """Copy a count, and return it, 0 for null."""
        self._check_length()
        count = yield from self.size(width, nullable)
        if count < 0:
            self.out += _NULL[width]
        else:
            self.out += uvarint(count + 1) if width == 0 else INT32.pack(count)
        return max(0, count)


class _CopyCompiler:
    def __init__(self, definition: MessageDefinition, version: int) -> None:
        self._name, self._version = definition.name, version
        self._flexible = version in definition.flexible

    def compile(self, fields: tuple[Field, ...], key: int, *, of_request: bool) -> CopyPlan:
        body, header_tags = self._struct(fields), self._struct(())
        has_tags = self._flexible and (of_request or key != ApiKey.API_VERSIONS)  # KIP-511

        def copy_frame(copy: FrameCopy) -> _Running:
            yield from copy.move(8 if of_request else 4)  # API key and version, correlation id
            if of_request:
                yield from _copy_text(copy, 2, True)  # the client id
            if has_tags:
                yield from header_tags(copy)
            yield from body(copy)

        return copy_frame

    def _struct(self, fields: Iterable[Field]) -> CopyPlan:
        steps: list[int | CopyPlan] = []  # a number of bytes, or the plan of a field
        present_fields, tagged_fields = split_fields(fields, self._version)
        tagged = {tag: self._field(field) for tag, field in tagged_fields.items()}
        for field in present_fields:
            if field.type in SIZES and not self._is_acks(field):
                before = steps.pop() if steps and isinstance(steps[-1], int) else 0
                assert isinstance(before, int)
                steps.append(before + SIZES[field.type])
            else:
                steps.append(self._field(field))
        flexible = self._flexible

        def copy_struct(copy: FrameCopy) -> _Running:
            for step in steps:
                yield from copy.move(step) if isinstance(step, int) else step(copy)
            if flexible:
                yield from copy_tags(copy)

        def copy_tags(copy: FrameCopy) -> _Running:
            start, known = len(copy.out), 0
            for _ in range((yield from copy.uvarint())):
                tag = yield from copy.uvarint()
                size = yield from copy.uvarint()
                if tag not in tagged:
                    yield from copy.move(size, copied=False)
                    continue
                known += 1
                copy.out += uvarint(tag)
                content, end = len(copy.out), copy.position + size
                yield from tagged[tag](copy)
                if copy.position != end:
                    raise malformed("a tagged field does not end where its size says")
                copy.out[content:content] = uvarint(len(copy.out) - content)
            copy.out[start:start] = uvarint(known)

        return copy_struct

    def _is_acks(self, field: Field) -> bool:
        return self._name == "ProduceRequest" and field.name == "Acks"

    def _field(self, field: Field) -> CopyPlan:
        nullable, flexible = self._version in field.nullable, self._flexible
        if not field.type.startswith("[]"):
            plan = self._element(field, field.type, nullable)
            return _nullable_struct(plan) if field.fields and nullable else plan
        element = self._element(field, field.type[2:], False)
        if not flexible and not self._has_size(field):
            raise ValueError(f"{self._name} v{self._version}: elements of {field.name} have no size")

        def copy_array(copy: FrameCopy) -> _Running:
            for _ in range((yield from copy.count(0 if flexible else 4, nullable))):
                copy._check_length()
                yield from element(copy)

        return copy_array

    def _has_size(self, field: Field) -> bool:
        """Return whether an element has bytes at all: a count of nothing would be copied without end."""
        return not field.fields or any(self._version in each.versions for each in field.fields)

    def _element(self, field: Field, kind: str, nullable: bool) -> CopyPlan:
        if field.fields:
            return self._struct(field.fields)
        if self._is_acks(field):
            return _copy_acks
        if kind in SIZES:
            size = SIZES[kind]
            return lambda copy: copy.move(size)
        if kind not in ("string", "bytes", "records"):
            raise ValueError(f"{self._name}: unknown type {field.type}")
        width = 0 if self._flexible else 2 if kind == "string" else 4
        if kind != "records" and not is_redacted(self._name, field):
            return lambda copy: _copy_text(copy, width, nullable)
        substitute = _NO_RECORDS[width] if kind == "records" else _EMPTY[width]

        def empty(copy: FrameCopy) -> _Running:
            size = yield from copy.size(width, nullable)
            copy.out += substitute if size > 0 else _EMPTY[width] if size == 0 else _NULL[width]
            yield from copy.move(max(0, size), copied=False)

        return empty


def _copy_text(copy: FrameCopy, width: int, nullable: bool) -> _Running:
    size = yield from copy.size(width, nullable)
    if size > MAX_STRING:
        raise malformed("a string is longer than Kafka allows")
    copy.out += _NULL[width] if size < 0 else uvarint(size + 1) if width == 0 else INT16.pack(size)
    yield from copy.move(max(0, size))


def _copy_acks(copy: FrameCopy) -> _Running:
    start = len(copy.out)
    yield from copy.move(2)
    (copy.acks,) = INT16.unpack_from(copy.out, start)


def _nullable_struct(plan: CopyPlan) -> CopyPlan:
    def copy_struct(copy: FrameCopy) -> _Running:
        start = len(copy.out)
        yield from copy.move(1)
        if copy.out[start] < 0x80:
            yield from plan(copy)

    return copy_struct


@cache
def _definition(name: str) -> MessageDefinition | None:
    try:
        return load_message(name)
    except FileNotFoundError:
        return None


@cache
def plan_for(key: int, version: int, *, of_request: bool) -> CopyPlan | None:
    """Return the plan of a request or response; None if it has no definition.

    Call it only for an API and a version that kproxy passes on: each result is cached.
    """
    definition = _definition(f"{APIS[key].name}{'Request' if of_request else 'Response'}")
    if definition is None:
        return None
    older = definition.name in _OLDER and 0 <= version < definition.versions.start
    if version not in definition.versions and not older:
        return None
    return _CopyCompiler(definition, version).compile(definition.fields, key, of_request=of_request)
