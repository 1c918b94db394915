"""Clients of every age, and the scenario that they all go through.

The scenario: list the brokers, create a topic with three partitions, produce 1,000 records, consume them in a group;
those that have transactions abort one and copy the records in others. Each program prints what it saw.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
import venv
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path

from kproxy.devcluster import DEFAULT_VERSION
from kproxy.devcluster.jars import cache_directory, class_path
from kproxy.devcluster.tools import Programs

RECORDS = 1000
_HERE = Path(__file__).parent


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

    def __str__(self) -> str:
        return " ".join((self.library, self.version, *self.properties))

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


@dataclass(frozen=True)
class Java(Client):
    """kafka-clients of one version, on the Java at hand."""

    def command(self) -> Sequence[str]:
        programs = Programs.of(self.version)
        since_2_5 = tuple(map(int, self.version.split(".")[:2])) >= (2, 5)
        sources = [_HERE / "java/Scenario.java", _HERE / f"java/since_{'2_5' if since_2_5 else '0_11'}/Since.java"]
        classes = cache_directory() / "matrix" / f"java-{self.version}"
        with _locked(classes):
            if not _newer(classes, sources):
                _compile(programs, sources, classes)
        command = list(programs.command("matrix.Scenario"))
        command[command.index(class_path(programs.jars))] += f":{classes}"
        return command


@dataclass(frozen=True)
class Python(Client):
    """A Python client: the one of the test's own environment, or a `pinned` old one in an environment of its own."""

    program: str = ""
    pinned: bool = False
    # What it needs in an old version too.
    beside: tuple[str, ...] = ()

    def command(self) -> Sequence[str]:
        python = self._pinned_python() if self.pinned else Path(sys.executable)
        return [str(python), str(_HERE / "programs" / self.program)]

    def _pinned_python(self) -> Path:
        release = "{}.{}".format(*sys.version_info)
        directory = cache_directory() / "matrix" / f"{self.library}-{self.version}-python{release}"
        python = directory / "bin" / "python"
        with _locked(directory):
            if not (directory / "complete").exists():
                shutil.rmtree(directory, ignore_errors=True)
                venv.create(directory, with_pip=True)
                wanted = f"{self.library}=={self.version}"
                pip = [str(python), "-m", "pip", "install", "-q", "--only-binary", ":all:", wanted, *self.beside]
                done = subprocess.run(pip, capture_output=True, text=True, timeout=600, check=False)
                if done.returncode != 0:
                    raise NotInstalled(f"{wanted} has no wheel for Python {release}")
                (directory / "complete").touch()
        return python


@dataclass(frozen=True)
class Kcat(Client):
    """The kcat of this machine."""

    def command(self) -> Sequence[str]:
        if shutil.which("kcat") is None:
            raise NotInstalled("kcat is not on this machine")
        return [sys.executable, str(_HERE / "programs/kcat.py")]

    def __str__(self) -> str:
        if shutil.which("kcat") is None:
            return self.library
        said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"Version (\S+).*librdkafka ([\d.]+)", said)
        return f"kcat {found[1]}, librdkafka {found[2]}" if found else self.library


def _python(
    library: str, program: str, old: str, *, transactions: bool = False, beside: tuple[str, ...] = ()
) -> list[Client]:
    return [
        Python(library, old, program=program, pinned=True, transactions=transactions, beside=beside),
        Python(library, installed_version(library), program=program, transactions=transactions),
    ]


_JAVA_VERSIONS = ("0.11.0.3", "1.1.1", "2.1.1", "2.2.2", "2.8.2", "3.1.2", "3.9.2", DEFAULT_VERSION)
NEXT_PROTOCOL = ("group.protocol=consumer",)

CLIENTS: tuple[Client, ...] = (
    *(Java("kafka-clients", version, transactions=True) for version in _JAVA_VERSIONS),
    Java("kafka-clients", DEFAULT_VERSION, NEXT_PROTOCOL, transactions=True),
    *_python("confluent-kafka", "confluent.py", "2.0.2", transactions=True),
    Python("confluent-kafka", installed_version("confluent-kafka"), NEXT_PROTOCOL, True, program="confluent.py"),
    Kcat("kcat", ""),
    *_python("kafka-python", "kafka_python.py", "2.0.2"),
    *_python("aiokafka", "aio_kafka.py", "0.8.0", beside=("kafka-python==2.0.2",)),
)


def misfit(client: Client, broker: str) -> str:
    """Why this client and a broker of this version cannot talk to each other, kproxy or not; empty if they can."""
    age = tuple(map(int, broker.split(".")[:2]))
    if client.properties == NEXT_PROTOCOL and age < (4, 0):
        return "the broker has no KIP-848 groups (Kafka 4.0)"
    return ""


def _newer(made: Path, sources: Sequence[Path]) -> bool:
    stamp = made / "complete"
    return stamp.exists() and all(stamp.stat().st_mtime > source.stat().st_mtime for source in sources)


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


class _locked:
    """Two runs at once make one of them."""

    def __init__(self, directory: Path) -> None:
        directory.parent.mkdir(parents=True, exist_ok=True)
        self._path = directory.with_name(directory.name + ".lock")

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()
