"""The messages of each kind of client during a switch, written by the tests to the file `FLIP_SEEN`.

`tools/flipseen.py` writes them into docs/flip.md.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

VARIABLE = "FLIP_SEEN"
# What tells nothing about a switch.
_USUAL = frozenset({"acked", "got", "sent", "ended", "committed", "metadata"})
_LIBRARIES = {"java": "java", "confluent": "librdkafka", "kafka_python": "kafka-python"}
_WHOLE = frozenset({"begun again", "task failed", "checkpoint translated", "planned batch moved away"})
# Where in a line of `Going` the error is.
_ERRORS = {"failed": 2, "aborted": 3, "died": 1, "fatal": 1, "error": 1, "state": 1}


def named(library: str, does: str, properties: Mapping[str, str]) -> str:
    """Return the name of a client in the table, from the arguments for `tests.harness.clients.going`."""
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
    """Return a client's messages without numbers and addresses, except those that all is well."""
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
    """Append the messages to the file, if one is wanted."""
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a") as file:
            file.write(json.dumps({"client": client, "in": where, "said": dict(said)}) + "\n")
