"""Tables of text that fit a width. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_BETWEEN = "  "
# Of a heading at least so much is shown.
_HEADING = 8


# What ends with a port: HOST:PORT, NAME://HOST:PORT, direct (HOST:PORT), or one before a colon or comma.
_WITH_PORT = re.compile(r".+(:\d{1,5}[):,]?)", re.DOTALL)
# Of a host at least so much is shown, … included.
_HOST = 7


def cut(text: str, width: int) -> str:
    """`text`, or what fits of it, with … for the rest: of an address the middle of its host is left out, and never the
    port; of anything else the end."""
    if len(text) <= width:
        return text
    port = _port(text)
    room = width - len(port) - 1
    if not port or room < 0:
        return f"{text[: width - 1]}…"
    host = text[: -len(port)]
    return f"{host[: room - room // 2]}…{host[len(host) - room // 2 :]}{port}"


def _port(text: str) -> str:
    match = _WITH_PORT.fullmatch(text)
    return "" if match is None else match[1]


def _least(cell: str) -> int:
    """As narrow as a cell may become."""
    port = _port(cell)
    return min(len(cell), _HOST + len(port)) if port else 1


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, numbers: frozenset[int] = frozenset()
) -> Iterator[str]:
    """Lines of a table: the widest columns give way until it fits, and cells that no longer do are `cut`. A column of
    addresses keeps room for the ports: if need be, the lines are wider. Columns that are `numbers` stand to the right.
    No line ends with spaces."""
    room = width - len(_BETWEEN) * (len(headings) - 1)
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    if sum(widths) > room and rows:  # a heading gives way before a cell does
        longest = (max(map(len, column)) for column in zip(*rows, strict=True))
        widths = [max(size, min(len(heading), _HEADING)) for size, heading in zip(longest, headings, strict=True)]
    least = [max(map(_least, column), default=1) for column in zip(*rows, strict=True)] or [1] * len(headings)
    while sum(widths) > room and (giving := [at for at, size in enumerate(widths) if size > least[at]]):
        # All the widest at once: of two long columns neither is starved.
        widest = max(widths[at] for at in giving)
        there = [at for at in giving if widths[at] == widest]
        below = max((widths[at] for at in giving if widths[at] < widest), default=1)
        each = max(1, min(widest - below, -(-(sum(widths) - room) // len(there))))
        for at in there:
            widths[at] = max(least[at], widths[at] - each)
    for row in (headings, *rows):
        cells = [cut(cell, size) for cell, size in zip(row, widths, strict=True)]
        placed = [
            cell.rjust(size) if at in numbers else cell.ljust(size)
            for at, (cell, size) in enumerate(zip(cells, widths, strict=True))
        ]
        yield _BETWEEN.join(placed).rstrip()
