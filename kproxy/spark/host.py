"""The one proxy of this host that several processes share: joining it, leaving it, looking at it.

A process that uses the proxy has a *lease* there: a driver, or an executor's JVM. The lease ends with that process, or
when it is given back. The *keeper* (`kproxy.spark.keeper`) runs the proxy for as long as there are leases. This module
speaks to the keeper. It uses the standard library only, because executors run it and it must be quick.

A host's proxy is known by the user and by the address that it listens on. The user's processes meet in a directory at a
fixed place, because TMPDIR and XDG_RUNTIME_DIR are not the same for a driver and the executors beside it.
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
from kproxy.base.process import start_time

# Between two questions whether it is ready, and for one answer, in seconds.
_ASK_AGAIN, _ANSWER = 0.05, 10.0
# The longest line between a keeper and those who ask it, in bytes.
_LONGEST = 4 << 20
# How many directories are tried, as another user may have made one of them.
_PLACES = 100


@dataclass(frozen=True, slots=True)
class HostConfig:
    """What every host is told: where the first cluster listens, the configuration, which may have secrets, and how many
    nodes must be reachable there (`ready-requires`)."""

    listen: str
    text: str = field(repr=False)
    requires: str = "all"

    @classmethod
    def from_json(cls, said: str) -> HostConfig:
        """What `to_json` made."""
        return cls(**json.loads(said))

    def to_json(self) -> str:
        """One line."""
        return json.dumps({"listen": self.listen, "text": self.text, "requires": self.requires})


@dataclass(frozen=True, slots=True)
class Lease:
    """For whom the proxy is there: a process (and when it was born, as ids are used again) and, as one process can have
    several applications one after the other, a name."""

    pid: int
    birth: str
    name: str = ""

    @classmethod
    def of(cls, pid: int, name: str = "") -> Lease:
        """Of a process that lives. Raises ConfigError."""
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
    """The state of a host's proxy.

    `not_ready`: for each level of `ready-requires` why clients should wait ("" if they need not); empty while kproxy
    starts. `useless`: for each of these levels why it does not help to wait ("" if it may). `problem`: why kproxy does
    not run. `failed`: why the proxy can never be. `leaving`: the keeper ends, and makes room for another. `leases` do
    not include those that linger.
    """

    keeper: int
    kproxy: int | None = None
    bootstrap: str = ""
    not_ready: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    useless: Mapping[str, str] = field(default_factory=dict)
    failed: str = ""
    leaving: bool = False
    leases: tuple[Mapping[str, Any], ...] = ()

    def ready(self, requires: str = "all") -> bool:
        """Whether clients can use it."""
        return not self.why_not(requires)

    def why_not(self, requires: str = "all") -> str:
        """Why clients should wait; "" if they need not."""
        return self.problem or self.not_ready.get(requires, "kproxy is starting")


def join(
    shipped: HostConfig, lease: Lease, timeout: float = 60.0, given_up: Callable[[], bool] = lambda: False
) -> ProxyState:
    """Take a lease on this host's proxy, which is started if there is none, and wait until it is ready.

    Raises ConfigError if it cannot be had (another configuration or program has its port) or if waiting does not help
    (the brokers refuse the login, a name is not known). Raises UpstreamError if it is not ready in `timeout` seconds,
    or at once when it is given up; it goes on trying then, and the lease holds.
    """
    until = time.monotonic() + timeout
    attempt = uuid4().hex  # tells the keeper that this is one attempt, however often it asks
    request = {"join": lease.to_dict(), "python": _python(), "text": shipped.text, "attempt": attempt}
    host = socket.gethostname()
    while True:
        answer = _ask(shipped.listen, request)
        if answer is None or answer.leaving:
            answer = None
            _start(shipped, attempt, lambda: given_up() or time.monotonic() >= until)
        elif why := answer.failed or answer.useless.get(shipped.requires, ""):
            raise ConfigError(f"{host}: {why}")
        elif answer.ready(shipped.requires):
            return answer
        if time.monotonic() >= until:
            why = answer.why_not(shipped.requires) if answer else "its keeper does not answer"
            raise UpstreamError("timeout", f"{host}: kproxy is not ready after {timeout:g} s: {why}")
        if given_up():
            raise UpstreamError("other", f"{host}: kproxy is not wanted any more")
        if answer is not None:
            time.sleep(_ASK_AGAIN)


def leave(shipped: HostConfig, lease: Lease) -> None:
    """Give a lease back. The proxy ends a few seconds after the last one."""
    _ask(shipped.listen, {"leave": lease.to_dict()})


def linger(shipped: HostConfig, lease: Lease) -> None:
    """The application has ended, but its process has not, and may still use the proxy. The lease then holds until the
    process ends or until somebody wants another configuration at the same address."""
    _ask(shipped.listen, {"linger": lease.to_dict()})


def query_proxy(listen: str) -> ProxyState | None:
    """How it is, without a lease; None if there is no proxy."""
    return _ask(listen, {})


def runtime_path(listen: str, kind: str) -> Path:
    """Where the `sock`, `lock` or `log` of a host's proxy is. Raises ConfigError if there is no safe place."""
    for directory in _directories():
        if _own(directory):
            return directory / f"{listen}.{kind}"
    for directory in _directories():
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            if not _own(directory):  # another process of this user may have made it just now
                continue
        return directory / f"{listen}.{kind}"
    first = next(_directories())
    raise ConfigError(f"{first} and {_PLACES - 1} more are not directories of this user alone: remove them")


def _directories() -> Iterator[Path]:
    """Where to meet, in order. Everybody may make directories in /tmp, so another user may have made the first."""
    yield Path(f"/tmp/kproxy-spark-{os.getuid()}")
    for number in range(1, _PLACES):
        yield Path(f"/tmp/kproxy-spark-{os.getuid()}-{number}")


def _own(directory: Path) -> bool:
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _ask(listen: str, request: Mapping[str, Any]) -> ProxyState | None:
    """One question and its answer; None if nobody is there, or the keeper is just ending."""
    with socket.socket(socket.AF_UNIX) as keeper:
        keeper.settimeout(_ANSWER)
        try:
            keeper.connect(str(runtime_path(listen, "sock")))
            keeper.sendall(json.dumps(request).encode() + b"\n")
            said = read_line(keeper)
        except OSError:
            return None
    return ProxyState(**json.loads(said)) if said else None


def read_line(peer: socket.socket) -> str:
    """A line of text; "" if there is none. Raises OSError."""
    said = b""
    while not said.endswith(b"\n") and len(said) < _LONGEST:
        chunk = peer.recv(65536)
        if not chunk:
            return ""
        said += chunk
    return said.decode()


def _start(shipped: HostConfig, attempt: str, given_up: Callable[[], bool]) -> None:
    """Start a keeper; when this returns, it listens, or another one does, or it is given up. Raises ConfigError."""
    command = [_python(), "-m", "kproxy.spark.keeper", attempt]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd="/",
        env=_environment(),
    ) as keeper:
        # Not `communicate`: what it has not written when its time is over, it never writes, and the keeper would wait.
        stdin, keeper.stdin = keeper.stdin, None
        threading.Thread(target=_tell, args=(stdin, shipped.to_json()), daemon=True).start()
        while True:
            try:
                code = keeper.wait(_ASK_AGAIN)
                break
            except subprocess.TimeoutExpired:
                if given_up():  # it waits until another has ended
                    keeper.kill()
                    return
        errors = keeper.stderr.read() if code and keeper.stderr is not None else ""
    if code:
        why = (errors.strip().splitlines() or [f"it ended with code {code}"])[-1]
        raise ConfigError(f"{socket.gethostname()}: kproxy cannot be started: {why}")


def _tell(stdin: IO[str], said: str) -> None:
    with suppress(OSError), stdin:  # it may have ended
        stdin.write(said)


def _python() -> str:
    """This interpreter by a path that outlives a YARN container, where it may be reached through a link."""
    directory, name = os.path.split(sys.executable)
    return os.path.join(os.path.realpath(directory), name)


def _environment() -> dict[str, str]:
    """The configuration was shipped: variables that say something else on one of the hosts do not count."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")}
