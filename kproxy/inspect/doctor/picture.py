"""Draws an examination: the client, the bootstrap servers, the brokers that they name, and the results. Pure.

One drawing has two forms: lines of text that fit a terminal of 80 columns, and SVG for a ticket or a page.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from kproxy.base.printable import escaped, one_line
from kproxy.inspect.doctor.causes import cause_of
from kproxy.inspect.doctor.evidence import Contact, Examination

_WIDTH = 78
# Nodes that are drawn one by one; of more, those that work are counted.
_DRAWN = 12
# SVG: pixels.
_LINE, _CHARACTER, _MARGIN = 22, 8.2, 20
_COLOURS = {True: "#1a7f37", False: "#cf222e", None: "#57606a"}


@dataclass(frozen=True, slots=True)
class DrawingRow:
    """One line of the drawing. `depth` is its depth in the tree; `good` is None if there is no verdict."""

    depth: int
    text: str
    """The address by which a client knows it."""
    good: bool | None = None
    detail: str = ""


def rows(examination: Examination) -> list[DrawingRow]:
    """Return the drawing, line by line."""
    drawn = [
        DrawingRow(0, "client on this machine" + (f", through {', '.join(examination.via)}" if examination.via else ""))
    ]
    for contact in examination.bootstrap:
        drawn.append(_row(1, str(contact.name), contact, examination, "bootstrap server"))
    if examination.answering is None:
        return drawn
    drawn.append(DrawingRow(2, f"brokers in the metadata of {examination.answering.address}:"))
    bad = [contact for contact in examination.nodes if cause_of(contact, examination) is not None]
    good = [contact for contact in examination.nodes if contact not in bad]
    shown = [*bad[:_DRAWN], *good[: max(0, _DRAWN - len(bad))]]
    for contact in sorted(shown, key=lambda contact: examination.nodes.index(contact)):
        drawn.append(_row(3, f"{contact.expected}: {contact.name}", contact, examination, ""))
    for contacts, word, state in ((bad, "fail", False), (good, "work", True)):
        count = sum(contact not in shown for contact in contacts)
        if count:
            drawn.append(DrawingRow(3, f"{count} more brokers {word}", state))
    for listener in examination.other_listeners:
        drawn.append(_row(3, f"its other listener: {listener.contact.address}", listener.contact, examination, ""))
    return drawn


def _row(depth: int, name: str, contact: Contact, examination: Examination, role: str) -> DrawingRow:
    cause = cause_of(contact, examination)
    dialled = f"at {contact.address}: " if contact.advertised and contact.address != contact.advertised else ""
    if cause is not None:
        return DrawingRow(depth, name, False, f"{dialled}{cause.why}")
    if contact.identity is None:
        return DrawingRow(depth, name, True, f"{dialled}answers")
    identity = contact.identity
    if role:
        answer = str(identity.key) if identity.key is not None else "a broker"
        answer += f" of the cluster {identity.cluster_id}" if identity.cluster_id else ""
        suffix = "" if identity.key is not None else "; it does not tell which broker it is"
        return DrawingRow(depth, name, True, f"{dialled}answers: {answer}{suffix}")
    proof = "" if identity.key is None else f", checked: {identity.proof.value}" if identity.proof else ""
    result = f"works{proof}" if identity.key is not None else "answers; assumed"
    return DrawingRow(depth, name, True, f"{dialled}{result}")


def text(examination: Examination, *, fancy: bool = True) -> list[str]:
    """Return the drawing as text.

    `fancy`: with line-drawing characters; else ASCII.
    """
    good, bad, bar, tee, arrow = ("✓", "✗", "│", "├─", "▶") if fancy else ("ok", "XX", "|", "+-", ">")
    lines: list[str] = []
    for row in rows(examination):
        mark = {True: good, False: bad, None: ""}[row.good]
        if row.depth == 0:
            lines += [row.text, f"  {bar}"]
            continue
        lead = (
            f"  {tee}{arrow} " if row.depth == 1 else f"  {bar}    " if row.depth == 2 else f"  {bar}    {tee}{arrow} "
        )
        hang = f"  {bar}      " if row.depth < 3 else f"  {bar}    {bar}    "
        lines.append(f"{lead}{mark}{' ' if mark else ''}{cut(row.text, _WIDTH - len(lead) - len(mark))}")
        lines += [hang + part for part in textwrap.wrap(row.detail, _WIDTH - len(hang), break_long_words=True)]
    return lines


def cut(words: str, most: int) -> str:
    """Return the words escaped, in at most `most` columns; ASCII if the words are."""
    shown = escaped(words[: 4 * most])
    return shown if len(shown) <= most else shown[: most - 2] + ".."


def svg(examination: Examination, title: str) -> str:
    """Return the drawing as an SVG document without scripts, fonts or links."""
    return "\n".join(_svg(rows(examination), title)) + "\n"


def _svg(drawn: Sequence[DrawingRow], title: str) -> Iterator[str]:
    lines: list[tuple[float, str, str, bool]] = []  # x, text, colour, bold
    for row in drawn:
        x = _MARGIN + row.depth * 24.0
        mark = {True: "✓ ", False: "✗ ", None: ""}[row.good]
        lines.append((x, mark + one_line(row.text, 200), _COLOURS[row.good], True))
        lines += [(x + 24, part, "#57606a", False) for part in textwrap.wrap(one_line(row.detail, 1000), 90)]
    width = max(560.0, max(x + len(shown) * _CHARACTER for x, shown, _, _ in lines) + _MARGIN)
    height = (len(lines) + 2) * _LINE + _MARGIN
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" role="img">'
    yield f"<title>{escape(title)}</title>"
    yield '<rect width="100%" height="100%" rx="8" fill="#ffffff" stroke="#d0d7de"/>'
    yield (
        f'<text x="{_MARGIN}" y="{_MARGIN + 8}" font-family="sans-serif" font-size="15" fill="#24292f"'
        f' font-weight="bold">{escape(title)}</text>'
    )
    for index, (x, shown, colour, bold) in enumerate(lines):
        weight = ' font-weight="bold"' if bold else ""
        yield (
            f'<text x="{x:.0f}" y="{_MARGIN + 8 + (index + 1) * _LINE}" font-family="ui-monospace, monospace"'
            f' font-size="13" fill="{colour}"{weight} xml:space="preserve">{escape(shown)}</text>'
        )
    yield "</svg>"
