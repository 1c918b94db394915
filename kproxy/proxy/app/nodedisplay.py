"""The display of a cluster's nodes at start: where each is, and whether kproxy can reach it.

On a terminal it is a table, or a list where that would be too wide; no host name is broken. Elsewhere it is one log
line for each node.
"""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kproxy.base.messages.start import CANNOT_BE_REACHED, READY_WITH
from kproxy.net.dial.routes import RouteKind
from kproxy.proxy.app import logs
from kproxy.proxy.cluster.reachability import Proof
from kproxy.proxy.status.model import ClusterStatus, NodeStatus
from kproxy.proxy.status.readiness import Requires, advice, not_ready_reasons

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

log = logging.getLogger(__name__)


def show_nodes(cluster: ClusterStatus, log_format: str, requires: Requires) -> None:
    """Display every node of the cluster, and whether the cluster is ready."""
    if log_format == "auto" and sys.stderr is not None and sys.stderr.isatty() and log.isEnabledFor(logging.INFO):
        _table(cluster)
    else:
        for node in cluster.nodes:
            level = logging.INFO if node.problem is None else logging.WARNING
            log.log(level, "%s: %s -> %s: %s", node.name, node.advertised, node.local, _reachable(node))
    total, lost = len(cluster.present), len(cluster.out_of_reach)
    if lost:
        log.warning("cluster %s: %s", cluster.name, advice(cluster))
    state = READY_WITH(reached=total - lost, nodes=total, option=requires) if lost else "ready"
    if not_ready_reasons(cluster, requires):
        log.warning(
            "cluster %s: NOT ready: %d of %d nodes can be reached (--ready-requires %s)",
            cluster.name,
            total - lost,
            total,
            requires,
        )
    elif cluster.bootstrap is None:
        # The ports are published under other numbers, that of the bootstrap listener too; only the user knows it.
        log.info("cluster %s: %s; clients use the port that publishes %s", cluster.name, state, cluster.listen)
    else:
        log.info("cluster %s: %s; bootstrap.servers=%s", cluster.name, state, cluster.bootstrap)


def _reachable(node: NodeStatus) -> str:
    if node.problem is not None:
        return CANNOT_BE_REACHED(problem=node.problem)
    if node.dial is None:
        return "not tried yet"
    if node.proof == Proof.UNCHECKED.value:
        if node.route == RouteKind.UNIDENTIFIED.value:
            return "one of the bootstrap servers; kproxy finds out which one after a client has logged in"
        return f"{node.dial} answers; kproxy checks which node it is after a client has logged in"
    where = "reachable" if node.dial == node.advertised else f"reachable through {node.dial} ({node.route})"
    return f"{where}, assumed" if node.proof == Proof.ASSUMED.value else where


def _table(cluster: ClusterStatus) -> None:
    rows = [
        NodeRow(node.node, node.advertised, node.local, _reachable(node), node.problem is None)
        for node in cluster.nodes
    ]
    terminal = stderr_console(logs.coloured(sys.stderr))
    show_table(terminal, f"cluster {cluster.name}", rows)


_HEADINGS = ("node", "advertised by the broker", "for clients", "kproxy connects to")
# The last column is wrapped between words, but to no less than this.
_NARROWEST = 24
# The spaces between columns.
_BETWEEN = 6


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

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """What stands in the table. The heading of the last column has its first words."""
        last = "its advertised address" if self.reachable == "reachable" else self.reachable
        return self.label, self.advertised, self.local, last.removeprefix("reachable through ")


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
        table = Table(
            title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False
        )
        for heading, width in zip(_HEADINGS, widths, strict=True):
            table.add_column(heading, width=width)
        for row in rows:
            style = "green" if row.good else "red"
            *cells, last = row.cells
            table.add_row(*map(Text, cells), Text(last, style))
        terminal.print(table)
        return
    # A line that is too long all the same is left to the terminal, so that what is copied from it is whole.
    for line in _list(title, rows, terminal.width):
        terminal.print(line, soft_wrap=True)


def _widths(rows: Sequence[NodeRow], room: int) -> list[int]:
    """Return the widths of the columns; none if there is not enough room.

    In the first three columns no cell is wrapped, in the last one only between words; headings are if necessary.
    """
    columns = list(zip(*[row.cells for row in rows], strict=True))
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

    lines = [Text(title, "bold")]
    for row in rows:
        lines += [Text(f"node {row.label}: {row.advertised}"), Text(f"  -> {row.local}")]
        words = textwrap.wrap(row.reachable, max(1, width - 5), break_long_words=False, break_on_hyphens=False)
        lines += [Text(f"     {part}", "green" if row.good else "red") for part in words]
    return lines


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)
