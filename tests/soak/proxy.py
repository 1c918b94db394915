"""A kproxy process that is killed and started again at the same ports, stopped, looked at from outside."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kproxy.net.freeports import HOST
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy
from tests.soak.ports import Ports
from tests.soak.site import DOMAIN, Site

PLACES = 150
"""Client connections that one kproxy may have, by --max-connections and by its open files."""

_FILES_BESIDE = 128 + 16  # what kproxy keeps for other things than connections, and listeners
_EXCERPT = 3000  # bytes of the log from where something is wrong
_BAD_WORDS = (b"Traceback", b"defect", b"Task exception", b"never awaited")


@dataclass(frozen=True, slots=True)
class Condition:
    """What one kproxy has at a moment."""

    sessions: float
    in_flight: float
    listeners: float
    files: Counter[str]
    """Open file descriptors, by what they are."""

    rss: int
    """Resident memory, in bytes."""


class Proxy:
    """`bootstrap` is the same for its whole life, however often it is started. `shares`: others may have its ports, as
    one has that is made `beside` it."""

    cluster: str | None = None
    """The name of the cluster that honest clients use, where it has others too."""

    more_memory = 24 << 20
    """What it may have in the end, in bytes, beside what it had when it had served one client."""

    def __init__(
        self,
        name: str,
        directory: Path,
        ports: Ports,
        site: Site,
        *args: str,
        shares: bool = False,
        beside: Proxy | None = None,
    ) -> None:
        self.name = name
        self._directory = directory / name
        nodes = site.here.node_ids
        self.beside = beside
        if beside is not None:
            beside.beside = self
            self._row = beside._row
        else:
            # The local port of a small node id is that many behind the first. A quarter of shared ones is for others.
            self._row = ports.row(2 + max(nodes) * (2 if shares else 1))
        row = self._row
        self.bootstrap = f"{HOST}:{row[0]}"
        self.ports = [self.bootstrap, *(f"{HOST}:{row[1 + node]}" for node in nodes)]
        self._upstream = site.bootstrap
        self._args = (
            # One that is started while every address leads to the other cluster must not take that for its own.
            *("--cluster-id", site.here.cluster_id),
            *("--listen", self.bootstrap, "--node-ports", f"{row[1]}-{row[-1]}", "--max-connections", str(PLACES)),
            *(("--reuse-port",) if shares or beside is not None else ()),
            *args,
        )
        self._more_files = 0
        self._output: int | None = None
        self._running: Kproxy | None = None
        self._looked = 0  # so much of the log has been searched

    def start(self) -> None:
        """Start the process, and return at once."""
        files = _FILES_BESIDE + PLACES * 2
        self._running = Kproxy(
            self._directory,
            self._upstream,
            *self._args,
            forbidden=[DOMAIN],
            ready=False,
            open_files=files + self._more_files,
            output=self._output,
        )

    @property
    def kproxy(self) -> Kproxy:
        assert self._running is not None, f"{self.name} does not run"
        return self._running

    def kill(self) -> None:
        """SIGKILL; it is gone when this returns."""
        running, self._running = self.kproxy, None
        running.process.kill()
        running.process.wait()

    def stop(self) -> None:
        """The orderly end, which must be one."""
        if self._running is not None:
            running, self._running = self._running, None
            code = running.stop()
            assert code == 0, f"{self.name} ended with {code}:\n{running.log[-3000:]}"

    def end(self) -> None:
        """Make sure that it is gone, whatever happened."""
        if self._running is not None:
            with contextlib.suppress(AssertionError):
                self.kill()

    # What it says

    def problems(self) -> list[str]:
        """What is new and wrong: an end that nobody wanted, a defect in the log, an address that leaked."""
        found = []
        running = self._running
        if running is not None and (code := running.process.poll()) is not None and running is self._running:
            found.append(f"{self.name} has ended with {code}: {running.log[-1000:]}")
        with (self._directory / "kproxy.log").open("rb") as file:
            file.seek(self._looked)
            new = file.read()
        at = min((at for word in _BAD_WORDS if (at := new.find(word)) >= 0), default=-1)
        if at >= 0:  # it is not looked beyond: whoever asks again has it whole
            found.append(f"{self.name} says: {new[at : at + _EXCERPT].decode(errors='replace')}")
        else:
            self._looked += new.rfind(b"\n") + 1
        if running is not None and (leaked := running.leaks()):
            found.append(f"{self.name} told a client an advertised address: {leaked[:500]}")
        return found

    def ready(self) -> bool:
        """Whether it says so. Raises AssertionError if it has ended."""
        assert self.kproxy.process.poll() is None, self.problems()
        return self.kproxy.get("/readyz")[0] == 200

    def condition(self) -> Condition:
        kproxy, pid = self.kproxy, self.kproxy.process.pid
        files = _files(pid)  # before the questions, for which it opens some
        return Condition(
            sessions=kproxy.status(self.cluster)["sessions"] + kproxy.metric("kproxy_sessions_open"),
            in_flight=kproxy.metric("kproxy_requests_in_flight"),
            listeners=kproxy.metric("kproxy_listeners", **self._only),
            files=files,
            rss=_rss(pid),
        )

    @property
    def _only(self) -> dict[str, str]:
        return {} if self.cluster is None else {"cluster": self.cluster}

    def serves(self) -> bool:
        """Whether a broker answers at the bootstrap port and at that of each node."""
        nodes = [node["local"] for node in self.kproxy.status(self.cluster)["nodes"]]
        return bool(nodes) and all(_works(where) for where in (self.bootstrap, *nodes))

    def fill(self) -> str:
        """Use all places at once; what was wrong, empty if there are as many as there should be, and no more. While
        another one has the same ports, nobody can say whose places are used."""
        if self.beside is not None and self.beside._running is not None:
            return ""
        with ExitStack() as held:
            for number in range(PLACES):
                if not held.enter_context(RawClient(self.bootstrap)).works():
                    return f"{self.name} has {number} places left of {PLACES}"
            if held.enter_context(RawClient(self.bootstrap)).works():
                return f"{self.name} has more than {PLACES} places"
        return ""


def _works(where: str) -> bool:
    try:
        with RawClient(where) as client:
            return client.works()
    except OSError:
        return False


def _files(pid: int) -> Counter[str]:
    found = Counter[str]()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found[os.readlink(entry).partition(":")[0]] += 1
    return found


def _rss(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def signalled(pid: int, number: signal.Signals) -> bool:
    """Send a signal; whether the process was there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
