"""Responses of the usual shape: any number of partitions, none of which has moved.

Fetch and Produce responses may name new leaders in a tagged field at their end (KIP-951), and hardly ever do. The last
bytes cannot show that, since a broker may send any port and any rack. This module reads a response of the usual shape
from its first byte to its last, in a few byte operations for each partition, and leaves any other to the walk.
"""

from __future__ import annotations

import sys

from kproxy.protocol.wire.primitives import Buffer

# If there are more than `_FEW` elements, the leading ones that are alike are compared together, `_MANY` at a time. The
# compiled module compares one after another, which is faster there.
_FEW, _MANY = 16 if __file__.endswith((".py", ".pyc")) else sys.maxsize, 256


class PlainElement:
    """The usual shape of a partition.

    It has `lead` fixed bytes, an array that is empty (or null, if `nullable`), `between` fixed bytes, one sized field
    that may be null, and no tagged fields. All counts and sizes are unsigned varints.
    """

    __slots__ = ("_count", "_fixed", "_lowest")

    def __init__(self, lead: int, between: int, *, nullable: bool) -> None:
        self._fixed = lead + 1 + between
        self._count = 1 + lead  # where the count stands, from the byte before
        self._lowest = 0 if nullable else 1  # a count is one more than what it counts, 0 is null

    def hop(self, buffer: Buffer, at: int, end: int, left: int) -> tuple[int, int]:
        """Hop over plain elements of `left` that begin at buffer[at:end].

        Return the number of elements left, with the last one that was hopped over, and the index of that one's tag
        count, which was not read and may lie behind `end`. If both are the same as before, the first element is not
        plain, or does not reach its size.
        """
        stop = end - self._fixed - 4
        if not 0 < at <= stop + 1:
            return left, at
        to_count, to_size, lowest = self._count, self._fixed + 1, self._lowest
        at -= 1
        before = buffer[at]
        # The steps for a size of one, two and three bytes, with the byte before; each size byte but the last has
        # its highest bit set. A size is one more than what it counts. None is longer than it need be.
        step_one = self._fixed + 1
        step_two, step_three = step_one + 1 - 0x80, step_one + 2 - 0x4080
        hopped = alike = 0
        while left > _FEW and at <= stop:
            more, at = self._hop_alike(buffer, at, stop, left)
            alike, left = alike + more, left - more
            if more < _MANY or buffer[at]:
                break
        if alike:
            before = 0
            if not left or at > stop:
                return left + 1, at
        for hopped in range(left):
            # buffer[at] is the tag count of the element before.
            count, size = buffer[at + to_count], buffer[at + to_size]
            if buffer[at] != before or count > 1 or count < lowest:
                break
            if size < 0x80:
                at += step_one + (size or 1)
            else:  # two bytes, or three, for 2 MiB
                more, most = buffer[at + to_size + 1], buffer[at + to_size + 2]
                if 0 < more < 0x80:
                    at += step_two + size + (more << 7)
                elif more >= 0x80 and 0 < most < 0x80:
                    at += step_three + size + (more << 7) + (most << 14)
                else:
                    break
            before = 0
            if at > stop:
                hopped += 1
                break
        else:
            hopped = left
        return (left - hopped + 1, at) if hopped or alike else (left, at + 1)

    def _hop_alike(self, buffer: Buffer, at: int, stop: int, left: int) -> tuple[int, int]:
        """Hop over plain elements of one size of up to 126, as long as they are alike.

        buffer[at] is the byte before the first. Return their number, and the index of the last one's tag count.
        """
        count, size = buffer[at + self._count], buffer[at + self._fixed + 1]
        if not self._lowest <= count <= 1 or size > 0x7F:
            return 0, at
        step = self._fixed + 1 + (size or 1)
        most = min(left, _MANY, (stop - at) // step + 1)
        data = bytes(buffer[at : at + (most - 1) * step + self._fixed + 2])  # slices of it are much faster
        alike = min(
            1 + _count_leading(0, data[step::step]),
            _count_leading(count, data[self._count :: step]),
            _count_leading(size, data[self._fixed + 1 :: step]),
        )
        return alike, at + alike * step


class PlainResponse:
    """The usual shape of a response.

    It has no tagged fields in its header, `lead` fixed bytes, an array of topics, `behind` fixed bytes, and no tagged
    fields. A topic is an id of 16 bytes, or, if `named`, a name; then an array of plain partitions, and no tagged
    fields. All counts and sizes are unsigned varints.
    """

    __slots__ = ("_behind", "_lead", "_named", "_partition")

    def __init__(self, lead: int, partition: PlainElement, behind: int, *, named: bool) -> None:
        self._lead = 8 + 1 + lead  # size, correlation id, count of tagged fields
        self._partition = partition
        self._behind = behind
        self._named = named

    def names_no_endpoint(self, buffer: Buffer, at: int, end: int) -> bool:
        """Return whether the frame in buffer[at:end] has this shape throughout, so that it names no endpoint.

        If this is false, it may still name none: a walk decides.
        """
        if end - at <= self._lead or buffer[at + 8]:
            return False
        try:
            at = self._hop_over_topics(buffer, at + self._lead, end) + self._behind
            return at == end - 1 and not buffer[at]
        except IndexError:
            return False

    def _hop_over_topics(self, buffer: Buffer, at: int, end: int) -> int:
        """Return the index after the topics that begin at buffer[at:end]; `end` if they are not all plain."""
        partition, named = self._partition, self._named
        topics = buffer[at]
        at += 1
        if topics > 0x7F:
            topics, at = _wide(buffer, topics, at)
        if not 0 < topics <= end - at:
            return end
        for _ in range(topics - 1):
            if not named:
                at += 16
            elif 0 < buffer[at] < 0x80:
                at += buffer[at]
            else:
                return end
            partitions = buffer[at]
            at += 1
            if partitions > 0x7F:
                partitions, at = _wide(buffer, partitions, at)
            if partitions > 1:
                first = at
                left, at = partition.hop(buffer, at, end, partitions - 1)
                if left != 1 or at == first or buffer[at]:
                    return end
                at += 1
            elif not partitions:
                return end
            if buffer[at]:
                return end
            at += 1
        return at


def _wide(buffer: Buffer, first: int, at: int) -> tuple[int, int]:
    """Return a count in two bytes, the second at buffer[at], and the index after it; 0 for any other length."""
    second = buffer[at]
    return (first - 0x80 + (second << 7) if 0 < second < 0x80 else 0), at + 1


def _count_leading(byte: int, data: bytes) -> int:
    """Return the number of leading bytes with this value."""
    return len(data) - len(data.lstrip(bytes((byte,))))
