"""What `kproxy tap` shows of the lines that another kproxy sends: as they are, as text, or summed up in a table."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TextIO

from kproxy.errors import AdminError
from kproxy.printable import one_line
from kproxy.watch.lines import read

# What is kept of each row of the table, for the percentiles, and how many rows there are at most.
_LATENCIES, _ROWS, _SHOWN = 1_000, 200, 40
_RENEW_EVERY = 1.0
_LONGEST = 300
_HEADINGS = ("node", "API", "client", "requests", "per s", "p50", "p99", "errors")


def as_json(lines: Iterable[bytes], out: TextIO) -> None:
    """Each line as it came. Raises AdminError."""
    for line in lines:
        if _value(line):
            out.write(line.decode("utf-8", "replace"))
            out.flush()


def as_lines(lines: Iterable[bytes], out: TextIO) -> None:
    """Each exchange as a line of text. Raises AdminError."""
    for line in lines:
        value = _value(line)
        if value:
            out.write(one_line(text_of(value), _LONGEST) + "\n")
            out.flush()


def text_of(value: Mapping[str, Any]) -> str:
    """One exchange, or how many are missing, in words."""
    if "lost" in value:
        return f"... {value['lost']} lines are missing: this reader is too slow"
    when = datetime.fromtimestamp(float(value.get("time", 0))).strftime("%H:%M:%S.%f")[:-3]
    seconds = value.get("seconds")
    took = "no response" if seconds is None else f"{float(seconds) * 1000:.1f} ms"
    parts = [
        when, str(value.get("client", "")), _who(value), "->", str(value.get("node", "")),
        f"{value.get('api', '')} v{value.get('version', '')}",
        f"{value.get('request_bytes', 0)}/{value.get('response_bytes', 0)} B", took,
    ]  # fmt: skip
    if value.get("error"):
        parts.append(f"error {value['error']}")
    rewritten = value.get("rewritten") or ()
    parts += [f"{one.get('from')} => {one.get('to')}" for one in rewritten if isinstance(one, dict)]
    return " ".join(parts)


def _who(value: Mapping[str, Any]) -> str:
    client_id, software = str(value.get("client_id") or "-"), str(value.get("software") or "")
    return f"{client_id} ({software})" if software else client_id


@dataclass(slots=True)
class _Row:
    count: int = 0
    errors: int = 0
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCIES))


class Summary:
    """Exchanges summed up by node, API and client. `lost` is how many lines are missing."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], _Row] = {}
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
        row = self._rows.setdefault(key, _Row())
        row.count += 1
        row.errors += bool(value.get("error"))
        if value.get("seconds") is not None:
            row.latencies.append(float(value["seconds"]))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The busiest first, as text."""
        seconds = max(0.001, time.monotonic() - self._began)
        for key, row in sorted(self._rows.items(), key=lambda one: -one[1].count):
            ordered = sorted(row.latencies)
            yield (
                *(one_line(part, 40) for part in key), str(row.count), f"{row.count / seconds:.1f}",
                _milliseconds(ordered, 0.5), _milliseconds(ordered, 0.99), str(row.errors or ""),
            )  # fmt: skip


def _milliseconds(ordered: list[float], share: float) -> str:
    if not ordered:
        return ""
    return f"{ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] * 1000:.1f} ms"


def as_table(lines: Iterable[bytes], out: TextIO) -> None:
    """A table that is renewed. Raises AdminError."""
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    summary = Summary()

    def drawn() -> Table:
        table = Table(*_HEADINGS, caption=f"{summary.lost} lines are missing" if summary.lost else None)
        for row in list(summary.rows())[:_SHOWN]:
            table.add_row(*row)
        return table

    with Live(drawn(), console=Console(file=out), auto_refresh=False) as live:
        renewed = 0.0
        for line in lines:
            value = _value(line)
            if value:
                summary.add(value)
            if time.monotonic() - renewed >= _RENEW_EVERY:
                renewed = time.monotonic()
                live.update(drawn(), refresh=True)


def _value(line: bytes) -> Mapping[str, Any]:
    try:
        return read(line)
    except ValueError:
        raise AdminError("the server at --admin is not kproxy: its lines are not JSON") from None
