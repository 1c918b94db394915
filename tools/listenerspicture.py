"""Writes docs/listeners.svg and the tables in docs/listeners.md: which client can use which listener.

    python -m tools.listenerspicture

The cells come from `tests.harness.clusters.listeners`; the scenarios try them with real clients and with the doctor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from kproxy.base.faults import Fault
from kproxy.dev.devcluster import ListenerSpec
from tests.harness.clusters.listeners import SETUPS, Cell, Place, Setup

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURE = DOCS / "listeners.md", DOCS / "listeners.svg"

_WORDS = {
    Fault.LOOPBACK_ADVERTISED: "localhost is the client itself",
    Fault.CONTAINER_NAME_ADVERTISED: "only Docker knows the name",
    Fault.WRONG_LISTENER: "this listener is for others",
    Fault.NAME_NOT_RESOLVED: "the name does not resolve",
    Fault.PRIVATE_ADDRESS_ADVERTISED: "a private address, out of reach",
}
_BEGIN, _END = "<!-- made by tools.listenerspicture -->", "<!-- end -->"

_STYLE = """
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif; fill: #1f2328 }
.page { fill: #ffffff }
.title { font-size: 16px; font-weight: 600 }
.head { font-weight: 600 }
.note { fill: #59636e; font-size: 11px }
.good { fill: #dafbe1; stroke: #1a7f37 }
.bad { fill: #ffebe9; stroke: #cf222e }
.none { fill: none; stroke: #d1d9e0; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.page { fill: #0d1117 }
.note { fill: #9198a1 }
.good { fill: #12261e; stroke: #3fb950 }
.bad { fill: #2d1417; stroke: #f85149 }
.none { stroke: #3d444d }
}
""".strip()
_LEGEND = "Green: the client works. Red: it fails, kproxy doctor says why, and through kproxy it works."
_WIDTH, _LEFT, _EDGE = 960, 250, 16
_ROW, _HEAD, _TITLE = 50, 40, 34


def tables() -> str:
    """Return the generated part of the page: a table for each set-up."""
    return "\n\n".join("\n".join(_table(setup)) for setup in SETUPS)


def _table(setup: Setup) -> Iterator[str]:
    yield f"### {setup.title}\n"
    yield "| client | bootstrap address | the broker advertises | without kproxy | verdict of `kproxy doctor` |"
    yield "|---|---|---|---|---|"
    places = {place.name: place for place in setup.places}
    for cell in setup.cells:
        outcome = "works" if cell.fault is None else "fails"
        text = "healthy" if cell.fault is None else f"`{cell.fault.value}`: {_WORDS[cell.fault]}"
        advertised = setup.told(cell)
        yield f"| {places[cell.place].title} | `{cell.bootstrap}` | `{advertised}` | {outcome} | {text} |"


def picture() -> str:
    """Return the SVG: for each set-up a row for each place, and a column for each listener."""
    parts: list[str] = []
    at = 64
    for setup in SETUPS:
        places = [place for place in setup.places if any(cell.place == place.name for cell in setup.cells)]
        parts += _block(setup, places, at)
        at += _TITLE + _HEAD + _ROW * len(places) + 26
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {at}" width="{_WIDTH}" height="{at}"'
        ' role="img" aria-labelledby="title">',
        '<title id="title">Who can use which Kafka listener from where</title>',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="page" width="{_WIDTH}" height="{at}"/>',
        _text(_EDGE, 28, "Who can use which listener from where", "title"),
        _text(_EDGE, 48, _LEGEND, "note"),
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _block(setup: Setup, places: list[Place], top: int) -> Iterator[str]:
    wide = (_WIDTH - _LEFT - _EDGE) // 3
    yield _text(_EDGE, top + 16, setup.title, "title")
    for column, listener in enumerate(setup.listeners):
        x = _LEFT + column * wide
        yield _text(x, top + _TITLE + 12, f"port {_port(listener)} answers", "note")
        yield _text(x, top + _TITLE + 28, listener.advertised, "head")
    for row, place in enumerate(places):
        y = top + _TITLE + _HEAD + row * _ROW
        title, _, more = place.title.partition(", ")
        yield _text(_EDGE, y + 18, title)
        if more:
            yield _text(_EDGE, y + 34, more, "note")
        for column, listener in enumerate(setup.listeners):
            cells = [cell for cell in setup.cells if cell.place == place.name and _is_at(cell, listener)]
            yield from _cell(cells[0] if cells else None, _LEFT + column * wide, y, wide - 10)


def _cell(cell: Cell | None, x: int, y: int, width: int) -> Iterator[str]:
    kind = "none" if cell is None else "good" if cell.fault is None else "bad"
    yield f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{_ROW - 8}" rx="4"/>'
    if cell is None:
        yield _text(x + 10, y + 25, "the port is not published there", "note")
        return
    yield _text(x + 10, y + 17, "✓ works" if cell.fault is None else f"✗ {_WORDS[cell.fault]}", "head")
    yield _text(x + 10, y + 33, cell.bootstrap if cell.fault is None else f"{cell.fault.value}", "note")


def _is_at(cell: Cell, listener: ListenerSpec) -> bool:
    return cell.bootstrap.endswith(f":{_port(listener)}")


def _port(listener: ListenerSpec) -> str:
    return listener.bound.rpartition(":")[2]


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x}" y="{y}">{escape(text)}</text>'


def page(before: str) -> str:
    """Return the page with up-to-date tables."""
    made = f"{_BEGIN}\n\n{tables()}\n\n{_END}"
    return re.sub(f"{re.escape(_BEGIN)}.*{re.escape(_END)}", lambda _: made, before, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.write_text(picture())
    PAGE.write_text(page(PAGE.read_text()))
