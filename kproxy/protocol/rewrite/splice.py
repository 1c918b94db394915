"""Replacing the addresses that a walk found: at their own length, or at the same length.

A frame whose size has not left yet takes any length. The size of a streamed frame has left already, so its endpoints'
section, the end of the frame, must keep its length: a shorter section is filled with an unknown tagged field, which
every client skips (KIP-482); a longer one loses its endpoints, and the client refreshes its metadata instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.base.address import Address
from kproxy.protocol.rewrite.walk import Walk
from kproxy.protocol.rewrite.walkplan import WalkPlan
from kproxy.protocol.wire.primitives import INT32, Buffer, malformed, string, uvarint

# (start, end, replacement), in order, without overlaps.
Edit = tuple[int, int, bytes]


def apply(buffer: Buffer, edits: Sequence[Edit], start: int, end: int) -> list[bytes]:
    """Return buffer[start:end] with the edits made, in pieces."""
    pieces = []
    for edit_start, edit_end, replacement in edits:
        pieces.append(bytes(buffer[start:edit_start]))
        pieces.append(replacement)
        start = edit_end
    pieces.append(bytes(buffer[start:end]))
    return pieces


def replacements(plan: WalkPlan, walk: Walk, local: Sequence[Address]) -> list[bytes | None]:
    """Return the new host and port of each of the walk's endpoints; None if the bytes stay the same."""
    return [
        None
        if address == endpoint.advertised
        else string(address.host.encode(), compact=plan.compact) + INT32.pack(address.port)
        for endpoint, address in zip(walk.endpoints, local, strict=True)
    ]


def edits(plan: WalkPlan, walk: Walk, local: Sequence[Address]) -> list[Edit]:
    """Return the edits, in the walk's offsets, that put the local addresses in place of those found."""
    instead = replacements(plan, walk, local)
    new_edits: list[Edit] = []
    grown = 0
    for index, start, end in walk.locations:
        replacement = instead[index]
        if replacement is not None:
            grown += len(replacement) - (end - start)
            new_edits.append((start, end, replacement))
    if walk.field_at is not None and new_edits:
        # The tagged field states its own size.
        start, end = walk.size_at
        new_edits.insert(0, (start, end, uvarint(walk.field_at[1] - end + grown)))
    return new_edits


def same_length(plan: WalkPlan, walk: Walk, section: Buffer, local: Sequence[Address]) -> bytes:
    """Return the endpoints' section (from `walk.mark` to the end of the frame) with local addresses, at its length.

    If the local addresses do not fit, it has no endpoints.
    """
    changes = edits(plan, walk, local)
    if not changes:
        return bytes(section)
    replaced = _fit(walk, section, changes, walk.tag_count)
    if replaced is not None:
        return replaced
    assert walk.mark is not None
    if walk.field_at is not None:
        start, end = walk.field_at
        emptied = _fit(walk, section, [(start, end, b"")], walk.tag_count - 1)
    else:  # the array stands between the mark and the tag section
        emptied = _fit(walk, section, [(walk.mark, walk.tags_at[0], uvarint(1))], walk.tag_count)
    assert emptied is not None  # taking away and filling up always fits
    return emptied


def _fit(walk: Walk, section: Buffer, changes: list[Edit], tag_count: int) -> bytes | None:
    """Make the changes and fill the section up to its length; None if they need more."""
    assert walk.mark is not None
    start, end = walk.tags_at
    room = end - start + sum(end - start - len(new) for start, end, new in changes)
    # `room` bytes for the tag count and the filling.
    if room < len(uvarint(tag_count)):
        return None
    filling = room - len(uvarint(tag_count + 1))
    if room == len(uvarint(tag_count)) or filling < 2:
        # Too little for another field: a longer varint says the same.
        count, fill = uvarint(tag_count, room), b""
    else:
        count, fill = uvarint(tag_count + 1), _unknown_field(walk.tag_numbers, filling)
    # The walk ended behind the last tagged field; what may follow there belongs to no field.
    made = sorted([*changes, (start, end, count), (walk.offset, walk.offset, fill)])
    shifted = [(a - walk.mark, b - walk.mark, new) for a, b, new in made]
    return b"".join(apply(section, shifted, 0, len(section)))


def _unknown_field(taken: int, size: int) -> bytes:
    """Return a tagged field of `size` >= 2 bytes in all, whose number is not among `taken` (a bit each)."""
    number = next((n for n in range(127, 0, -1) if not taken >> n & 1), None)
    if number is None:
        raise malformed("a response has more than a hundred unknown tagged fields")
    content = size - 2
    if content < 128:
        return bytes((number,)) + uvarint(content) + bytes(content)
    content = size - 6
    return bytes((number,)) + uvarint(content, 5) + bytes(content)
