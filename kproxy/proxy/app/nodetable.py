"""The table of a cluster's nodes on a terminal; a list where it would be too wide. No host name is broken."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_HEADINGS = ("node", "advertised by the broker", "local address for clients", "reachable from here")
# The last column is wrapped between words, but to no less than this.
_NARROWEST = 32
# What the lines between columns take, with the spaces beside them.
_BETWEEN = 11


@dataclass(frozen=True, slots=True)
class NodeRow:
    """The row of one node."""

    label: str
    advertised: str
    """Its advertised address."""
    local: str
    """Its local address for clients."""
    reachable: str
    """True if kproxy reaches it, in words."""
    good: bool
    """True if kproxy reaches it."""


def stderr_console(coloured: bool) -> Console:
    """Return the terminal on stderr."""
    # Only a terminal needs rich; importing it takes longer than everything else that is shown.
    from rich.console import Console

    return Console(stderr=True, color_system="auto" if coloured else None)


def show_table(terminal: Console, title: str, rows: Sequence[NodeRow]) -> None:
    """Print the nodes, at least one, as the width allows."""
    from rich.table import Table
    from rich.text import Text

    widths = _widths(rows, terminal.width - _BETWEEN)
    if widths:
        table = Table(title=title, title_justify="left", pad_edge=False)
        for heading, width in zip(_HEADINGS, widths, strict=True):
            table.add_column(heading, width=width)
        for row in rows:
            style = "green" if row.good else "red"
            table.add_row(Text(row.label), Text(row.advertised), Text(row.local), Text(row.reachable, style))
        terminal.print(table)
        return
    # A line that is too long all the same is left to the terminal, so that what is copied from it is whole.
    for line in _list(title, rows, terminal.width):
        terminal.print(line, soft_wrap=True)


def _widths(rows: Sequence[NodeRow], room: int) -> list[int]:
    """Return the widths of the columns; none if there is not enough room.

    In the first three columns no cell is wrapped, in the last one only between words; headings are if necessary.
    """
    columns = list(zip(*[(row.label, row.advertised, row.local, row.reachable) for row in rows], strict=True))
    last = max(_longest(word for cell in columns[3] for word in cell.split()), min(_longest(columns[3]), _NARROWEST))
    for headings in (zip(_HEADINGS, strict=True), map(str.split, _HEADINGS)):
        least = [_longest(texts) for texts in headings]
        widths = [max(_longest(column), heading) for column, heading in zip(columns[:3], least, strict=False)]
        remaining = room - sum(widths)
        if remaining >= max(last, least[3]):
            return [*widths, min(remaining, max(_longest(columns[3]), len(_HEADINGS[3])))]
    return []


def _list(title: str, rows: Sequence[NodeRow], width: int) -> list[Text]:
    from rich.text import Text

    lines = [Text(title, "italic")]
    for row in rows:
        lines += [Text(f"node {row.label}: {row.advertised}"), Text(f"  -> {row.local}")]
        words = textwrap.wrap(row.reachable, max(1, width - 5), break_long_words=False, break_on_hyphens=False)
        lines += [Text(f"     {part}", "green" if row.good else "red") for part in words]
    return lines


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)
