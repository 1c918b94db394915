"""Copying one frame by its plan, from chunks of any size.

Of a redacted field, no byte is kept, however long it is; so the copy of a Fetch response of 100 MB has some hundred
bytes. Each step is taken whole or not at all; strings and redacted fields may end in any later chunk. The memory is
bounded: the copy itself, at most `MAX_COPY` bytes and the length of one chunk, and ten bytes that wait for the next
chunk.
"""

from __future__ import annotations

from struct import pack

from kproxy.protocol.capture import copyplan as op
from kproxy.protocol.capture.copyplan import CopyPlan
from kproxy.protocol.wire.primitives import (
    INT16,
    INT32,
    MAX_STRING,
    Buffer,
    Underflow,
    malformed,
    read_uvarint,
    uvarint,
)

MAX_COPY = 1024 * 1024
"""The largest copy, in bytes: Metadata of some ten thousand partitions."""

_NULL = {0: b"\x00", 2: b"\xff\xff", 4: b"\xff\xff\xff\xff"}
_EMPTY = {0: b"\x01", 2: b"\x00\x00", 4: b"\x00\x00\x00\x00"}
# Wireshark's dissector calls a Produce request malformed that has no batch where one must be. So the copy has a batch
# of version 2 with no records in it, 61 bytes (https://kafka.apache.org/documentation/#recordbatch).
_BATCH = pack(">qiibIhiqqqhii", 0, 49, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 0)
_NO_RECORDS = {0: uvarint(len(_BATCH) + 1) + _BATCH, 4: INT32.pack(len(_BATCH)) + _BATCH}


class CopyTooLong(Exception):
    """The copy would have more than `MAX_COPY` bytes."""


class _TagSection:
    """A tag section that the copy is in.

    `left` is the number of fields still to come, `copied` of those in the copy; that count belongs at `at` of the copy.
    The current field ends at `ends` of the frame, and its size belongs at `size_at` of the copy.
    """

    __slots__ = ("after", "at", "begins", "copied", "ends", "left", "size_at")

    def __init__(self, left: int, at: int, begins: dict[int, int], after: int) -> None:
        self.left, self.at, self.begins, self.after = left, at, begins, after
        self.copied = self.ends = self.size_at = 0


class FrameCopy:
    """The copy of one frame.

    `out` has the bytes so far; `left_out` counts the bytes of redacted fields and of unknown tagged fields; `acks` is
    that of a Produce request, once it has arrived; `done` is true after the last field.
    """

    __slots__ = (
        "_consumed",
        "_copying",
        "_left",
        "_loops",
        "_sections",
        "_step",
        "_steps",
        "_tail",
        "acks",
        "done",
        "left_out",
        "out",
    )

    def __init__(self, plan: CopyPlan) -> None:
        self._steps = plan
        self._step = 0
        self._left = 0  # bytes of the current field that are still to be copied or skipped
        self._copying = False
        self._loops: list[int] = []  # elements left, of each array that it is in
        self._sections: list[_TagSection] = []
        self._tail = b""  # the beginning of a step
        self._consumed = 0  # bytes of the frame, without the tail
        self.out = bytearray()
        self.left_out = 0
        self.acks: int | None = None
        self.done = False

    def feed(self, chunk: Buffer) -> None:
        """Take the next bytes of the frame, behind its size.

        Raises WireError if they do not match the plan, and CopyTooLong; after that, the object must not be used.
        """
        at, end = 0, len(chunk)
        if self._left:
            at = self._move(chunk, 0, end)
        elif self._tail:
            chunk = self._tail + bytes(chunk)
            end = len(chunk)
        if not self._left:
            at = self._take_steps(chunk, at, end)
        self._consumed += at
        self._tail = bytes(chunk[at:end])
        if self.done and self._tail:
            raise malformed("a frame continues after its last field")
        if len(self.out) > MAX_COPY:
            raise CopyTooLong

    def _move(self, chunk: Buffer, at: int, end: int) -> int:
        """Copy or skip the `_left` bytes from here on, as far as they have arrived; return the index behind them."""
        stop = min(end, at + self._left)
        if self._copying:
            self.out += chunk[at:stop]
        else:
            self.left_out += stop - at
        self._left -= stop - at
        return stop

    def _take_steps(self, chunk: Buffer, at: int, end: int) -> int:  # noqa: C901  # a branch per op
        """Take steps until one needs more bytes than there are; return the index of the first byte not taken."""
        steps, step, out = self._steps, self._step, self.out
        try:
            while len(out) <= MAX_COPY:
                code, a, b = steps[step]
                size, after = 0, at
                if code == op.FIXED:
                    size = a
                elif code in (op.TEXT, op.EMPTIED, op.RECORDS):
                    size, after = _read_size(chunk, at, end, a, b)
                    if code == op.RECORDS and size > 0:
                        out += _NO_RECORDS[a]
                    elif code == op.TEXT:
                        if size > MAX_STRING:
                            raise malformed("a string is longer than Kafka allows")
                        out += chunk[at:after]
                    else:
                        out += _NULL[a] if size < 0 else _EMPTY[a]
                    size = max(0, size)
                elif code == op.ARRAY:
                    nullable, behind = b
                    count, after = _read_size(chunk, at, end, a, nullable)
                    out += chunk[at:after]
                    at = after
                    if count <= 0:
                        step = behind
                        continue
                    self._loops.append(count)
                elif code == op.NEXT:
                    if self._loops[-1] > 1:
                        self._loops[-1] -= 1
                        step = a
                        continue
                    self._loops.pop()
                elif code == op.TAGS:
                    count, after = read_uvarint(chunk, at, end)
                    at = after
                    if not count:
                        out.append(0)
                        step = b
                        continue
                    self._sections.append(_TagSection(count, len(out), a, b))
                elif code == op.TAG:
                    section = self._sections[-1]
                    if not section.left:
                        self._sections.pop()
                        out[section.at : section.at] = uvarint(section.copied)
                        step = section.after
                        continue
                    number, after = read_uvarint(chunk, at, end)
                    size, after = read_uvarint(chunk, after, end)
                    section.left -= 1
                    begin = section.begins.get(number)
                    if begin is not None:
                        at = after
                        section.copied += 1
                        out += uvarint(number)
                        section.size_at, section.ends = len(out), self._consumed + at + size
                        step = begin
                        continue
                    step -= 1  # the step after this one is this one again
                elif code == op.TAG_END:
                    section = self._sections[-1]
                    if self._consumed + at != section.ends:
                        raise malformed("a tagged field does not end where its size says")
                    out[section.size_at : section.size_at] = uvarint(len(out) - section.size_at)
                    step = a
                    continue
                elif code == op.MAYBE:
                    if at >= end:
                        raise Underflow
                    out.append(chunk[at])
                    at += 1
                    step = step + 1 if chunk[at - 1] < 0x80 else a
                    continue
                elif code == op.ACKS:
                    if end - at < 2:
                        raise Underflow
                    (self.acks,) = INT16.unpack_from(chunk, at)
                    size = 2
                else:  # STOP
                    self.done = True
                    return at
                step += 1
                at = after
                if size:
                    self._left, self._copying = size, code in (op.FIXED, op.TEXT, op.ACKS)
                    at = self._move(chunk, at, end)
                    if self._left:
                        return at
            return at
        except Underflow:  # every branch above reads before it changes anything
            return at
        finally:
            self._step = step


def _read_size(chunk: Buffer, at: int, end: int, width: int, nullable: bool) -> tuple[int, int]:
    """Return the size of a string or of bytes, or the count of an array, -1 for null, and the index after it."""
    if width == 0:
        size, at = read_uvarint(chunk, at, end)
        size -= 1
    else:
        if end - at < width:
            raise Underflow
        (size,) = (INT16 if width == 2 else INT32).unpack_from(chunk, at)
        at += width
    if size < -1 or (size == -1 and not nullable):
        raise malformed("a field that cannot be null has a negative size")
    return size, at
