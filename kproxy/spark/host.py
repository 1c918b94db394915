"""The one proxy of this host that several processes share: joining it, leaving it, looking at it.

Whoever uses it has a lease there, in the name of a process: a driver, or an executor's JVM. It ends with that process,
or when it is given back. `keeper` keeps the proxy for as long as there are leases; here is what speaks to it. Standard
library only, as executors run it and it must be quick.

A host's proxy is known by the user and the address that it listens on. They meet in a directory of the user's at a
fixed place: TMPDIR and XDG_RUNTIME_DIR are not the same for a driver and the executors beside it.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kproxy.errors import ConfigError, UpstreamError
from kproxy.process import birth

# Between two questions whether it is ready, and for one answer, in seconds.
_ASK_AGAIN, _ANSWER = 0.05, 10.0
_LONGEST = 4 << 20


@dataclass(frozen=True, slots=True)
class Shipped:
    """What every host is told: where the first cluster listens, and the configuration, which may have secrets."""

    listen: str
    text: str = field(repr=False)

    @classmethod
    def from_json(cls, said: str) -> Shipped:
        """What `to_json` made."""
        return cls(**json.loads(said))

    def to_json(self) -> str:
        """One line."""
        return json.dumps({"listen": self.listen, "text": self.text})


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
        born = birth(pid)
        if born is None:
            raise ConfigError(f"there is no process {pid} that could use kproxy on {socket.gethostname()}")
        return cls(pid, born, name)

    @property
    def alive(self) -> bool:
        return birth(self.pid) == self.birth

    def to_dict(self) -> dict[str, Any]:
        return {"pid": self.pid, "birth": self.birth, "name": self.name}


@dataclass(frozen=True, slots=True)
class Answer:
    """How it is with a host's proxy. `failed` says why it can never be, `problem` why it is not ready yet."""

    keeper: int
    kproxy: int | None = None
    bootstrap: str = ""
    ready: bool = False
    problem: str = ""
    failed: str = ""
    leases: tuple[Mapping[str, Any], ...] = ()


def join(shipped: Shipped, lease: Lease, timeout: float = 60.0) -> Answer:
    """Take a lease on this host's proxy, which is started if there is none, and wait until it is ready.

    Raises ConfigError when it cannot be had (its port is another's, by another configuration or program), and
    UpstreamError when it is not ready in `timeout` seconds; it goes on trying then, and the lease holds.
    """
    until = time.monotonic() + timeout
    request = {"join": lease.to_dict(), "python": _python(), "text": shipped.text}
    while True:
        answer = _ask(shipped.listen, request)
        if answer is None:
            _start(shipped)
        elif answer.failed:
            raise ConfigError(f"{socket.gethostname()}: {answer.failed}")
        elif answer.ready:
            return answer
        if time.monotonic() >= until:
            why = answer.problem if answer else "its keeper does not answer"
            raise UpstreamError("timeout", f"{socket.gethostname()}: kproxy is not ready after {timeout:g} s: {why}")
        if answer is not None:
            time.sleep(_ASK_AGAIN)


def leave(shipped: Shipped, lease: Lease) -> None:
    """Give a lease back. The proxy ends a few seconds after the last one."""
    _ask(shipped.listen, {"leave": lease.to_dict()})


def look(listen: str) -> Answer | None:
    """How it is, without a lease; None if there is no proxy."""
    return _ask(listen, {})


def place(listen: str, kind: str) -> Path:
    """Where the `sock`, `lock` or `log` of a host's proxy is. Raises ConfigError if that is no safe place."""
    directory = Path(f"/tmp/kproxy-spark-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigError(f"{directory} is not a directory of this user's alone; remove it, or chmod 700")
    return directory / f"{listen}.{kind}"


def _ask(listen: str, request: Mapping[str, Any]) -> Answer | None:
    """One question and its answer; None if nobody is there, or he is just ending."""
    with socket.socket(socket.AF_UNIX) as keeper:
        keeper.settimeout(_ANSWER)
        try:
            keeper.connect(str(place(listen, "sock")))
            keeper.sendall(json.dumps(request).encode() + b"\n")
            said = read_line(keeper)
        except OSError:
            return None
    return Answer(**json.loads(said)) if said else None


def read_line(peer: socket.socket) -> str:
    """A line of text; "" if there is none. Raises OSError."""
    said = b""
    while not said.endswith(b"\n") and len(said) < _LONGEST:
        chunk = peer.recv(65536)
        if not chunk:
            return ""
        said += chunk
    return said.decode()


def _start(shipped: Shipped) -> None:
    """Start a keeper; when this returns, it listens, or another one does. Raises ConfigError."""
    command = [_python(), "-m", "kproxy.spark.keeper"]
    done = subprocess.run(
        command, input=shipped.to_json(), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True, cwd="/", env=_environment(), check=False,
    )  # fmt: skip
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        raise ConfigError(f"{socket.gethostname()}: kproxy cannot be started: {why}")


def _python() -> str:
    """This interpreter by a path that outlives a YARN container, where it may be reached through a link."""
    directory, name = os.path.split(sys.executable)
    return os.path.join(os.path.realpath(directory), name)


def _environment() -> dict[str, str]:
    """The configuration was shipped: variables that say something else on one of the hosts do not count."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")}
