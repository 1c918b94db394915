"""The output of `kproxy tap`: the lines that another kproxy sends, as they are, as text, or summed up in a table."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from kproxy.base.errors import AdminError
from kproxy.base.format import format_duration, format_number
from kproxy.base.printable import one_line
from kproxy.proxy.watch.feed import parse_line

if TYPE_CHECKING:
    from rich.table import Table

# What is kept of each row of the table, for the percentiles, and how many rows there are at most.
_LATENCIES, _ROWS, _SHOWN = 1_000, 200, 40
_RENEW_EVERY = 1.0
_LONGEST = 300
_NAMES = ("node", "API", "client")
_HEADINGS = (*_NAMES, "requests", "per s", "p50", "p99", "errors")
# From this width on, two spaces are between columns.
_WIDE = 100


def write_json(lines: Iterable[bytes], out: TextIO) -> None:
    """Write each line as it came. Raises AdminError."""
    for line in lines:
        if _value(line):
            out.write(line.decode("utf-8", "replace"))
            out.flush()


def write_lines(lines: Iterable[bytes], out: TextIO) -> None:
    """Write each exchange as a line of text. Raises AdminError."""
    for line in lines:
        value = _value(line)
        if value:
            out.write(one_line(exchange_text(value), _LONGEST) + "\n")
            out.flush()


def exchange_text(value: Mapping[str, Any]) -> str:
    """Return one exchange, or the number of missing ones, in words."""
    if "lost" in value:
        return f"... {value['lost']} lines are missing: this reader is too slow"
    when = datetime.fromtimestamp(float(value.get("time", 0))).strftime("%H:%M:%S.%f")[:-3]
    seconds = value.get("seconds")
    took = "no response" if seconds is None else f"{float(seconds) * 1000:.1f} ms"
    parts = [
        when,
        str(value.get("client", "")),
        _client_text(value),
        "->",
        str(value.get("node", "")),
        f"{value.get('api', '')} v{value.get('version', '')}",
        f"{value.get('request_bytes', 0)}/{value.get('response_bytes', 0)} B",
        took,
    ]
    if value.get("error"):
        parts.append(f"error {value['error']}")
    rewritten = value.get("rewritten") or ()
    parts += [f"{pair.get('from')} => {pair.get('to')}" for pair in rewritten if isinstance(pair, dict)]
    return " ".join(parts)


def _client_text(value: Mapping[str, Any]) -> str:
    client_id, software = str(value.get("client_id") or "-"), str(value.get("software") or "")
    return f"{client_id} ({software})" if software else client_id


@dataclass(slots=True)
class _SummaryRow:
    count: int = 0
    errors: int = 0
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCIES))


class Summary:
    """Exchanges summed up by node, API and client. `lost` is the number of missing lines."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], _SummaryRow] = {}
        self._began = time.monotonic()
        self.lost = 0

    def add(self, value: Mapping[str, Any]) -> None:
        """Take in a line."""
        if "lost" in value:
            self.lost += int(value["lost"])
            return
        key = (str(value.get("node", "")), str(value.get("api", "")), str(value.get("client_id") or "-"))
        if key not in self._rows and len(self._rows) >= _ROWS:
            key = ("others", "", "")
        row = self._rows.setdefault(key, _SummaryRow())
        row.count += 1
        row.errors += bool(value.get("error"))
        if value.get("seconds") is not None:
            row.latencies.append(float(value["seconds"]))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows as text, the busiest first."""
        seconds = max(0.001, time.monotonic() - self._began)
        for key, row in sorted(self._rows.items(), key=lambda item: -item[1].count):
            ordered = sorted(row.latencies)
            yield (
                *(one_line(part, 40) for part in key),
                str(row.count),
                format_number(row.count / seconds),
                _percentile(ordered, 0.5),
                _percentile(ordered, 0.99),
                str(row.errors or ""),
            )


def _percentile(ordered: list[float], share: float) -> str:
    if not ordered:
        return ""
    return format_duration(ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)])


def render_table(summary: Summary, width: int) -> Table:
    """Return the table for this width. Names are shortened if necessary, numbers never."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1 if width < _WIDE else 2, 0, 0))
    for heading in _HEADINGS:
        number = heading not in _NAMES
        table.add_column(heading, justify="right" if number else "left", no_wrap=number)
    for row in list(summary.rows())[:_SHOWN]:
        table.add_row(*(Text(part, no_wrap=True, overflow="ellipsis") for part in row))
    if summary.lost:
        table.caption = f"{summary.lost} lines are missing"
    return table


def write_table(lines: Iterable[bytes], out: TextIO) -> None:
    """Show a table that is renewed. Raises AdminError."""
    from rich.console import Console
    from rich.live import Live

    summary, console = Summary(), Console(file=out)
    with Live(render_table(summary, console.width), console=console, auto_refresh=False) as live:
        renewed = 0.0
        for line in lines:
            value = _value(line)
            if value:
                summary.add(value)
            if time.monotonic() - renewed >= _RENEW_EVERY:
                renewed = time.monotonic()
                live.update(render_table(summary, console.width), refresh=True)


def _value(line: bytes) -> Mapping[str, Any]:
    try:
        return parse_line(line)
    except ValueError:
        raise AdminError("the server at --admin is not kproxy: its lines are not JSON") from None
