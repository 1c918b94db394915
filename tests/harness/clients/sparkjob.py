"""A Spark application that obeys a test: `spark_job.py` under spark-submit, on this host or another."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from tests.harness.process import wait_until

SCRIPT = Path(__file__).with_name("spark_job.py")
# In seconds: several JVMs on a busy machine.
PATIENCE = 240.0

Said: TypeAlias = Callable[[], str]
"""What a program has said until now."""


class Job:
    """A running application."""

    def __init__(self, said: Said, commands: IO[str]) -> None:
        self.said = said
        self._commands = commands

    def do(self, command: str, answer: str) -> str:
        """Send a command; return the rest of the line that answers it."""
        before = self.said()
        self._commands.write(f"{command}\n")
        self._commands.flush()

        def answered() -> str:
            lines = self.said()[len(before) :].splitlines()
            found = [line for line in lines if line.startswith((f"{answer} ", "failed "))]
            return found[0] if found else ""

        line = wait_until(answered, command, PATIENCE)
        assert line.startswith(answer), f"{line}\n{self.said()[-5000:]}"
        return str(line).removeprefix(answer).strip()


@contextmanager
def run_job(
    fifo: Path, running: Callable[..., AbstractContextManager[Said]], *submit: str, env: Mapping[str, str]
) -> Iterator[Job]:
    """Create the fifo, and run spark-submit with it by `running`, for the time of the block."""
    os.mkfifo(fifo)
    with running(*submit, str(SCRIPT), str(fifo), env=env, until="ready\n") as said, fifo.open("w") as commands:
        yield Job(said, commands)


@contextmanager
def running(*command: str, env: Mapping[str, str], until: str, log: Path) -> Iterator[Said]:
    """Run a program on this host; yield once it has printed `until`."""
    with log.open("wb") as to, subprocess.Popen(
        command, env=env, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=to, stderr=to
    ) as process:  # fmt: skip

        def said() -> str:
            return log.read_text(errors="replace")

        def there() -> bool:
            assert process.poll() is None, f"it ended: {said()[-5000:]}"
            return until in said()

        try:
            wait_until(there, f"{command[0]} says {until.strip()}", PATIENCE)
            yield said
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
