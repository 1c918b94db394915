"""Writes the table in docs/flip.md: the messages of each kind of client during a switch.

FLIP_SEEN=FILE python -m pytest …    the tests append the messages that they see
python -m tools.flipseen FILE        writes the table; rows of other kinds of clients stay
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / "docs" / "flip.md"
_BEGIN, _END = "<!-- python -m tools.flipseen: begin -->\n", "<!-- end -->\n"
_HEAD = "| client | in | what it said, and how often |\n|---|---|---|\n"
_NOTHING = "nothing"


def rows(document: str) -> dict[tuple[str, str], str]:
    """Return the rows of the table in the document: the messages by client and run."""
    table = document.partition(_BEGIN)[2].partition(_END)[0]
    matches = (re.fullmatch(r"\| (.+) \| (.+) \| (.+) \|", line) for line in table.splitlines()[2:])
    return {(match[1], match[2]): match[3] for match in matches if match}


def written(document: str, noted: Iterable[str]) -> str:
    """Return the document with the noted messages.

    For one kind of client and of run, the last note counts; a note of the soak replaces another.
    """
    by_client = rows(document)
    for line in noted:
        note = json.loads(line)
        for other in [
            where for where in by_client if where[0] == note["client"] and _kind(where[1]) == _kind(note["in"])
        ]:
            del by_client[other]
        messages = ", ".join(f"{what} × {count}" for what, count in sorted(note["said"].items()))
        by_client[note["client"], note["in"]] = messages or _NOTHING
    before, _, rest = document.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    table = "".join(f"| {who} | {where} | {messages} |\n" for (who, where), messages in sorted(by_client.items()))
    return f"{before}{_BEGIN}{_HEAD}{table}{_END}{after}"


def _kind(where: str) -> str:
    return where.partition(",")[0]


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(), Path(sys.argv[1]).read_text().splitlines()))
