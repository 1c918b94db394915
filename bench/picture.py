"""The picture of docs/performance.md: kproxy's throughput beside HAProxy's, one bar for each load.

`python -m bench.picture` draws docs/performance.svg from the tables in docs/performance.md;
`python -m bench.picture build/bench.json` draws it from a run. Equal figures make an equal picture.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from bench import tables
from bench.peers import KPROXY

PICTURE = tables.DOCUMENT.with_suffix(".svg")

# Pixels. A column has a label, right-aligned at its bars, the bars, and behind each its figure.
WIDTH = 800
UNIT = 100  # the length of a bar for the ratio 1: as fast as HAProxy
_MARGIN, _TOP = 16, 78
_COLUMN = (WIDTH - 2 * _MARGIN) // 2
_LABELS = 214
_ROW, _BAR = 16, 10
_GAP, _HEADING = 16, 22

_STYLE = """
text { font: 11.5px -apple-system, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif; fill: #1f2328 }
.page { fill: #ffffff }
.title { font-size: 16px; font-weight: 600 }
.group { font-weight: 600 }
.note { fill: #59636e }
.line { stroke: #59636e; stroke-dasharray: 3 3 }
.bar.fast { fill: #0969da }
.bar.slow { fill: #d4731a }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.page { fill: #0d1117 }
.note { fill: #9198a1 }
.line { stroke: #9198a1 }
.bar.fast { fill: #4493f8 }
.bar.slow { fill: #e3893b }
}
"""


@dataclass(frozen=True, slots=True)
class Group:
    """A heading, and the table and the column in it that has the ratios of throughput."""

    title: str
    table: str
    column: str
    loads: str = r".*"


# Left column, right column.
COLUMNS: Sequence[Sequence[Group]] = (
    (
        Group("Real clients, real brokers", "clients", "to HAProxy's"),
        Group("One request at a time on each connection", "variants", KPROXY, r"ping-.*"),
        Group("Small frames, connections, metadata", "frames", "ratio"),
        Group("TLS to the broker", "tls", "ratio"),
    ),
    (
        Group("Large frames, by size and connections", "bulk", "ratio"),
        Group("Large frames, by version and partitions", "partitions", "ratio"),
    ),
)


def ratios(document: str, group: Group) -> list[tuple[str, float]]:
    """Return the loads of a group in a document, and kproxy's throughput relative to HAProxy's, the highest first."""
    table = re.search(rf"<!-- bench {group.table} -->\n(.*?)<!-- end -->", document, re.DOTALL)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (table[1] if table else "").splitlines()]
    if not rows:
        return []
    column = rows[0].index(group.column)  # the first of that name: throughput comes before CPU
    loads = []
    for row in rows[2:]:
        name, ratio = row[0].strip("`"), re.match(r"[\d.]+", row[column])
        if ratio and re.fullmatch(group.loads, name):
            loads.append((name, float(ratio[0])))
    return sorted(loads, key=lambda load: (-load[1], load[0]))


def draw(document: str) -> str:
    """Return the picture of the tables in a document as SVG, without groups that have no figures."""
    height, drawn = 0, []
    for number, groups in enumerate(COLUMNS):
        left, y = _MARGIN + number * _COLUMN, _TOP
        for group in groups:
            if loads := ratios(document, group):
                drawn += _group(group.title, loads, left, y)
                y += _HEADING + len(loads) * _ROW + _GAP
        height = max(height, y)
    return "".join(f"{line}\n" for line in (*_head(height), *drawn, "</svg>"))


def _head(height: int) -> Iterator[str]:
    title = "Throughput of kproxy, as a multiple of HAProxy's"
    note = "Dashed line: as fast as a tuned HAProxy, which only copies bytes. Longer bars are better."
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img" aria-labelledby="title">'
    )
    yield f'<title id="title">{escape(title)}</title>'
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="page" width="{WIDTH}" height="{height}"/>'
    yield f'<text class="title" x="{_MARGIN}" y="30">{escape(title)}</text>'
    yield f'<text class="note" x="{_MARGIN}" y="50">{escape(note)}</text>'


def _group(title: str, loads: Sequence[tuple[str, float]], left: int, top: int) -> Iterator[str]:
    """Draw a heading, its bars, and across them the line of HAProxy's throughput."""
    start, first = left + _LABELS, top + _HEADING
    yield f"<g data-group={quoteattr(title)}>"
    yield f'<text class="group" x="{left}" y="{top + 12}">{escape(title)}</text>'
    for number, (name, ratio) in enumerate(loads):
        y = first + number * _ROW
        length, kind = round(ratio * UNIT, 2), "fast" if ratio >= 1 else "slow"
        yield f'<text x="{start - 6}" y="{y + 9}" text-anchor="end">{escape(name)}</text>'
        yield (
            f'<rect class="bar {kind}" data-load={quoteattr(name)} x="{start}" y="{y}" width="{length:g}"'
            f' height="{_BAR}"/>'
        )
        # Behind the line, where the bar ends before it: the figure and the line must not cross.
        yield f'<text x="{start + max(length, UNIT) + 6:g}" y="{y + 9}">{ratio:.2f}</text>'
    end = first + len(loads) * _ROW - (_ROW - _BAR) + 3
    yield f'<line class="line" x1="{start + UNIT}" y1="{first - 3}" x2="{start + UNIT}" y2="{end}"/>'
    yield "</g>"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.picture", description=__doc__)
    parser.add_argument("result", type=Path, nargs="?", help="build/bench.json; without it, the tables are drawn")
    result = parser.parse_args().result
    document = tables.DOCUMENT.read_text()
    PICTURE.write_text(draw(tables.fill(document, json.loads(result.read_text())) if result else document))


if __name__ == "__main__":
    main()
