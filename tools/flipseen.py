"""Writes the table in docs/flip.md of what each kind of client has said of a switch.

FLIP_SEEN=FILE python -m pytest …    the tests append what they have seen
python -m tools.flipseen FILE        writes the table; rows of kinds that it does not have stay
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
    """Of the table in the document: what the clients said, by client and run."""
    table = document.partition(_BEGIN)[2].partition(_END)[0]
    found = (re.fullmatch(r"\| (.+) \| (.+) \| (.+) \|", line) for line in table.splitlines()[2:])
    return {(one[1], one[2]): one[3] for one in found if one}


def written(document: str, noted: Iterable[str]) -> str:
    """The document with what was noted. Of one kind of client and of run, the last counts; a soak replaces another."""
    kept = rows(document)
    for line in noted:
        one = json.loads(line)
        for other in [where for where in kept if where[0] == one["client"] and _kind(where[1]) == _kind(one["in"])]:
            del kept[other]
        said = ", ".join(f"{what} × {count}" for what, count in sorted(one["said"].items()))
        kept[one["client"], one["in"]] = said or _NOTHING
    before, _, rest = document.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    table = "".join(f"| {who} | {where} | {said} |\n" for (who, where), said in sorted(kept.items()))
    return f"{before}{_BEGIN}{_HEAD}{table}{_END}{after}"


def _kind(where: str) -> str:
    return where.partition(",")[0]


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(), Path(sys.argv[1]).read_text().splitlines()))
