"""`kproxy migrate switch` and `rollback` as an operator gives them: a separate process, with Spark, that can be killed
when a step begins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.harness.clients.spark import bare_environment, connector, settings, spark_home
from tests.harness.migration.moving import below
from tests.harness.process import wait_until

SAYS: Mapping[str, str] = {
    "preflight": ": rehearsed in ",
    "ask": "reading the state of all kproxies",
    "hold": "holding writes",
    "work": "all writes are held",
    "drain": "ending open transactions",
    "copy": "copying the last records",
    "verify": "comparing them",
    "translate": "translating the last positions",
    "flip": "moving sessions to",
    "commit": " committing",
    "release": "releasing writes",
}
"""The words that the command prints when it begins each step."""
DONE, UNDONE, STOPPED, INCOMPLETE = 0, 3, 1, 4
_KILLED = -signal.SIGKILL
_GOES_ON = "copying records from the target back to the source"
# A rehearsal takes minutes on a machine with much other work.
_PATIENCE = 1200.0


def driver_home(directory: Path) -> Path:
    """Create a SPARK_HOME for commands, which create their Spark sessions themselves."""
    defaults = settings(spark_jars=connector(), spark_driver_memory="800m", spark_master="local[2,2]")
    return spark_home(directory, defaults=defaults | {"spark.ui.showConsoleProgress": "false"})


class Driver:
    """A command. In a thread of its own, `hear` is called with each line, and `at` with each step that begins; at the
    step `kill_at` the command is killed."""

    def __init__(
        self, words: Sequence[str], file: Path, home: Path, hear: Callable[[str], None] = lambda _: None,
        at: Callable[[str], None] = lambda _: None, *, kill_at: str = "",
    ) -> None:  # fmt: skip
        command, *rest = words
        self.lines: list[str] = []
        self._at, self._hear, self._kill_at = at, hear, kill_at
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kproxy", "migrate", command, str(file), *rest],
            env=bare_environment(home) | {"COLUMNS": "200", "PYTHONUNBUFFERED": "1"}, cwd=file.parent,
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace",
        )  # fmt: skip
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            self._hear(self.lines[-1])
            for stage, words in SAYS.items():
                if words in line:
                    if stage == self._kill_at:
                        self.kill()
                    self._at(stage)

    def wait(self) -> int:
        """Wait for the end of the command, or until only its copy back still runs; return the exit code."""
        wait_until(self._code, f"the end of the driver: {self.lines[-1:]}", _PATIENCE)
        code = self._code()
        assert code is not None
        return code[0]

    def _code(self) -> tuple[int] | None:
        code = self.process.poll()
        if code is not None:
            self._thread.join(60)
            return (code,)
        return (DONE,) if any(_GOES_ON in line for line in self.lines) else None

    @property
    def was_killed(self) -> bool:
        return self.process.poll() == _KILLED

    def kill(self) -> None:
        """Kill it with all its descendants, as a machine that fails: none of them can tidy up."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGSTOP)  # so that it starts no more of them
        others = below(self.process.pid)
        self.process.kill()
        for pid, _, _ in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self.process.wait(60)
        self._thread.join(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def held(self) -> float | None:
        """For how many seconds writes were held, as the command says."""
        for line in self.lines:
            if line.startswith("writes were held for "):
                return float(line.split(" ")[4])
        return None
