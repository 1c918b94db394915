"""The clients of every age and language that the matrix runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path

from kproxy.dev.devcluster import DEFAULT_VERSION
from kproxy.dev.devcluster.jars import cache_directory
from kproxy.dev.devcluster.tools import Programs
from tests.harness.programs.javac import NotInstalled, compiled, locked
from tests.matrix import frameworks
from tests.matrix.client import HERE, Client
from tests.matrix.languages import Go, Node, Rust


@dataclass(frozen=True)
class Java(Client):
    """kafka-clients of one version, on the Java at hand."""

    def command(self) -> Sequence[str]:
        programs = Programs.of(self.version)
        since_2_5 = tuple(map(int, self.version.split(".")[:2])) >= (2, 5)
        sources = [HERE / "java/Scenario.java", HERE / f"java/since_{'2_5' if since_2_5 else '0_11'}/Since.java"]
        classes = cache_directory() / "matrix" / f"java-{self.version}"
        return compiled(programs, sources, classes, "matrix.Scenario")


@dataclass(frozen=True)
class Python(Client):
    """A Python client: the one of the test's own environment, or a `pinned` old one in an environment of its own."""

    program: str = ""
    pinned: bool = False
    # What it needs in an old version too.
    beside: tuple[str, ...] = ()

    def command(self) -> Sequence[str]:
        python = self._pinned_python() if self.pinned else Path(sys.executable)
        return [str(python), str(HERE / "programs" / self.program)]

    def _pinned_python(self) -> Path:
        release = "{}.{}".format(*sys.version_info)
        directory = cache_directory() / "matrix" / f"{self.library}-{self.version}-python{release}"
        python = directory / "bin" / "python"
        with locked(directory):
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
        return [sys.executable, str(HERE / "programs/kcat.py")]

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


def _pinned(file: str, before: str) -> str:
    """The version that a file of programs/ asks for, behind these words."""
    found = re.search(rf"{re.escape(before)}(\d[\w.]+)", (HERE / "programs" / file).read_text())
    assert found, before
    return found[1]


_JAVA_VERSIONS = ("0.11.0.3", "1.1.1", "2.1.1", "2.2.2", "2.8.2", "3.1.2", "3.9.2", "4.3.1", DEFAULT_VERSION)
NEXT_PROTOCOL = ("group.protocol=consumer",)

CLIENTS: tuple[Client, ...] = (
    *(Java("kafka-clients", version, transactions=True) for version in _JAVA_VERSIONS),
    Java("kafka-clients", DEFAULT_VERSION, NEXT_PROTOCOL, transactions=True),
    *_python("confluent-kafka", "confluent.py", "2.0.2", transactions=True),
    Python("confluent-kafka", installed_version("confluent-kafka"), NEXT_PROTOCOL, True, program="confluent.py"),
    Kcat("kcat", ""),
    *_python("kafka-python", "kafka_python.py", "2.0.2"),
    *_python("aiokafka", "aio_kafka.py", "0.8.0", beside=("kafka-python==2.0.2",)),
    Go("franz-go", _pinned("go/go.mod", "twmb/franz-go v"), program="franz"),
    Go("Sarama", _pinned("go/go.mod", "IBM/sarama v"), program="sarama"),
    Node("kafkajs", "2.2.4", program="kafka_js.js"),
    Rust("rdkafka (Rust)", _pinned("rust/Cargo.toml", 'version = "=')),
    frameworks.Java(
        *("Kafka Streams", DEFAULT_VERSION, ("processing.guarantee=exactly_once_v2",)),
        since=(2, 5),
        lacks="the broker does not support exactly_once_v2 (KIP-447, Kafka 2.5)",
        program="streams/Streams",
    ),
    frameworks.Java(
        *("Kafka Streams", DEFAULT_VERSION, ("group.protocol=streams",)),
        since=(4, 2),
        lacks="the broker has no streams groups (KIP-1071, Kafka 4.2)",
        program="streams/Streams",
    ),
    frameworks.Connect("Kafka Connect, distributed", DEFAULT_VERSION),
    frameworks.Java(
        *("share group, kafka-clients", DEFAULT_VERSION),
        since=(4, 2),
        lacks="the broker has no share groups (KIP-932, Kafka 4.2)",
        program="share/Share",
    ),
)


def misfit(client: Client, broker: str) -> str:
    """Why this client and a broker of this version cannot talk to each other, kproxy or not; empty if they can."""
    age = tuple(map(int, broker.split(".")[:2]))
    if client.properties == NEXT_PROTOCOL and age < (4, 0):
        return "the broker has no KIP-848 groups (Kafka 4.0)"
    return client.lacks if age < client.since else ""
