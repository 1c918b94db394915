"""Reading a response field by field, every bound checked. Pure."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TypeVar

from kproxy.base.printable import escaped
from kproxy.protocol.wire.primitives import (
    INT16,
    INT32,
    Buffer,
    Underflow,
    malformed,
    read_string,
    read_uvarint,
    skip_tags,
)

T = TypeVar("T")

_BOOLEAN, _INT8, _INT64 = Struct(">?"), Struct(">b"), Struct(">q")


class ResponseReader:
    """A reader of the fields of a response, one after the other.

    `compact`: strings and arrays are those of a flexible version (KIP-482). Each read raises Underflow if the response
    ends before, and WireError if it is malformed.
    """

    def __init__(self, body: Buffer, at: int = 0, *, compact: bool = False) -> None:
        self._body = body
        self._at = at
        self._compact = compact

    @property
    def at(self) -> int:
        """The index of the next field."""
        return self._at

    def int8(self) -> int:
        return int(self._number(_INT8))

    def int16(self) -> int:
        return int(self._number(INT16))

    def int32(self) -> int:
        return int(self._number(INT32))

    def int64(self) -> int:
        return int(self._number(_INT64))

    def boolean(self) -> bool:
        return bool(self._number(_BOOLEAN))

    def text(self) -> str:
        """Read a string, escaped; "" for null."""
        return self.text_or_none() or ""

    def text_or_none(self) -> str | None:
        text, self._at = read_string(self._body, self._at, len(self._body), compact=self._compact, nullable=True)
        return None if text is None else escaped(text.decode("utf-8", "replace"))

    def raw(self) -> bytes:
        """Read a string without decoding; b"" for null."""
        text, self._at = read_string(self._body, self._at, len(self._body), compact=self._compact, nullable=True)
        return text or b""

    def uuid(self) -> str:
        """Read 16 bytes as hexadecimal; "" for Kafka's zero UUID, which means none (KIP-516)."""
        at = self._at
        if at + 16 > len(self._body):
            raise Underflow
        self._at = at + 16
        uuid = bytes(self._body[at : at + 16])
        return uuid.hex() if any(uuid) else ""

    def blob(self) -> Buffer:
        """Read bytes after an int32 size, not copied if the response is a memoryview; empty for null."""
        size = max(0, self.int32())
        at = self._at
        if at + size > len(self._body):
            raise Underflow
        self._at = at + size
        return self._body[at : at + size]

    def skip(self, size: int) -> None:
        """Skip `size` bytes."""
        if self._at + size > len(self._body):
            raise Underflow
        self._at += size

    def skip_blob(self) -> None:
        """Skip bytes, or records."""
        self.skip(max(0, self._uvarint() - 1 if self._compact else self.int32()))

    def array(self, read_element: Callable[[], T]) -> tuple[T, ...]:
        """Read an array by the function for one element; empty for null."""
        return tuple(read_element() for _ in range(self.count()))

    def int32s(self) -> tuple[int, ...]:
        """Read an array of int32, faster than `array`."""
        count = self.count()
        end = self._at + 4 * count
        if end > len(self._body):
            raise Underflow
        numbers = tuple(number for (number,) in INT32.iter_unpack(self._body[self._at : end]))
        self._at = end
        return numbers

    def tags(self) -> None:
        """Skip tagged fields, which exist only in flexible versions."""
        if self._compact:
            self._at = skip_tags(self._body, self._at, len(self._body))

    def tagged(self) -> list[tuple[int, bytes]]:
        """Read tagged fields, number and value; call it only for flexible versions."""
        fields = []
        for _ in range(self._uvarint()):
            tag, size = self._uvarint(), self._uvarint()
            if self._at + size > len(self._body):
                raise Underflow
            fields.append((tag, bytes(self._body[self._at : self._at + size])))
            self._at += size
        return fields

    def count(self) -> int:
        """Read the number of an array's elements."""
        count = self._uvarint() - 1 if self._compact else self.int32()
        if count < -1:
            raise malformed("an array has a negative length")
        if count > len(self._body) - self._at:  # each has a byte at least
            raise Underflow
        return max(0, count)

    def _uvarint(self) -> int:
        number, self._at = read_uvarint(self._body, self._at, len(self._body))
        return number

    def _number(self, kind: Struct) -> float:
        if self._at + kind.size > len(self._body):
            raise Underflow
        (number,) = kind.unpack_from(self._body, self._at)
        self._at += kind.size
        return number  # type: ignore[no-any-return]  # the type of a Struct's fields is unknown
