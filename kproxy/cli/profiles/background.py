"""A kproxy that runs without a terminal: starting it, stopping it, finding it.

The file `running.json` beside its log has its process, distinguished from later ones with the same id, and its admin
endpoint. The file is written once the process exists, and says nothing about its health: for that, kproxy is asked.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kproxy.base.address import Address
from kproxy.base.errors import AdminError, ConfigError
from kproxy.base.printable import one_line
from kproxy.base.process import start_time
from kproxy.cli.profiles import paths
from kproxy.proxy.admin.client import AdminClient

_FILE, _LOG, _FORMER_LOG = "running.json", "log", "log.1"
# A longer log is replaced at the next start; the former one stays beside it.
_LONG_LOG = 10 * 1024 * 1024
_SHOWN_OF_LOG = 20
_LOOK_EVERY = 0.1
_LONGEST_LINE = 500


@dataclass(frozen=True, slots=True)
class BackgroundKproxy:
    """A kproxy in the background."""

    pid: int
    born: str
    """Distinguishes the process from others with the same id, see `process.start_time`."""
    admin: str
    since: float
    """A Unix time."""
    cert: str = ""
    """The file of its certificate, for HTTPS; "" for HTTP."""

    @property
    def lives(self) -> bool:
        """True if the process still exists."""
        return start_time(self.pid) == self.born


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """The access to the admin endpoint of a profile: this token, and HTTPS if there is `tls`."""

    token: str | None = None
    tls: ssl.SSLContext | None = None

    def client(self, kproxy: BackgroundKproxy, seconds: float) -> AdminClient:
        """Return a client of this kproxy. Raises ValueError if the token cannot be one."""
        return AdminClient(Address.parse(kproxy.admin), self.token, seconds, self.tls)

    def page(self, kproxy: BackgroundKproxy) -> str:
        """Return the address of its status page for a browser."""
        return f"{'http' if self.tls is None else 'https'}://{kproxy.admin}/"


@dataclass(frozen=True, slots=True)
class ExitedKproxy:
    """A kproxy that has ended before it was ready."""

    code: int | None
    """The exit code; None if the system has not kept it."""
    lines: Sequence[str]
    """The last lines that it logged."""


def running(name: str) -> BackgroundKproxy | None:
    """Return the kproxy of a profile, if it runs."""
    try:
        content = json.loads((paths.state_directory() / name / _FILE).read_text())
        kproxy = BackgroundKproxy(
            int(content["pid"]),
            str(content["born"]),
            str(content["admin"]),
            float(content["since"]),
            str(content.get("cert", "")),
        )
        Address.parse(kproxy.admin)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return kproxy if 1 < kproxy.pid < 2**31 and kproxy.lives else None


def log_of(name: str) -> Path:
    """Return the log file of a profile."""
    return paths.state_directory() / name / _LOG


@contextlib.contextmanager
def exclusive_lock() -> Iterator[None]:
    """Hold a lock, so that no other command starts or stops a profile meanwhile. Raises ConfigError."""
    path = paths.state_directory()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{path} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def start(name: str, words: Sequence[str], admin: str, cert: str = "") -> BackgroundKproxy:
    """Start `kproxy run` with these words. It has no terminal, and outlives the process that started it."""
    folder = paths.profile_directory(name)
    log = folder / _LOG
    if log.exists() and log.stat().st_size > _LONG_LOG:
        log.replace(folder / _FORMER_LOG)
    log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        # Not `subprocess`, which expects that its caller waits for the process. In a session of its own, the end of a
        # terminal, and Ctrl-C there, are not for it.
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "kproxy", "run", *words],
            os.environ,
            setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log_fd, 1),
                (os.POSIX_SPAWN_DUP2, log_fd, 2),
            ],
        )
    finally:
        os.close(log_fd)
    kproxy = BackgroundKproxy(pid, start_time(pid) or "", admin, time.time(), cert)
    text = json.dumps(asdict(kproxy))
    temporary = folder / f"{_FILE}.new"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
    temporary.replace(folder / _FILE)
    return kproxy


def wait_ready(
    kproxy: BackgroundKproxy, asking: AdminAccess, log: Path, since: int, seconds: float
) -> ExitedKproxy | Sequence[str]:
    """Wait until a kproxy that this process has started is ready; then return an empty sequence.

    Otherwise return why it is not ready after `seconds`, a line each, or how it has ended. `since` is the size of the
    log before the start.
    """
    deadline = time.monotonic() + seconds
    client = asking.client(kproxy, 1.0)
    while True:
        try:
            pid, status = os.waitpid(kproxy.pid, os.WNOHANG)
        except ChildProcessError:  # it has ended where SIGCHLD is ignored
            return ExitedKproxy(None, _last_lines(log, since))
        if pid:
            return ExitedKproxy(os.waitstatus_to_exitcode(status), _last_lines(log, since))
        reasons = client.why_not_ready("one")
        if not reasons or time.monotonic() >= deadline:
            return reasons
        time.sleep(_LOOK_EVERY)


def bootstraps(kproxy: BackgroundKproxy, asking: AdminAccess) -> Sequence[tuple[str, str]]:
    """Return the name of each cluster that it serves, and the bootstrap server for clients. Raises AdminError."""
    status = asking.client(kproxy, 2.0).get("/status")
    try:
        clusters: Any = status["clusters"]  # type: ignore[index]  # caught below
        return [
            (one_line(str(cluster["name"]), 70), one_line(str(cluster["bootstrap"] or cluster["listen"]), 70))
            for cluster in clusters
        ]
    except (TypeError, KeyError):
        raise AdminError(f"the server at {kproxy.admin} is no kproxy") from None


def stop(kproxy: BackgroundKproxy, seconds: float, forget: Callable[[], None]) -> bool:
    """Stop it with SIGTERM: it waits for requests in flight. Return True if it has ended within `seconds`."""
    with contextlib.suppress(ProcessLookupError):
        if kproxy.lives:
            os.kill(kproxy.pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while kproxy.lives:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_EVERY)
    forget()
    return True


def forget(name: str) -> None:
    """Remove the record of a kproxy that has ended."""
    (paths.state_directory() / name / _FILE).unlink(missing_ok=True)


def _last_lines(log: Path, since: int) -> Sequence[str]:
    """Return the last lines that were logged after the first `since` bytes."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, log.stat().st_size - 64 * 1024))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [one_line(line, _LONGEST_LINE) for line in text.splitlines() if line.strip()][-_SHOWN_OF_LOG:]
