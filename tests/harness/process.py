"""A kproxy process under test."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, Self

from prometheus_client.parser import text_string_to_metric_families

# For what must come: so long that a machine on which everything takes ten times as long does not exceed it.
PATIENCE_S = 240


class Claims:
    """Ports that a test process has chosen and that its child may not have bound yet.

    Each port is one byte of a file which all test processes of this user lock (fcntl(2), record locks), so that
    processes that choose at the same moment choose different ports. A process keeps its last few claims; the children
    of older claims have bound their ports by then.
    """

    _KEPT = 4

    def __init__(self) -> None:
        self._own: deque[range] = deque()
        self._file: IO[bytes] | None = None

    def take(self, ports: range) -> bool:
        """Claim these ports; return False if another process has claimed one of them."""
        if any(own.start < ports.stop and ports.start < own.stop for own in self._own):
            return False
        if self._file is None:
            path = Path(tempfile.gettempdir(), f"kproxy-test-ports-{os.getuid()}")
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports.start)
        except OSError:
            return False
        self._own.append(ports)
        if len(self._own) > self._KEPT:
            self.give_back(self._own[0])
        return True

    def give_back(self, ports: range) -> None:
        assert self._file is not None
        self._own.remove(ports)
        fcntl.lockf(self._file, fcntl.LOCK_UN, len(ports), ports.start)


_claims = Claims()


# Below those that brokers take, and far from those that the system hands out by itself.
_PORTS = range(10000, 20000)


def free_window(count: int, avoid: range = range(0)) -> int:
    """Return the first of `count` free and unclaimed ports in a row, none of them in `avoid`.

    It searches all of `_PORTS` once from a random place, and fails only if there is no such window at all.
    """
    starts = len(_PORTS) - count + 1
    begin = (os.getpid() * 331 + time.monotonic_ns() // 1000) % starts
    past = 0
    while past < starts:
        first = _PORTS.start + (begin + past) % starts
        ports = range(first, first + count)
        if (first + count > avoid.start and first < avoid.stop) or not _claims.take(ports):
            past += 1
        elif (taken := _taken(ports)) is not None:
            _claims.give_back(ports)
            past += min(taken - first + 1, starts - (begin + past) % starts)
        else:
            return first
    raise RuntimeError(f"no {count} free ports in a row from {_PORTS.start} to {_PORTS.stop - 1}")


def _taken(ports: range) -> int | None:
    """Return the last of these ports that a socket listens at or has bound; None if all are free.

    A connection that has ended keeps its port for a minute (TIME_WAIT). That does not stop a server, because servers
    bind with SO_REUSEADDR, and so does this function.
    """
    for port in reversed(ports):
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                return port
    return None


def wait_until(reached: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    """Poll until `reached` returns something true, and return it; fail after a bound."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = reached()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s: {what}")


class _Logs(Protocol):
    @property
    def log(self) -> str: ...


def wait_logged(process: _Logs, text: str) -> None:
    """Wait until kproxy's log has the text. Clients may notice earlier, because a separate thread writes the log."""
    wait_until(lambda: text in process.log, f"{text!r} in the log")


class Kproxy:
    """`kproxy run …` as a process with its own ports; `forbidden` names must never reach a client.

    `open_files` limits its files. Without `bootstrap`, a file among `args` names the clusters. With `output`, a file
    descriptor, its output goes there and not to its log.
    """

    # The program that watches for forbidden names; a subclass may have one that does more.
    watched = "tests.harness.programs.watched"
    # And the Python that runs it.
    python = sys.executable

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        *args: str,
        forbidden: Sequence[str] = (),
        ready: bool = True,
        open_files: int | None = None,
        output: int | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._findings = directory / "leaks"
        self.log_path = directory / "kproxy.log"
        listen = int(args[args.index("--listen") + 1].rpartition(":")[2]) if "--listen" in args else 0
        first = free_window(202, avoid=range(listen, listen + 201) if listen else range(0))
        self.admin = f"127.0.0.1:{first}"
        self.bootstrap = f"127.0.0.1:{first + 1}"
        self.first_port = first + 2
        given = [] if "--listen" in args or not bootstrap else ["--listen", self.bootstrap]
        asked = ["-b", bootstrap] if bootstrap else []
        command = ["run", *asked, "--admin", self.admin, *given, *args]
        module = [self.watched, str(self._findings), ",".join(forbidden), "--"] if forbidden else ["kproxy"]
        limited = ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh"] if open_files else []
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*limited, self.python, "-m", *module, *command],
                stdout=log if output is None else output,
                stderr=subprocess.STDOUT,
                cwd=Path(__file__).parents[2],
            )
        if ready:
            self.wait_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def get(self, path: str) -> tuple[int, str]:
        """Return the HTTP status (0: no answer) and the text of an admin page."""
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            if self.process.poll():
                raise AssertionError(f"kproxy ended with {self.process.returncode}:\n{self.log}") from None
            return 0, str(error)

    def wait_ready(self) -> None:
        def ready() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"kproxy ended with {self.process.returncode}:\n{self.log}")
            return self.get("/readyz")[0] == 200

        try:
            wait_until(ready, "kproxy ready")
        except AssertionError as error:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{error}; its log:\n{self.log}") from None

    def status(self, cluster: str | None = None) -> dict[str, Any]:
        """Return the part of /status about this cluster, or about the only one."""
        clusters = json.loads(self.get("/status")[1])["clusters"]
        if cluster is not None:
            clusters = [shown for shown in clusters if shown["name"] == cluster]
        assert len(clusters) == 1
        return dict(clusters[0])

    def node(self, label: str | int) -> dict[str, Any]:
        """Return one node of /status; {} if /status does not have it."""
        return next((node for node in self.status()["nodes"] if node["node"] == str(label)), {})

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with these labels."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    @property
    def rss(self) -> int:
        """Return resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def leaks(self) -> str:
        """Return forbidden text that was sent to a client; empty if none was."""
        return self._findings.read_text(errors="replace") if self._findings.exists() else ""

    def stop(self, number: int = signal.SIGTERM, seconds: float = PATIENCE_S) -> int:
        """End kproxy and return its exit code; fail if it leaked an address or logged a traceback."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"kproxy did not stop within {seconds:g} s:\n{self.log}") from None
        assert not self.leaks(), self.leaks()[:2000]
        assert "Traceback" not in self.log, self.log[-4000:]
        return code
