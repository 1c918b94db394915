"""What every client of the matrix is: a program that goes through the scenario, and what one run of it showed.

The scenario: list the brokers, create a topic with three partitions, produce 1,000 records, consume them in a group.
Each program prints what it saw.
"""

from __future__ import annotations

import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RECORDS = 1000
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of the scenario showed. `brokers`: node id → HOST:PORT as the client was told."""

    code: int
    output: str
    errors: str

    @property
    def brokers(self) -> dict[int, str]:
        return {int(node): address for node, address in re.findall(r"^broker (\d+) (\S+)$", self.output, re.M)}

    def count(self, what: str) -> tuple[int, int]:
        """How many records were `consumed` or `committed`, and how many different ones."""
        found = re.search(rf"^{what} (\d+) (\d+)$", self.output, re.M)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def complaint(self, transactions: bool) -> str:
        """What is wrong with it; empty if nothing is."""
        if self.code != 0:
            lines = [line for line in self.errors.strip().splitlines() if line.strip()]
            caused = [line for line in lines if "Exception" in line or "Error" in line]
            return f"exit code {self.code}: {(caused or lines or ['no output'])[-1].strip()[:300]}"
        for what in ("consumed", "committed") if transactions else ("consumed",):
            if self.count(what) != (RECORDS, RECORDS):
                return f"{what} {self.count(what)} instead of {RECORDS} records\n{self.errors[-2000:]}"
        return ""


@dataclass(frozen=True)
class Client(ABC):
    """One column of the matrix. `version` is empty where only the running program knows it."""

    library: str
    version: str
    properties: tuple[str, ...] = ()
    transactions: bool = False
    # The oldest broker that it works with, without kproxy too, and what an older one lacks.
    since: tuple[int, int] = (0, 0)
    lacks: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.library, self.version, *self.properties)))

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The program's command line without its arguments, everything installed. Raises NotInstalled."""

    def run(self, bootstrap: str, name: str, seconds: float = 300) -> Outcome:
        """Go through the scenario, for so long at most; a topic and a group of this name must not exist."""
        command = [*self.command(), bootstrap, name, str(RECORDS), *self.properties]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as late:
            output, errors = (text.decode(errors="replace") if text else "" for text in (late.stdout, late.stderr))
            return Outcome(-1, output, f"{errors}\nError: not finished within {seconds:g} s")
        return Outcome(done.returncode, done.stdout, done.stderr)
