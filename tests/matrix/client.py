"""What every client of the matrix is: a program that goes through the scenario, and what one run of it showed.

The scenario: list the brokers, create a topic with three partitions, produce 1,000 records, consume them in a group.
Each program prints what it saw.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kproxy.devcluster.jars import class_path
from kproxy.devcluster.tools import Programs

RECORDS = 1000
HERE = Path(__file__).parent


class NotInstalled(Exception):
    """A client that cannot be had here; `str()` says why."""


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


def newer(made: Path, sources: Sequence[Path]) -> bool:
    """Whether what was made is complete, and no source has changed since."""
    stamp = made / "complete"
    return stamp.exists() and all(stamp.stat().st_mtime > source.stat().st_mtime for source in sources)


class locked:
    """Two runs at once make one of them."""

    def __init__(self, directory: Path) -> None:
        directory.parent.mkdir(parents=True, exist_ok=True)
        self._path = directory.with_name(directory.name + ".lock")

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def compiled(programs: Programs, sources: Sequence[Path], classes: Path, main: str) -> Sequence[str]:
    """The command line of a Java program, its classes made from these sources if need be. Raises NotInstalled."""
    with locked(classes):
        if not newer(classes, sources):
            _compile(programs, sources, classes)
    command = list(programs.command(main))
    command[command.index(class_path(programs.jars))] += f":{classes}"
    return command


def _compile(programs: Programs, sources: Sequence[Path], classes: Path) -> None:
    javac = shutil.which("javac", path=str(Path(programs.java).parent)) or shutil.which("javac")
    if javac is None:
        raise NotInstalled("javac is not on this machine")
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    command = [javac, "-nowarn", "-proc:none", "-d", str(classes), "-cp", class_path(programs.jars)]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (classes / "complete").touch()
