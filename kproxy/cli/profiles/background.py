"""A kproxy that goes on without a terminal: beginning it, ending it, those that there are.

What is known of one is in `running.json` beside its log: its process, told from later ones with the same id, and where
it answers. The file is written once the process is there, and says nothing about whether it works: that is asked.
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
# A log that has become longer begins anew at the next start; the former one stays beside it.
_LONG_LOG = 10 * 1024 * 1024
_SHOWN_OF_LOG = 20
_LOOK_EVERY = 0.1
_LONGEST_LINE = 500


@dataclass(frozen=True, slots=True)
class BackgroundKproxy:
    """A kproxy in the background. `born`: what tells its process from others with the same id, see `process.birth`.
    `since` is a Unix time. `cert`: the file of the certificate with which it is asked by HTTPS; "" for HTTP."""

    pid: int
    born: str
    admin: str
    since: float
    cert: str = ""

    @property
    def lives(self) -> bool:
        """Whether the process is still there."""
        return start_time(self.pid) == self.born


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """How the admin endpoint of a profile is asked: with this token, and with HTTPS if there is `tls`."""

    token: str | None = None
    tls: ssl.SSLContext | None = None

    def client(self, kproxy: BackgroundKproxy, seconds: float) -> AdminClient:
        """For asking this one. Raises ValueError if the token cannot be one."""
        return AdminClient(Address.parse(kproxy.admin), self.token, seconds, self.tls)

    def page(self, kproxy: BackgroundKproxy) -> str:
        """Its address for a browser."""
        return f"{'http' if self.tls is None else 'https'}://{kproxy.admin}/"


@dataclass(frozen=True, slots=True)
class ExitedKproxy:
    """It ended before it was ready: its exit code, None if the system has not kept it, and the last lines that it
    logged."""

    code: int | None
    lines: Sequence[str]


def running(name: str) -> BackgroundKproxy | None:
    """That of a profile, if it lives."""
    try:
        said = json.loads((paths.state_directory() / name / _FILE).read_text())
        found = BackgroundKproxy(
            int(said["pid"]), str(said["born"]), str(said["admin"]), float(said["since"]), str(said.get("cert", ""))
        )
        Address.parse(found.admin)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return found if 1 < found.pid < 2**31 and found.lives else None


def log_of(name: str) -> Path:
    """Where it logs."""
    return paths.state_directory() / name / _LOG


@contextlib.contextmanager
def exclusive_lock() -> Iterator[None]:
    """Nobody else begins or ends one meanwhile. Raises ConfigError."""
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
    """Begin `kproxy run` with these words. It has no terminal, and outlives whoever began it."""
    folder = paths.profile_directory(name)
    log = folder / _LOG
    if log.exists() and log.stat().st_size > _LONG_LOG:
        log.replace(folder / _FORMER_LOG)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        # Not `subprocess`, which expects that somebody waits for the process. In a session of its own, the end of a
        # terminal, and Ctrl-C there, are not for it.
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "kproxy", "run", *words],
            os.environ,
            setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, out, 2),
            ],
        )
    finally:
        os.close(out)
    made = BackgroundKproxy(pid, start_time(pid) or "", admin, time.time(), cert)
    text = json.dumps(asdict(made))
    temporary = folder / f"{_FILE}.new"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
    temporary.replace(folder / _FILE)
    return made


def wait_ready(
    kproxy: BackgroundKproxy, asking: AdminAccess, log: Path, since: int, seconds: float
) -> ExitedKproxy | Sequence[str]:
    """Of one that this process has begun, until it is ready: nothing; until so many seconds are over: why it is not, in
    lines; until it has ended. `since` is how long the log was before."""
    until = time.monotonic() + seconds
    client = asking.client(kproxy, 1.0)
    while True:
        try:
            pid, status = os.waitpid(kproxy.pid, os.WNOHANG)
        except ChildProcessError:  # it has ended where SIGCHLD is ignored
            return ExitedKproxy(None, _last_lines(log, since))
        if pid:
            return ExitedKproxy(os.waitstatus_to_exitcode(status), _last_lines(log, since))
        reasons = client.why_not_ready("one")
        if not reasons or time.monotonic() >= until:
            return reasons
        time.sleep(_LOOK_EVERY)


def bootstraps(kproxy: BackgroundKproxy, asking: AdminAccess) -> Sequence[tuple[str, str]]:
    """The name of each cluster that it serves, and what clients use as their bootstrap server. Raises AdminError."""
    status = asking.client(kproxy, 2.0).get("/status")
    try:
        clusters: Any = status["clusters"]  # type: ignore[index]
        return [
            (one_line(str(cluster["name"]), 70), one_line(str(cluster["bootstrap"] or cluster["listen"]), 70))
            for cluster in clusters
        ]
    except (TypeError, KeyError):
        raise AdminError(f"the server at {kproxy.admin} is no kproxy") from None


def stop(kproxy: BackgroundKproxy, seconds: float, forget: Callable[[], None]) -> bool:
    """Let it end as SIGTERM does: it waits for what is in flight. Whether it has, within so many seconds."""
    with contextlib.suppress(ProcessLookupError):
        if kproxy.lives:
            os.kill(kproxy.pid, signal.SIGTERM)
    until = time.monotonic() + seconds
    while kproxy.lives:
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_EVERY)
    forget()
    return True


def forget(name: str) -> None:
    """Nothing runs under this name any more."""
    (paths.state_directory() / name / _FILE).unlink(missing_ok=True)


def _last_lines(log: Path, since: int) -> Sequence[str]:
    """The last lines that were logged behind the first `since` bytes."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, log.stat().st_size - 64 * 1024))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [one_line(line, _LONGEST_LINE) for line in text.splitlines() if line.strip()][-_SHOWN_OF_LOG:]
