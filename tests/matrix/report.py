"""docs/compatibility.md: what runs of the matrix measured. No dates, no times: equal results, equal text."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kproxy.dev.devcluster.jars import find_java

PATH = Path(__file__).parents[2] / "docs" / "compatibility.md"

WORKS = "works"
FAILS = "**fails**"

_HEAD = """# Compatibility

`make test-matrix` writes this page; do not edit it. A run replaces the cells that it tested, and keeps the others.

Every cell is one test. The test starts a real cluster of three brokers whose names cannot be resolved, puts kproxy in
front of it, and runs a real client:

- Every client lists the brokers, creates a topic with three partitions, produces 1,000 records with `acks=all`, and
  consumes them in a group.
- Clients marked with T also abort one transaction, copy the records in other transactions, commit the offsets in these
  transactions, and read the copies with `read_committed`.
- Clients in Go, JavaScript and Rust also describe the topic and the group. A second member continues where the first
  member has committed.
- In the share group, the second member continues with the records that the first member has not accepted.
- Kafka Streams counts words with a state store, and Kafka Connect copies 1,000 lines from one file to another. The test
  stops each of them half-way, and a second instance continues from the state in Kafka.

The results:

- `works`: every record arrived once, and the client only received kproxy's addresses.
- `-`: the client and the broker are incompatible, also without kproxy. The note says why.
- **fails**: works without kproxy, but not through it. No cell should say this.
- empty: not tested yet.
"""

_SECTIONS = {
    "Python": """\
The tests install kproxy as a wheel in each Python. The smoke test checks the version, one line and exit code 2 for a
mistake, a start, a request through kproxy to a real broker, and a stop by SIGTERM. The oldest and the newest Python
also run all unit tests. The results:
""",
    "Spark": """\
The tests install kproxy and PySpark in one Python. With kproxy's plugin, a driver and two executors on this machine
write 1,000 records to a topic and read them back, and a streaming query counts them. An executor is killed, and the
executor that replaces it reads the topic too. The results:
""",
    "Moves": """\
The test moves all topics and clients of a cluster to another one with the commands of `kproxy migrate` from `plan` to
`finish`: `switch --reversible`, `rollback`, and `switch`. Each cluster has three brokers whose names cannot be
resolved, and the clients connect through three kproxies and are not stopped. In its short form, each cluster has one
broker, and the move ends with the `rollback`. Clients are those of Kafka 4.4.0: idempotent and transactional producers,
consumers, and Kafka Streams with `exactly_once_v2`; with brokers 4.4.0 on both sides also consumers with
`group.protocol=consumer`, and Streams with `group.protocol=streams`. `works`: by the logs of both clusters and what the
clients printed, no record was lost, doubled or out of order, and each group continued at its exact position.
[flip.md](flip.md#what-clients-see) has the details. The results:
""",
}
"""The parts of the page below the table, in order: heading → what the tests do."""


class Report:
    """Collects results, cell by cell, and writes them into the file; the other cells stay as they are there."""

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

    def remember(self, page: str) -> None:
        """Take over from an earlier page the cells that nobody told."""
        notes = dict(re.findall(r"^(\d+)\. (.*)$", page, re.M))
        table = [
            [cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")
        ]
        columns = [title.removeprefix("Kafka ") for title in table[0]] if table else []
        for row, *cells in table[1:]:
            for column, cell in zip(columns[1:], cells, strict=True):
                said = re.fullmatch(r"(.+?)(?: \((\d+)\))?", cell)
                if said and (row, column) not in self._cells:
                    self.tell(row, column, said[1], notes[said[2]] if said[2] else "")

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
            "the ZooKeeper version that they ship, but 3.5.9 instead of 3.4, which does not work on Java 14 or newer."
        )
        return _HEAD + "\n".join(lines) + "\n"

    def _cell(self, row: str, column: str, notes: list[str]) -> str:
        note = self._notes.get((row, column))
        if note is None:
            return self._cells.get((row, column), "")
        if note not in notes:
            notes.append(note)
        return f"{self._cells[row, column]} ({notes.index(note) + 1})"

    def write(self) -> None:
        page = PATH.read_text() if PATH.exists() else ""
        head, sections = _split(page)
        self.remember(head)
        PATH.write_text(self.text() + "".join(sections.values()))


def write_section(title: str, lines: Sequence[str]) -> None:
    """What was measured of each Python, or each Spark; the rest of the page stays."""
    head, sections = _split(PATH.read_text())
    sections[title] = section(title, lines)
    PATH.write_text(head + "".join(sections[one] for one in _SECTIONS if one in sections))


def section_results(title: str) -> dict[str, str]:
    """What the page has in a part now: result by what was measured."""
    _, sections = _split(PATH.read_text())
    lines = re.findall(r"(?m)^- (.+): (.+)$", sections.get(title, ""))
    return dict(lines)


def section(title: str, lines: Sequence[str]) -> str:
    """A part of the page below the table."""
    return f"\n## {title}\n\n{_SECTIONS[title]}\n" + "".join(f"- {line}\n" for line in lines)


def _split(page: str) -> tuple[str, dict[str, str]]:
    """What stands above the first of these parts, and each of them."""
    head, *parts = re.split(r"(?m)^(?=\n## )", page)
    return head, {part.splitlines()[1].removeprefix("## "): part for part in parts}


def java_release() -> str:
    """The first number of the version of the Java that the tests use."""
    said = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True).stderr
    return said.split('"')[1].split(".")[0]
