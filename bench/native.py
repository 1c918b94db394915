"""The load generator and the stub broker: building them, running them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import BenchError, start, stop

SOURCES = Path(__file__).parent / "native"
BROKER_PORT = 9092
# A window that is not over in so many seconds never is.
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request, and the stub broker's answer: `size` bytes of records in `partitions`."""

    api: int
    version: int
    partitions: int = 1
    size: int = 0

    def arguments(self) -> list[str]:
        names = {"api": self.api, "version": self.version, "partitions": self.partitions, "bytes": self.size}
        return [text for name, value in names.items() for text in (f"--{name}", str(value))]


PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
SMALL = Request(LIST_OFFSETS, 7)


def build(directory: Path) -> None:
    """Compile both programs into `directory`. Raises BenchError without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise BenchError("no C compiler (cc) was found: the load generator is a C program")
    directory.mkdir(parents=True, exist_ok=True)
    headers = [path.stat().st_mtime for path in SOURCES.glob("*.h")]
    for name in ("load", "stub"):
        source, program = SOURCES / f"{name}.c", directory / name
        if program.exists() and program.stat().st_mtime > max(source.stat().st_mtime, *headers):
            continue
        command = [compiler, "-O2", "-Wall", "-Wno-unused-function", "-o", str(program), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"{source} does not compile:\n{done.stderr}")


class StubBroker:
    """The stub broker at a port of 127.0.0.1, and of 127.0.0.10 to .19 as its own ten brokers."""

    def __init__(self, directory: Path, core: int, port: int = BROKER_PORT) -> None:
        self.process = start([str(directory / "stub"), str(port)], [core], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"ready\n":
            stop(self.process)
            raise BenchError("the stub broker did not start")

    @property
    def pid(self) -> int:
        return self.process.pid

    def __enter__(self) -> StubBroker:
        return self

    def __exit__(self, *_: object) -> None:
        stop(self.process)


@dataclass(frozen=True, slots=True)
class LoadGenerator:
    """Runs the load generator, on one core, towards one port."""

    directory: Path
    core: int

    def command(self, mode: str, port: int, request: Request, connections: int, *more: str) -> list[str]:
        return [
            str(self.directory / "load"),
            mode,
            "--to",
            str(port),
            *request.arguments(),
            "--connections",
            str(connections),
            *more,
        ]

    def measure(
        self,
        port: int,
        request: Request,
        *,
        mode: str = "run",
        connections: int,
        depth: int,
        warm: float,
        seconds: float,
        pids: Sequence[int] = (),
        verify: bool = False,
    ) -> dict[str, Any]:
        """Measure one window and return the output of load.c.

        `cpu` is that of `pids`, in their order. Raises BenchError if the load generator fails.
        """
        times = ["--depth", str(depth), "--warm", str(warm), "--seconds", str(seconds)]
        clocks = [text for pid in pids for text in ("--cpu", str(pid))]
        command = self.command(mode, port, request, connections, *times, *clocks, *(["--verify"] if verify else []))
        process = start(command, [self.core], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            output, errors = process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise BenchError(f"no answer in {_TIMEOUT_S:g} s: {' '.join(command)}") from None
        finally:
            stop(process)
        if process.returncode:
            raise BenchError(f"{' '.join(command)}: {errors.decode(errors='replace').strip()}")
        figures: dict[str, Any] = json.loads(output)
        return figures


class Holding:
    """Connections that stay open after one request each; with mode "stall" nobody reads the answers."""

    def __init__(
        self, generator: LoadGenerator, port: int, request: Request, connections: int, mode: str = "hold"
    ) -> None:
        command = generator.command(mode, port, request, connections)
        self._process = start(command, [generator.core], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        if self._process.stdout.readline() not in (b"holding\n", b"stalled\n"):
            stop(self._process)
            raise BenchError(f"{connections} connections could not be opened: {' '.join(command)}")

    def drain(self) -> dict[str, Any]:
        """Read and compare the stalled answers to their end."""
        try:
            output, _ = self._process.communicate(b"drain\n", timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise BenchError(f"stalled readers were not served in {_TIMEOUT_S:g} s") from None
        if self._process.returncode:
            raise BenchError("what stalled readers got at last is not what the broker sent")
        figures: dict[str, Any] = json.loads(output)
        return figures

    def __enter__(self) -> Holding:
        return self

    def __exit__(self, *_: object) -> None:
        stop(self._process)
