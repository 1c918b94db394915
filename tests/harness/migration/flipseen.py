"""What each kind of client has said of a switch, from the tests into a file, and from there into docs/flip.md.

FLIP_SEEN=FILE python -m pytest …                  the tests append what they have seen
python -m tests.harness.migration.flipseen FILE    writes the table; rows of kinds that it does not have stay
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

DOCUMENT = Path(__file__).parents[3] / "docs" / "flip.md"
VARIABLE = "FLIP_SEEN"
_BEGIN, _END = "<!-- python -m tests.harness.migration.flipseen: begin -->\n", "<!-- end -->\n"
_HEAD = "| client | in | what it said, and how often |\n|---|---|---|\n"
_NOTHING = "nothing"
# What tells nothing about a switch.
_USUAL = frozenset({"acked", "got", "sent", "ended", "committed", "metadata"})
_LIBRARIES = {"java": "java", "confluent": "librdkafka", "kafka_python": "kafka-python"}
_WHOLE = frozenset({"begun again", "task failed", "checkpoint translated", "planned batch moved away"})
# Where in a line of `Going` the error is.
_ERRORS = {"failed": 2, "aborted": 3, "died": 1, "fatal": 1, "error": 1, "state": 1}


def named(library: str, does: str, properties: Mapping[str, str]) -> str:
    """What a client is called in the table, by what `tests.harness.clients.going` is told."""
    who = _LIBRARIES[library]
    if does == "transact":
        return f"{who} producer, transactional"
    if does == "produce":
        idempotent = properties.get("enable.idempotence") == "true"
        return f"{who} producer, {'idempotent' if idempotent else 'plain'}"
    if does == "seek":
        return f"{who} consumer, assigned by hand"
    if properties.get("group.protocol") == "consumer":
        return f"{who} consumer, KIP-848"
    cooperative = "ooperative" in properties.get("partition.assignment.strategy", "")
    return f"{who} consumer, {'cooperative' if cooperative else 'classic'}"


def seen(lines: Iterable[str]) -> Counter[str]:
    """What a client has said besides that all is well, without numbers and addresses."""
    return Counter(said for line in lines if (said := _without_numbers(line)))


def _without_numbers(line: str) -> str:
    words = line.split(" ")
    at = _ERRORS.get(words[0])
    if words[0] in _USUAL:
        return ""
    if line in _WHOLE:
        return line
    return words[0] if at is None else f"{words[0]} ({words[at].rpartition('.')[2].rstrip(':')})"


def note(client: str, where: str, said: Mapping[str, int]) -> None:
    """Keep it, if a file is wanted."""
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a") as file:
            file.write(json.dumps({"client": client, "in": where, "said": dict(said)}) + "\n")


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
