"""HTML files that are reports: without scripts and other files, for a screen of any width and for paper. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape as escape_html

from kproxy.base.printable import escaped

_WORD_PART = re.compile(r"\S{1,20}|\s+")
_STYLE = """
:root { color-scheme: light dark; --ground: #f3f5f8; --card: #fff; --line: #d5dbe3; --text: #18202c; --soft: #505d6e;
  --ok: #18794e; --bad: #b3261e; --gone: #8f5200; --rest: #d5dbe3; --accent: #0a58b5; }
@media (prefers-color-scheme: dark) { :root { --ground: #0e131a; --card: #161d27; --line: #2d3846; --text: #e5eaf1;
  --soft: #a3b0c0; --ok: #4ecb8d; --bad: #ff8a80; --gone: #eab454; --rest: #2d3846; --accent: #7ab8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--ground); color: var(--text);
  font: 100%/1.45 system-ui, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: .5rem 0; } h2 { font-size: 1.1rem; margin: 0 0 .5rem; }
.said { font-size: 1.1rem; font-weight: 600; } .good { color: var(--ok); } .bad { color: var(--bad); }
.soft { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--line); border-radius: .4rem; padding: 1rem; margin: 1rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
.number { text-align: right; white-space: nowrap; }
th { overflow-wrap: normal; }
.stacked td { overflow-wrap: break-word; }
ul { padding-left: 1.2rem; } li { margin: .3rem 0; }
code { font: .9em ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace; }
@media (max-width: 40rem) {
  .stacked thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .stacked tr { display: block; border-bottom: 2px solid var(--line); padding: .4rem 0; }
  .stacked td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .1rem 0;
    text-align: right; white-space: normal; }
  .stacked td::before { content: attr(data-label); color: var(--soft); text-align: left; overflow-wrap: normal; }
  .stacked td:empty { display: none; } }
@media print {
  :root { color-scheme: light; --ground: #fff; --card: #fff; --line: #999; --text: #000; --soft: #444; }
  body { max-width: none; padding: 0; font-size: 10pt; } .wide { overflow: visible; }
  table { font-size: 7.5pt; } th, td { padding: .15rem .3rem; } .number { white-space: normal; }
  section { border: 0; padding: 0; } tr, li { break-inside: avoid; } h2 { break-after: avoid; }
  thead { display: table-header-group; } }
"""


def escape_text(text: str) -> str:
    """Escape text from topics, headers and records: no markup, no control characters."""
    return escape_html(escaped(text))


def format_time(ms: int) -> str:
    """Return a time in milliseconds since 1970; a dash if it is 0, which is not known, or none of this era."""
    if not 0 < ms < 1 << 45:
        return "–"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def page_begin(title: str, style: str = "") -> Iterator[str]:
    """Yield what is before the content; `title` is text, `style` more rules of CSS."""
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape_text(title)}</title><style>{_STYLE}{style}</style></head><body><main>"
    yield f"<h1>{escape_text(title)}</h1>"


PAGE_END = "</main></body></html>"


def table_begin(label: str, headings: Sequence[str], kind: str = "") -> Iterator[str]:
    """Yield the beginning of a table that scrolls by itself; `kind` is its class in CSS."""
    cells = "".join(f'<th scope="col">{escape_text(heading)}</th>' for heading in headings)
    attribute = f' class="{kind}"' if kind else ""
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{escape_text(label)}">'
    yield f"<table{attribute}><thead><tr>{cells}</tr></thead><tbody>"


TABLE_END = "</tbody></table></div>"


def stacked_table(label: str, headings: Sequence[str], rows: Iterable[Sequence[str | int]]) -> Iterator[str]:
    """Yield the lines of a table of text and numbers. On a narrow screen, each row is a list."""
    yield from table_begin(label, headings, "stacked")
    for row in rows:
        yield "<tr>" + "".join(map(_cell, headings, row)) + "</tr>"
    yield TABLE_END


def _cell(heading: str, value: str | int) -> str:
    label = f'data-label="{escape_text(heading)}"'
    if isinstance(value, int):
        return f'<td class="number" {label}>{value:,}</td>'
    return f"<td {label}><span>{_breakable(value)}</span></td>" if value else f"<td {label}></td>"


def _breakable(text: str) -> str:
    """Escape text, and let long words break at some places: a column is as wide as its longest word."""
    return "<wbr/>".join(map(escape_text, _WORD_PART.findall(escaped(text))))
