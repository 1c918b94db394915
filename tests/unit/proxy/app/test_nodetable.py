"""The nodes as a terminal shows them, wide and narrow: no host name is broken."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from kproxy.proxy.app import nodedisplay
from kproxy.proxy.app.nodedisplay import NodeRow

LONG = "b-{}.mskcluster.abc123.c2.kafka.eu-central-1.amazonaws.com"
SHORT = "kafka-{}"


def rows(host: str, kinds: Sequence[str] = ("1", "2", "controller-3000")) -> list[NodeRow]:
    """Three nodes: one reachable, one not, one another way."""
    hosts = [host.format(kind) for kind in kinds]
    words = [
        "reachable",
        f"cannot be reached: {hosts[1]}:9098: the name '{hosts[1]}' cannot be resolved here",
        "reachable through localhost:9092 (learned)",
    ]
    return [
        NodeRow(kind, f"{host}:9098", f"127.0.0.1:{19094 + index}", words[index], index != 1)
        for index, (kind, host) in enumerate(zip(kinds, hosts, strict=True))
    ]


def shown(nodes: Sequence[NodeRow], width: int, terminal: bool = False) -> str:
    out = io.StringIO()
    colours = "truecolor" if terminal else None
    console = Console(file=out, width=width, force_terminal=terminal, color_system=colours)  # type: ignore[arg-type]
    nodedisplay.show_table(console, "cluster default", nodes)
    return out.getvalue()


@pytest.mark.parametrize("host", [LONG, SHORT, "x", "10.0.0.{}"])
@pytest.mark.parametrize("width", [10, 40, 60, 72, 80, 81, 100, 120, 132, 160, 200, 300])
def test_no_word_is_broken_and_none_is_lost(host: str, width: int) -> None:
    nodes = rows(host)
    text = shown(nodes, width)
    words = text.split()
    is_table = "advertised" in text.splitlines()[1]
    for row in nodes:
        for word in (row.advertised, row.local, row.label, *(row.cells[3] if is_table else row.reachable).split()):
            assert any(word == one.removesuffix(":") or word == one for one in words), word
    longest = max(len(word) for row in nodes for word in f"node {row.label}:_{row.advertised} {row.reachable}".split())
    assert max(map(len, text.splitlines())) <= max(width, longest + 5)


def test_a_table_where_there_is_room_for_one() -> None:
    heading = "node  advertised by the broker  for clients      kproxy connects to"
    assert heading in shown(rows(SHORT)[:2], 80)
    assert heading in shown(rows(SHORT)[:2], 120)
    assert "kproxy connects to" not in shown(rows(LONG), 80)
    assert "kproxy connects to" in shown(rows(LONG)[:2], 200)


def test_the_table_of_a_usual_cluster_fits_80_columns() -> None:
    names = [f"kafka-{node}.cluster.internal:9092" for node in (1, 2)]
    nodes = [
        NodeRow("1", names[0], "127.0.0.1:19094", "reachable through 127.0.0.1:29092 (learned)", True),
        NodeRow("2", names[1], "127.0.0.1:19095", "reachable", True),
    ]
    assert [line.rstrip() for line in shown(nodes, 80).splitlines()[1:]] == [
        "node  advertised by the broker       for clients      kproxy connects to",
        "1     kafka-1.cluster.internal:9092  127.0.0.1:19094  127.0.0.1:29092 (learned)",
        "2     kafka-2.cluster.internal:9092  127.0.0.1:19095  its advertised address",
    ]


def test_the_list() -> None:
    assert shown(rows(LONG)[:2], 80).splitlines() == [
        "cluster default",
        f"node 1: {LONG.format(1)}:9098",
        "  -> 127.0.0.1:19094",
        "     reachable",
        f"node 2: {LONG.format(2)}:9098",
        "  -> 127.0.0.1:19095",
        "     cannot be reached:",
        f"     {LONG.format(2)}:9098: the name",
        f"     '{LONG.format(2)}' cannot be",
        "     resolved here",
    ]


@pytest.mark.parametrize("width", [80, 200])
def test_what_a_broker_says_is_no_markup(width: int) -> None:
    nodes = [NodeRow("1", "[red]:1", "[::1]:2", "reachable through [bold]x[/bold]:1 (map)", True)]
    words = shown(nodes, width).split()
    assert {"[red]:1", "[::1]:2", "[bold]x[/bold]:1"} <= set(words)


@pytest.mark.parametrize("width", [80, 200])
def test_good_and_bad_have_colours(width: int) -> None:
    text = shown(rows(LONG), width, terminal=True)
    assert "\x1b[32m" in text
    assert "\x1b[31m" in text
    assert "\x1b" not in shown(rows(LONG), width)


def test_no_escapes_for_those_who_want_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich would otherwise go by
    assert nodedisplay.stderr_console(coloured=False).color_system is None
