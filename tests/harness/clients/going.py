"""Clients that continue while their cluster is switched, each in a separate process, and their output."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from zlib import crc32

from kproxy.dev.devcluster.jars import cache_directory
from kproxy.dev.devcluster.tools import Programs
from tests.harness.process import PATIENCE_S, wait_until
from tests.harness.programs.javac import compiled

HERE = Path(__file__).parent


class Going:
    """A client process; `lines` is its output. `environment`: that of this process, if None."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        self._errors = log.open("wb")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment
        )
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Going:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._thread.join(30)
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def said(self, word: str) -> list[list[str]]:
        """Return the rest of the lines that begin with this word, split into words."""
        return [line.split(" ")[1:] for line in list(self.lines) if line.split(" ", 1)[0] == word]

    def wait(self, reached: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
        """Wait for this output; fail if the process ends."""

        def there() -> bool:
            assert self.process.poll() is None, f"{what}: it has ended: {self.lines[-5:]}"
            return bool(reached())

        try:
            wait_until(there, what, seconds)
        except AssertionError as error:
            error.add_note(f"the client with the log {self.log} has printed last: {self.lines[-5:]}")
            raise

    def wait_more(self, word: str, count: int = 1, seconds: float = PATIENCE_S) -> None:
        """Wait until the client has printed this word so many more times."""
        already = len(self.said(word))
        self.wait(lambda: len(self.said(word)) >= already + count, f"{count} times more '{word}'", seconds)

    def end(self, seconds: float = PATIENCE_S) -> None:
        """Wait until the client ends by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(seconds)
        self._thread.join(seconds)


def java(programs: Programs, arguments: Sequence[str], properties: dict[str, str], log: Path) -> Going:
    """Return a Java client; `java/Going.java` documents the arguments."""
    source = HERE / "java" / "Going.java"
    # Other checkouts of this repository share the directory, and may have another version of it.
    classes = cache_directory() / "going" / f"{programs.jars.name}-{crc32(source.read_bytes()):08x}"
    command = compiled(programs, [source], classes, "harness.Going")
    return Going([*command, *arguments, *(f"{name}={value}" for name, value in properties.items())], log)


def python(program: str, arguments: Sequence[str], properties: dict[str, str], log: Path) -> Going:
    """Return a client in Python: `going_PROGRAM.py` beside this module, with the same arguments."""
    pairs = (f"{name}={value}" for name, value in properties.items())
    return Going([sys.executable, str(HERE / f"going_{program}.py"), *arguments, *pairs], log)


@contextmanager
def ending(*clients: Going) -> Iterator[None]:
    """Run the clients until the end of the context; then they end by themselves."""
    with ExitStack() as stack:
        for client in clients:
            stack.enter_context(client)
        yield
        for client in clients:
            client.end()
