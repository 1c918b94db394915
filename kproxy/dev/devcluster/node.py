"""One JVM of the cluster, a broker or the controller: its directory, process and log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kproxy.base.address import Address
from kproxy.base.watchdog import Watchdog
from kproxy.dev.devcluster.properties import NodeListener, render
from kproxy.dev.devcluster.tools import Programs

# Size of the end of a log that is searched for the reason of a failure, in bytes.
_LOG_TAIL = 64 << 10


class NodeProcess:
    """Starts and ends one JVM; its properties and its readiness are decided elsewhere."""

    def __init__(self, node_id: int, directory: Path) -> None:
        self.id = node_id
        self.directory = directory
        self.listeners: dict[str, NodeListener] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.data.mkdir(parents=True)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The file with the JVM's stdout and stderr, Kafka's log lines included."""
        return self.directory / "kafka.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def started(self) -> bool:
        """True if the node should run: it was started, and neither ended nor killed since."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a process that ended by itself; None while it runs and after `terminate` or `kill`."""
        return None if self._process is None else self._process.poll()

    def bound(self, listener: str) -> Address:
        return self.listeners[listener].bound

    def write(self, properties: Mapping[str, str]) -> Path:
        """Write the configuration file that the next start reads."""
        path = self.directory / "kafka.properties"
        path.write_text(render(properties))
        return path

    def start(self, programs: Programs, heap: str, watchdog: Watchdog, main: str = "kafka.Kafka") -> None:
        """Start the JVM, with this class, and return at once."""
        self.reap(watchdog)
        properties = str(self.directory / "kafka.properties")
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                programs.command(main, properties, heap=heap, log_level="info"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C on the terminal is for the parent to answer
            )
        watchdog.watch(self._process.pid)

    def terminate(self) -> None:
        """Ask for a clean end, and return at once."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, and return at once."""
        self._signal(signal.SIGKILL)

    def wait(self, timeout: float, watchdog: Watchdog) -> bool:
        """Return True if the process ends within `timeout` seconds."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        self.reap(watchdog)
        return True

    def reap(self, watchdog: Watchdog) -> None:
        """Forget a process that has ended."""
        if self._process is not None and self._process.poll() is not None:
            watchdog.forget(self._process.pid)
            self._process = None

    def complaint(self) -> str:
        """Return the line of the log that best explains why the process ended, or ""."""
        lines = self._tail().splitlines()
        for mark in ("Exception: ", "ERROR", "Error"):
            for line in reversed(lines):
                if mark in line and not line.startswith("\tat "):
                    return line.strip()
        return lines[-1].strip() if lines else ""

    @property
    def could_not_bind(self) -> bool:
        """True if the log ends with a port that was taken."""
        tail = self._tail()
        return "Address already in use" in tail or "BindException" in tail

    def _tail(self) -> str:
        """Return the end of the latest process's output."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(self._log_start, os.fstat(log.fileno()).st_size - _LOG_TAIL))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
