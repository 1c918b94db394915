"""The one proxy of this host, which several processes share: joining it, leaving it, querying it.

A process that uses the proxy has a *lease*: a driver, or an executor's JVM. The lease ends with that process, or when
the process gives it back. The *keeper* (`kproxy.spark.keeper`) runs the proxy while there are leases. This module talks
to the keeper. It uses the standard library only, because executors run it and it must be quick.

A host's proxy is identified by its user and its listen address. The user's processes meet in a directory at a fixed
place, because TMPDIR and XDG_RUNTIME_DIR differ between a driver and the executors beside it.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from kproxy.base.errors import ConfigError, UpstreamError
from kproxy.base.messages.start import KPROXY_NOT_READY
from kproxy.base.process import parent_pid, start_time

# How often the state is requested, and the timeout of one reply, in seconds.
_POLL_INTERVAL, _REPLY_TIMEOUT = 0.05, 10.0
# Maximum length of a request or reply, in bytes.
_MAX_LINE = 4 << 20
# Maximum number of directories that are tried, because another user may own one of them.
_MAX_DIRECTORIES = 100


@dataclass(frozen=True, slots=True)
class HostConfig:
    """The configuration that each host receives. It may have secrets."""

    listen: str
    """Address on which the first cluster listens."""
    text: str = field(repr=False)
    """The configuration, as YAML."""
    requires: str = "all"
    """The number of nodes that must be reachable: `ready-requires`."""

    @classmethod
    def from_json(cls, text: str) -> HostConfig:
        """Parse the text of `to_json`."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps({"listen": self.listen, "text": self.text, "requires": self.requires})


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of a process to use the proxy."""

    pid: int
    birth: str
    """Start time of the process, since process ids are reused."""
    name: str = ""
    """Name of the application, as a process can have several applications one after the other."""

    @classmethod
    def of(cls, pid: int, name: str = "") -> Lease:
        """Return a lease of a running process. Raises ConfigError."""
        born = start_time(pid)
        if born is None:
            raise ConfigError(f"there is no process {pid} that could use kproxy on {socket.gethostname()}")
        return cls(pid, born, name)

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.birth

    def to_dict(self) -> dict[str, Any]:
        return {"pid": self.pid, "birth": self.birth, "name": self.name}


@dataclass(frozen=True, slots=True)
class ProxyState:
    """The state of a host's proxy, as its keeper reports it."""

    keeper: int
    kproxy: int | None = None
    bootstrap: str = ""
    not_ready: Mapping[str, str] = field(default_factory=dict)
    """Reasons why clients should wait, by level of `ready-requires`; "" if they need not. Empty while kproxy starts."""
    problem: str = ""
    """Reason why kproxy does not run."""
    useless: Mapping[str, str] = field(default_factory=dict)
    """Reasons why waiting does not help, by level of `ready-requires`; "" if it may."""
    failed: str = ""
    """Reason why this proxy can never run."""
    leaving: bool = False
    """True if the keeper ends and makes room for another."""
    leases: tuple[Mapping[str, Any], ...] = ()
    """Leases, without those that linger."""

    def ready(self, requires: str = "all") -> bool:
        """Return True if clients can use the proxy."""
        return not self.why_not(requires)

    def why_not(self, requires: str = "all") -> str:
        """Return the reason why clients should wait, "" if they need not."""
        return self.problem or self.not_ready.get(requires, "kproxy is starting")


def join(
    config: HostConfig, lease: Lease, timeout: float = 60.0, is_abandoned: Callable[[], bool] = lambda: False
) -> ProxyState:
    """Take a lease on this host's proxy, start the proxy if there is none, and wait until it is ready.

    Raises ConfigError if that is impossible (another configuration or program has its port) or if waiting does not help
    (the brokers refuse the login, a name is unknown). Raises UpstreamError if it is not ready in `timeout` seconds, or
    at once when `is_abandoned` returns True. The proxy continues to try then, and the lease remains.
    """
    deadline = time.monotonic() + timeout
    attempt = uuid4().hex  # tells the keeper that this is one attempt, however often it asks
    request = {"join": lease.to_dict(), "python": _python(), "text": config.text, "attempt": attempt}
    host = socket.gethostname()
    while True:
        state = _request(config.listen, request)
        if state is None or state.leaving:
            state = None
            _start(config, attempt, lambda: is_abandoned() or time.monotonic() >= deadline)
        elif why := state.failed or state.useless.get(config.requires, ""):
            raise ConfigError(f"{host}: {why}")
        elif state.ready(config.requires):
            return state
        if time.monotonic() >= deadline:
            why = state.why_not(config.requires) if state else "its keeper does not answer"
            raise UpstreamError(*KPROXY_NOT_READY.with_reason(host=host, timeout=timeout, why=why))
        if is_abandoned():
            raise UpstreamError("other", f"{host}: kproxy is not wanted any more")
        if state is not None:
            time.sleep(_POLL_INTERVAL)


def leave(config: HostConfig, lease: Lease) -> None:
    """Give a lease back. The proxy ends a few seconds after the last one."""
    _request(config.listen, {"leave": lease.to_dict()})


def linger(config: HostConfig, lease: Lease) -> None:
    """Keep the lease of an application that has ended, but whose process may still use the proxy.

    The lease ends with the process, or when another configuration needs the same address.
    """
    _request(config.listen, {"linger": lease.to_dict()})


def query_proxy(listen: str) -> ProxyState | None:
    """Return the state of the proxy, without a lease; None if there is no proxy."""
    return _request(listen, {})


def runtime_path(listen: str, kind: str) -> Path:
    """Return the path of the `sock`, `lock` or `log` of a host's proxy.

    Raises ConfigError if there is no safe directory.
    """
    for directory in _directories():
        if _is_private(directory):
            return directory / f"{listen}.{kind}"
    for directory in _directories():
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            if not _is_private(directory):  # another process of this user may have made it just now
                continue
        return directory / f"{listen}.{kind}"
    first = next(_directories())
    raise ConfigError(f"{first} and {_MAX_DIRECTORIES - 1} more are not directories of this user alone: remove them")


def _directories() -> Iterator[Path]:
    """Yield the possible directories in order. Any user may make directories in /tmp, also the first of these."""
    yield Path(f"/tmp/kproxy-spark-{os.getuid()}")
    for number in range(1, _MAX_DIRECTORIES):
        yield Path(f"/tmp/kproxy-spark-{os.getuid()}-{number}")


def _is_private(directory: Path) -> bool:
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _request(listen: str, request: Mapping[str, Any]) -> ProxyState | None:
    """Send a request and return the reply; None if there is no keeper, or it is just ending."""
    with socket.socket(socket.AF_UNIX) as keeper:
        keeper.settimeout(_REPLY_TIMEOUT)
        try:
            keeper.connect(str(runtime_path(listen, "sock")))
            keeper.sendall(json.dumps(request).encode() + b"\n")
            reply = read_line(keeper)
        except OSError:
            return None
    return ProxyState(**json.loads(reply)) if reply else None


def read_line(peer: socket.socket) -> str:
    """Return a line of text, "" if there is none.

    Raises OSError.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) < _MAX_LINE:
        chunk = peer.recv(65536)
        if not chunk:
            return ""
        line += chunk
    return line.decode()


def _start(config: HostConfig, attempt: str, is_abandoned: Callable[[], bool]) -> None:
    """Start a keeper, and return when it or another one listens, or the wait is abandoned. Raises ConfigError."""
    command = [_python(), "-m", "kproxy.spark.keeper", attempt]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd="/",
        # Variables of kproxy would override the shipped configuration.
        env={name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")},
    ) as keeper:
        # Not `communicate`: what it has not written when its time is over, it never writes, and the keeper would wait.
        stdin, keeper.stdin = keeper.stdin, None
        threading.Thread(target=_write_input, args=(stdin, config.to_json()), daemon=True).start()
        while True:
            try:
                code = keeper.wait(_POLL_INTERVAL)
                break
            except subprocess.TimeoutExpired:
                if is_abandoned():  # it waits until another has ended
                    keeper.kill()
                    return
        errors = keeper.stderr.read() if code and keeper.stderr is not None else ""
    if code:
        why = (errors.strip().splitlines() or [f"it ended with code {code}"])[-1]
        raise ConfigError(f"{socket.gethostname()}: kproxy cannot be started: {why}")


def _write_input(stdin: IO[str], text: str) -> None:
    with suppress(OSError), stdin:  # it may have ended
        stdin.write(text)


def _python() -> str:
    """Return this interpreter by a path that outlives a YARN container, where it may be a link."""
    directory, name = os.path.split(sys.executable)
    return os.path.join(os.path.realpath(directory), name)


def find_own_jvm() -> tuple[int, str]:
    """Return the process id of the JVM for which this Python process works, and its executor's id.

    The parent is the JVM or, usually, pyspark's daemon between the two. Raises OSError if there is no such JVM.
    """
    pid = os.getppid()
    while pid > 1:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        # So all of Spark's cluster managers name it.
        if "--executor-id" in words[:-1]:
            return pid, words[words.index("--executor-id") + 1]
        pid = parent_pid(pid)
    raise OSError("no process above this one is an executor of Spark's")
