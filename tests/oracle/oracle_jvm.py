"""Kafka's own classes, in a Java process beside the tests: `java/Oracle.java` says what can be asked of its messages,
`java/records/Batches.java` what of its record batches (`oracle_records` asks it).

The sources are compiled once for each version of them and of Kafka, into `build/` beside this file.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Any, Self

from kproxy.base.address import Address
from kproxy.dev.devcluster.jars import fetch_jars, find_java
from kproxy.protocol.rewrite.endpoints import Endpoint, NodeKind

_HERE = Path(__file__).parent
_INT32 = Struct(">i")
_RANGE = Struct(">hhh")
_GENERATE = Struct(">hhqb")

# The packages of classes, before which version they had another name, and which.
_MOVED = (
    ((4, 0), ".common.record.internal.", ".common.record."),
    ((4, 4), ".common.utils.internals.", ".common.utils."),
)

# Profiles of a random message: small, with one array of thousands, with one field of 70 KB and more.
SMALL, WIDE, HEAVY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """A random message to make: the same values give the same bytes."""

    key: int
    version: int
    seed: int
    profile: int = SMALL


@dataclass(frozen=True, slots=True)
class Result:
    """A response before and after kproxy, and the addresses that kproxy replaced in it.

    `how`: "h" if the frame was held, "s" if it streamed, "v" for an ApiVersions response.
    """

    key: int
    version: int
    how: str
    original: bytes
    result: bytes
    replaced: Sequence[tuple[Endpoint, Address]] = ()


class Program:
    """One Java process with Kafka's classes of one version: the program `main` of the sources in `folder`."""

    def __init__(self, kafka_version: str, main: str, folder: Path) -> None:
        java = find_java(kafka_version)
        jars = sorted(str(jar) for jar in fetch_jars(kafka_version).glob("*.jar"))
        classes = _compiled(java, kafka_version, jars, folder)
        self._process = subprocess.Popen(
            [java, "-Xmx512m", "-XX:+UseSerialGC", "-cp", ":".join([str(classes), *jars]), main],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it ended already: the test that saw it said so
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def _ask(self, command: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(sized(command))
        self._process.stdin.flush()
        size = self._process.stdout.read(4)
        answer = self._process.stdout.read(_INT32.unpack(size)[0]) if len(size) == 4 else b""
        if not answer:
            raise RuntimeError("the oracle's Java process ended; its stderr says why")
        if answer[0]:
            raise RuntimeError(f"the oracle failed: {self._text(answer)}")
        return answer

    @staticmethod
    def _text(answer: bytes) -> str:
        return Reader(answer).sized().decode()


class Oracle(Program):
    """Kafka's messages."""

    def __init__(self, kafka_version: str) -> None:
        super().__init__(kafka_version, "Oracle", _HERE / "java")

    def apis(self) -> list[dict[str, Any]]:
        """Every API that these classes know: key, name, listeners and, of each version, headers and fields."""
        described: list[dict[str, Any]] = json.loads(self._text(self._ask(b"S")))
        return described

    def limit(self, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Tell what ApiVersions responses are capped to: (key, oldest, newest)."""
        packed = [_RANGE.pack(*one) for one in ranges]
        self._ask(b"L" + _INT32.pack(len(packed)) + b"".join(packed))

    def generate(self, wanted: Sequence[Wanted]) -> list[tuple[bytes, bytes]]:
        """Random requests and responses, whole frames; the response is empty if the request has none."""
        packed = [_GENERATE.pack(one.key, one.version, one.seed, one.profile) for one in wanted]
        answer = Reader(self._ask(b"G" + _INT32.pack(len(packed)) + b"".join(packed)))
        return [(answer.sized(), answer.sized()) for _ in wanted]

    def refusals(self, requests: Sequence[tuple[bytes, int]]) -> list[Any]:
        """What Kafka's request classes answer to these requests if each is refused with an error code.

        None: nothing. False: they cannot read the request, as it has a value that Kafka does not know.
        """
        packed = [sized(request) + error.to_bytes(2, signed=True) for request, error in requests]
        answer = Reader(self._ask(b"E" + _INT32.pack(len(packed)) + b"".join(packed)))
        return [json.loads(answer.sized() or "null") for _ in requests]

    def read(self, frames: Sequence[tuple[int, int, bytes]]) -> list[Any]:
        """The bodies of responses, each with its API key and version; with key -1 of requests."""
        packed = [
            key.to_bytes(2, signed=True) + version.to_bytes(2, signed=True) + sized(frame)
            for key, version, frame in frames
        ]
        answer = Reader(self._ask(b"J" + _INT32.pack(len(packed)) + b"".join(packed)))
        return [json.loads(answer.sized()) for _ in frames]

    def older_versions(self, responses: Sequence[bytes], newest: int, version: int) -> list[bytes]:
        """Return ApiVersions responses of the version `newest` as a broker writes them in an older version."""
        versions = newest.to_bytes(2) + version.to_bytes(2)
        command = b"V" + _INT32.pack(len(responses)) + b"".join(versions + sized(response) for response in responses)
        answer = Reader(self._ask(command))
        return [answer.sized() for _ in responses]

    def verdicts(self, results: Sequence[Result]) -> list[str]:
        """Of each: "replaced", "emptied" or "capped" if it is what it must be, else what is wrong with it."""
        command = bytearray(b"C" + _INT32.pack(len(results)))
        for one in results:
            command += one.key.to_bytes(2, signed=True) + one.version.to_bytes(2, signed=True) + one.how.encode()
            command += sized(one.original) + sized(one.result) + _INT32.pack(len(one.replaced))
            for endpoint, local in one.replaced:
                command.append(1 if endpoint.kind is NodeKind.CONTROLLER else 0)
                command += _INT32.pack(endpoint.node_id)
                for address in (endpoint.advertised, local):
                    command += sized(address.host.encode()) + _INT32.pack(address.port)
        answer = Reader(self._ask(bytes(command)))
        return [answer.sized().decode() for _ in results]


class Reader:
    """An answer, read from its beginning."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._at = 1  # behind the byte that says whether it went well

    def numbers(self, layout: Struct) -> tuple[Any, ...]:
        found = layout.unpack_from(self._answer, self._at)
        self._at += layout.size
        return found

    def content(self) -> bytes | None:
        """As `sized`; size -1 is None."""
        if self._answer[self._at : self._at + 4] == b"\xff" * 4:
            self._at += 4
            return None
        return self.sized()

    def sized(self) -> bytes:
        (size,) = _INT32.unpack_from(self._answer, self._at)
        start = self._at + 4
        self._at = start + size
        return self._answer[start : self._at]


def sized(content: bytes) -> bytes:
    return _INT32.pack(len(content)) + content


def _compiled(java: str, kafka_version: str, jars: list[str], folder: Path) -> Path:
    """The directory with the compiled classes. It appears in one step, so two runs at once do no harm."""
    sources = sorted(folder.glob("*.java"))
    digest = hashlib.sha256(b"".join([java.encode(), *(source.read_bytes() for source in sources)])).hexdigest()[:12]
    complete = _HERE / "build" / f"{kafka_version}-{digest}"
    if complete.is_dir():
        return complete
    complete.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=complete.parent) as partial:
        classes = Path(partial, "classes")
        moved = {now: then for before, now, then in _MOVED if _numbers(kafka_version) < before}
        if moved:
            sources = [_as_of_then(source, moved, Path(partial)) for source in sources]
        compiler = [
            java,
            "-m",
            "jdk.compiler/com.sun.tools.javac.Main",
            "-Werror",
            "-Xlint:all,-processing,-path,-classfile",
        ]
        done = subprocess.run(
            [*compiler, "-cp", ":".join(jars), "-d", str(classes), *map(str, sources)],
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        if "jdk.compiler" in said and "not found" in said:
            raise RuntimeError(
                f"{java} is a Java runtime without a compiler, but the oracle tests compile Java:"
                " install a JDK (17 or newer, not headless JRE) and set JAVA_HOME to it"
            )
        if done.returncode != 0:
            raise RuntimeError(f"the oracle does not compile against Kafka {kafka_version}:\n{said}")
        with suppress(FileExistsError, OSError):  # another run was first
            classes.rename(complete)
    assert complete.is_dir(), f"{complete} could not be made"
    return complete


def _numbers(kafka_version: str) -> tuple[int, ...]:
    return tuple(map(int, kafka_version.split(".")[:2]))


def _as_of_then(source: Path, moved: Mapping[str, str], folder: Path) -> Path:
    """A copy of a source with the packages that the classes had then."""
    text = source.read_text()
    for now, then in moved.items():
        text = text.replace(now, then)
    copy = folder / source.name
    copy.write_text(text)
    return copy
