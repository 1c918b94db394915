"""docs/compatibility.md: what a complete run of the matrix measured. No dates, no times: equal results, equal text."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kproxy.devcluster.jars import find_java

PATH = Path(__file__).parents[2] / "docs" / "compatibility.md"

WORKS = "works"
FAILS = "**fails**"

_HEAD = """# Compatibility

Written by `make test-matrix`; do not edit. Every cell is a real cluster of three brokers with names that resolve
nowhere, kproxy in front of it, and a real client that lists the brokers, creates a topic with three partitions,
produces 1,000 records with `acks=all` and consumes them in a group. Those marked with T also abort one transaction,
copy the records in others, commit their offsets with them, and read the copies with `read_committed`.

- `works`: every record arrived once, and the client was told kproxy's addresses only.
- `-`: this client and this broker do not fit together, without kproxy either; the note says why.
- **fails**: works without kproxy, not through it. There should be none.
"""


class Report:
    """Collects results, cell by cell, and writes the file when none is missing."""

    def __init__(self, rows: Sequence[str], columns: Sequence[str], java: str, zookeeper: Sequence[str]) -> None:
        """`java`: the release that everything ran on. `zookeeper`: the columns that ran with one."""
        self._java = java
        self._rows = rows
        self._columns = columns
        self._zookeeper = zookeeper
        self._cells: dict[tuple[str, str], str] = {}
        self._notes: dict[tuple[str, str], str] = {}

    def tell(self, row: str, column: str, result: str, note: str = "") -> None:
        """The result of one cell; a note becomes a footnote."""
        self._cells[row, column] = result
        if note:
            self._notes[row, column] = note

    @property
    def complete(self) -> bool:
        return len(self._cells) == len(self._rows) * len(self._columns)

    def text(self) -> str:
        """The whole page."""
        notes: list[str] = []
        lines = ["", "| client | " + " | ".join(f"Kafka {column}" for column in self._columns) + " |"]
        lines.append("|---" * (len(self._columns) + 1) + "|")
        for row in self._rows:
            cells = [self._cell(row, column, notes) for column in self._columns]
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
        lines += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1)), ""]
        lines.append(f"Brokers and Java clients ran on Java {self._java}. Kafka {', '.join(self._zookeeper)} ran with")
        lines.append(
            "ZooKeeper: of its own version, or 3.5.9 where that is 3.4, which does not work on Java 14 or newer."
        )
        return _HEAD + "\n".join(lines) + "\n"

    def _cell(self, row: str, column: str, notes: list[str]) -> str:
        note = self._notes.get((row, column))
        if note is None:
            return self._cells[row, column]
        if note not in notes:
            notes.append(note)
        return f"{self._cells[row, column]} ({notes.index(note) + 1})"

    def write(self) -> None:
        PATH.write_text(self.text())


def java_release() -> str:
    """The first number of the version of the Java that the tests use."""
    said = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True).stderr
    return said.split('"')[1].split(".")[0]
