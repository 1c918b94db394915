"""Responses of the usual shape: hundreds of partitions, none of which has moved.

Fetch and Produce responses may name new leaders in a tagged field at their end (KIP-951), and hardly ever do. Their
last bytes tell, if the broker is known to write nothing behind that field. Otherwise, and if a response must leave
before its end has come, every partition is hopped over; what is here does so for the shape that nearly every partition
has, in a few byte operations, and leaves anything else to the walk.
"""

from __future__ import annotations

from struct import Struct

from kproxy.wire.primitives import Buffer

_read_end = Struct(">IH").unpack_from
_NULL, _EMPTY = 0x0000, 0x0100  # a rack, and an empty tag section


def ends_without_endpoint(buffer: Buffer, end: int) -> bool:
    """Whether the last six bytes before `end` show that no endpoint stands there, in a version that has them last.

    An endpoint ends with its port (int32), its rack (a compact string, nullable) and an empty tag section. If the last
    two bytes are 0 0 or 1 0, its rack is null or empty, as no rack's last character is a control character; then what
    stands before them must be a port, and is none if it is 0 or above 65,535. -1 is one: Kafka writes it for a broker
    that it does not know.
    """
    port, rest = _read_end(buffer, end - 6)
    return rest in (_NULL, _EMPTY) and (not port or 0xFFFF < port != 0xFFFFFFFF)


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
