"""Responses of the usual shape: hundreds of partitions, none of which has moved.

Fetch and Produce responses may name new leaders in a tagged field at their end (KIP-951), and hardly ever do. To be
sure, every partition is hopped over. What is here does so for the shape that nearly every response has, in a few
byte operations for each partition; anything else is left to the walk.
"""

from __future__ import annotations

from struct import Struct
from struct import error as OutOfBytes

from kproxy.wire.primitives import Buffer


class PlainElement:
    """The usual shape of a partition: `lead` fixed bytes, an array that is empty (or null, if `nullable`), `between`
    fixed bytes, one sized field that may be null, no tagged fields. All counts and sizes are unsigned varints."""

    __slots__ = ("_fixed", "_head", "_lowest")

    def __init__(self, lead: int, between: int, *, nullable: bool) -> None:
        # The byte before it, which is another's tag count; the array's count; three bytes of the size, for 2 MiB.
        self._head = Struct(f">B{lead}xB{between}xBBB").unpack_from
        self._fixed = lead + 1 + between
        self._lowest = 0 if nullable else 1  # a count is one more than what it counts, 0 is null

    def hop(self, buffer: Buffer, at: int, end: int, left: int) -> tuple[int, int]:
        """Hop over plain elements of `left` that begin at buffer[at:end].

        Returns how many are left, with the last one that was hopped over, and the index of that one's tag count, which
        has not been looked at and may lie behind `end`. The same `left` and `at`: the first is not plain, or is not
        here as far as its size.
        """
        stop = end - self._fixed - 4
        if not 0 < at <= stop + 1:
            return left, at
        head, lowest = self._head, self._lowest
        at -= 1
        before = buffer[at]
        # What to add for the byte before and for a size of one, two and three bytes, of which each but the last has
        # its highest bit set. A size is one more than what it counts. None is longer than it need be.
        one = self._fixed + 1
        two, three = one + 1 - 0x80, one + 2 - 0x4080
        hopped = 0
        for hopped in range(left):
            tags, count, size, more, most = head(buffer, at)
            if tags != before or count > 1 or count < lowest:
                break
            if 0 < more < 0x80 <= size:
                at += two + size + (more << 7)
            elif size < 0x80:
                at += one + (size or 1)
            elif more >= 0x80 and 0 < most < 0x80:
                at += three + size + (more << 7) + (most << 14)
            else:
                break
            before = 0
            if at > stop:
                hopped += 1
                break
        else:
            hopped = left
        return (left - hopped + 1, at) if hopped else (left, at + 1)


class PlainResponse:
    """A whole response of the usual shape: `lead` fixed bytes, topics, `trail` fixed bytes, no tagged fields anywhere.

    A topic is a UUID, or else a name (`named`), and partitions, each an `element`.
    """

    __slots__ = ("_element", "_front", "_named", "_topics_at", "_trail")

    def __init__(self, lead: int, trail: int, element: PlainElement, *, named: bool) -> None:
        # Behind size and correlation id: the count of the header's tagged fields, that of the topics.
        self._front = Struct(f">8xB{lead}xB").unpack_from
        self._topics_at = 10 + lead
        self._trail = trail
        self._element = element
        self._named = named

    def fits(self, buffer: Buffer, at: int, end: int) -> bool:
        """Whether the frame at buffer[at:end], all of it, is of this shape, and so names no endpoints."""
        hop = self._element.hop
        try:
            tags, topics = self._front(buffer, at)
            if tags or not 0 < topics < 0x80:
                return False
            at += self._topics_at
            while topics > 1:
                if not self._named:
                    at += 16
                elif 1 < buffer[at] < 0x80:
                    at += buffer[at]
                else:
                    return False
                partitions = buffer[at]
                at += 1
                if partitions >= 0x80:
                    partitions += (buffer[at] << 7) - 0x80
                    at += 1
                if not 0 < partitions < 0x4000:
                    return False
                if partitions > 1:
                    first = at
                    left, at = hop(buffer, at, end, partitions - 1)
                    if left > 1 or at == first or buffer[at]:
                        return False
                    at += 1
                if buffer[at]:
                    return False
                at += 1
                topics -= 1
            at += self._trail
            return at + 1 == end and not buffer[at]
        except (OutOfBytes, IndexError):  # what was taken for a size led beyond the end
            return False
