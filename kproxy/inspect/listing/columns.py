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
    """Return `text`, shortened to `width` with ….

    An address loses the middle of its host, and never its port; any other text loses its end.
    """
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
    """Return the least width of a cell."""
    port = _port(cell)
    return min(len(cell), _HOST + len(port)) if port else 1


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, numbers: frozenset[int] = frozenset()
) -> Iterator[str]:
    """Yield the lines of a table.

    The widest columns shrink until the table fits, and cells that no longer fit are `cut`. A column of addresses keeps
    room for the ports: if necessary, the lines are wider. Columns that are `numbers` are right-aligned. No line ends
    with spaces.
    """
    room = width - len(_BETWEEN) * (len(headings) - 1)
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    if sum(widths) > room and rows:  # a heading gives way before a cell does
        longest = (max(map(len, column)) for column in zip(*rows, strict=True))
        widths = [max(size, min(len(heading), _HEADING)) for size, heading in zip(longest, headings, strict=True)]
    least = [max(map(_least, column), default=1) for column in zip(*rows, strict=True)] or [1] * len(headings)
    while sum(widths) > room and (giving := [index for index, size in enumerate(widths) if size > least[index]]):
        # All the widest at once: of two long columns neither is starved.
        widest = max(widths[index] for index in giving)
        widest_columns = [index for index in giving if widths[index] == widest]
        below = max((widths[index] for index in giving if widths[index] < widest), default=1)
        each = max(1, min(widest - below, -(-(sum(widths) - room) // len(widest_columns))))
        for index in widest_columns:
            widths[index] = max(least[index], widths[index] - each)
    for row in (headings, *rows):
        cells = [cut(cell, size) for cell, size in zip(row, widths, strict=True)]
        aligned = [
            cell.rjust(size) if index in numbers else cell.ljust(size)
            for index, (cell, size) in enumerate(zip(cells, widths, strict=True))
        ]
        yield _BETWEEN.join(aligned).rstrip()
