"""Tables of text that fit a width. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_BETWEEN = "  "
# Of a heading at least so much is shown.
_HEADING = 8


def cut(text: str, width: int) -> str:
    """`text`, or its beginning and … in its place."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, numbers: frozenset[int] = frozenset()
) -> Iterator[str]:
    """Lines of a table: the widest columns give way until it fits, and cells that no longer do are cut. Columns that
    are `numbers` stand to the right. No line ends with spaces."""
    room = width - len(_BETWEEN) * (len(headings) - 1)
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    if sum(widths) > room and rows:  # a heading gives way before a cell does
        longest = (max(map(len, column)) for column in zip(*rows, strict=True))
        widths = [max(size, min(len(heading), _HEADING)) for size, heading in zip(longest, headings, strict=True)]
    while sum(widths) > room and max(widths) > 1:
        # All the widest at once: of two long columns neither is starved.
        widest = max(widths)
        there = [at for at, one in enumerate(widths) if one == widest]
        below = max((one for one in widths if one < widest), default=1)
        each = max(1, min(widest - below, -(-(sum(widths) - room) // len(there))))
        for at in there:
            widths[at] -= each
    for row in (headings, *rows):
        cells = [cut(cell, size) for cell, size in zip(row, widths, strict=True)]
        placed = [
            cell.rjust(size) if at in numbers else cell.ljust(size)
            for at, (cell, size) in enumerate(zip(cells, widths, strict=True))
        ]
        yield _BETWEEN.join(placed).rstrip()
