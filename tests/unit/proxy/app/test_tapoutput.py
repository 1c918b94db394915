"""The table of `kproxy tap --summary`."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import pytest
from rich.console import Console

from kproxy.proxy.app.tapoutput import Summary, render_table, write_table

LONG = {
    "node": "controller-3000", "api": "ConsumerGroupHeartbeat", "client_id": "billing-service-eu-central-1-7f9c",
    "seconds": 12.3456, "error": 6,
}  # fmt: skip
SHORT = {"node": "1", "api": "Fetch", "client_id": "till", "seconds": 0.0012}


def lines(width: int, *values: Mapping[str, object], times: int = 1) -> list[str]:
    summary = Summary()
    for value in values:
        for _ in range(times):
            summary.add(value)
    out = io.StringIO()
    Console(file=out, width=width).print(render_table(summary, width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_it_fits_and_each_row_is_a_line(width: int) -> None:
    shown = lines(width, LONG, SHORT, {"lost": 7}, times=123456)
    assert len(shown) == 4
    assert max(map(len, shown)) <= width
    for number in ("123456", "12.3 s", "1.2 ms"):
        assert any(number in line for line in shown[1:3])
    assert shown[0].split() == ["node", "API", "client", "requests", "per", "s", "p50", "p99", "errors"]
    assert "lines are missing" in shown[3]
    assert any("Consumer" in line for line in shown)
    assert any("…" in line for line in shown) is (width < 200)


def test_texts_of_clients_are_harmless() -> None:
    shown = lines(80, {**SHORT, "client_id": "[bold]\x1b[2J\r\n" + "x" * 500})
    assert len(shown) == 2
    assert all(line.isprintable() for line in shown)
    assert "[bold]" in shown[1]  # rich does not read it as its own language


def test_the_last_table_stays() -> None:
    out = io.StringIO()
    write_table([json.dumps(SHORT).encode() + b"\n"], out)
    assert "till" in out.getvalue()
