"""The process that keeps a host's proxy: `python -m kproxy.spark.keeper ATTEMPT`, with what was shipped on its stdin.

It runs kproxy as its child, starts it again when it ends, and ends with it a few seconds after the last lease. There is
one keeper on a host for each user and address. It holds a lock for as long as it lives, so one that starts while
another ends waits for that. The keeper has the configuration in memory and in pipes only. It uses the standard library
only, so that it stays small.

If a process wants another configuration at the same address, the keeper refuses while somebody uses the proxy. If
nobody does, it makes room at once: no lease is left, or all of them linger, or kproxy has failed and this is a new
attempt.

The Python of kproxy may have come with an application, and go with it. kproxy is then started again with that of
another lease. The keeper itself goes on: it has loaded all that it needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from typing import IO, Any

from kproxy.base.errors import ConfigError
from kproxy.spark import logtail
from kproxy.spark.host import HostConfig, Lease, ProxyState, query_proxy, read_line, runtime_path

# Seconds: how long it stays without a lease, how often it looks whether processes live.
_UNUSED, _LOOK_AGAIN = 3.0, 0.5
# How long a kproxy that ends may take, and how long a keeper waits for another to go or to answer.
_ENDING, _WAITING = 20.0, 25.0
# Between two starts of a kproxy that ends again and again.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Keeper:
    """The leases, and the kproxy that is there because of them."""

    def __init__(self, shipped: HostConfig, listener: socket.socket, log: logtail.HostLog, attempt: str) -> None:
        self._shipped = shipped
        self._log = log
        self._listener = listener
        self._leases: dict[Lease, str] = {}  # and the Python interpreter of each
        self._lingering: set[Lease] = set()
        self._attempts = {attempt}  # those that have been told, or will be, why kproxy failed
        self._leaving = False
        self._unused_since = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._answer)
        self._answered = ProxyState(os.getpid(), problem="kproxy is starting")
        self._worked = False
        self._python = ""  # that runs kproxy
        self._last_words = ""  # of a kproxy that could not start again
        self._kproxy: subprocess.Popen[bytes] | None = None
        self._told_by: socket.socket | None = None  # its end tells kproxy that this process is gone
        self._start_at, self._pause = 0.0, _FIRST_PAUSE

    def run(self) -> None:
        """Until nobody has a lease any more."""
        while self._wanted():
            if self._kproxy is None and not self._answered.failed and time.monotonic() >= self._start_at:
                self._start()
            self._move()
            for key, _ in self._selector.select(_FIRST_PAUSE if self._kproxy is None else _LOOK_AGAIN):
                key.data()
            self._log.empty_if_long()

    def stop(self) -> None:
        """End kproxy. Who comes now finds nobody, and starts a keeper that waits for this one's lock."""
        self._listener.close()
        if self._kproxy is not None and self._told_by is not None:
            self._told_by.close()
            try:
                self._kproxy.wait(_ENDING)
            except subprocess.TimeoutExpired:
                self._kproxy.kill()
                self._kproxy.wait()

    def _wanted(self) -> bool:
        self._leases = {lease: python for lease, python in self._leases.items() if lease.alive}
        if self._leases:
            self._unused_since = time.monotonic()
        return not self._leaving and time.monotonic() < self._unused_since + _UNUSED

    def _in_use(self) -> list[Lease]:
        """The leases of those who are not done."""
        return [lease for lease in self._leases if lease not in self._lingering and lease.alive]

    # Those who ask

    def _answer(self) -> None:
        """All are of this user, as the directory is. Nobody can hold this up for long."""
        peer, _ = self._listener.accept()
        with peer, contextlib.suppress(OSError):
            peer.settimeout(_LOOK_AGAIN)
            said = read_line(peer)
            if said:
                peer.sendall(json.dumps(asdict(self._do(json.loads(said)))).encode() + b"\n")

    def _do(self, request: dict[str, Any]) -> ProxyState:
        if "join" in request:
            return self._join(Lease(**request["join"]), request)
        if "leave" in request:
            self._forget(Lease(**request["leave"]))
        elif "linger" in request:
            self._lingering |= {Lease(**request["linger"])} & self._leases.keys()
        return self._now()

    def _join(self, lease: Lease, request: dict[str, Any]) -> ProxyState:
        again = request["attempt"] in self._attempts
        if request["text"] == self._shipped.text and (again or not self._answered.failed):
            if not self._worked:
                self._attempts.add(request["attempt"])
            if not self._answered.failed:
                self._leases[lease] = request["python"]
                self._lingering.discard(lease)
        elif users := self._in_use():
            who = ", ".join(f"process {user.pid}" + (f" ({user.name})" if user.name else "") for user in users)
            return ProxyState(
                os.getpid(),
                failed=f"kproxy with another configuration listens on {self._shipped.listen} for another application:"
                f" {who}; give this application another listen, or wait until the other application has ended",
            )
        else:
            self._leaving = True
        return self._now()

    def _forget(self, lease: Lease) -> None:
        self._leases.pop(lease, None)
        self._lingering.discard(lease)

    def _now(self) -> ProxyState:
        kproxy = self._kproxy.pid if self._kproxy else None
        leases = tuple(lease.to_dict() for lease in self._in_use())
        return replace(self._answered, kproxy=kproxy, leaving=self._leaving, leases=leases)

    # kproxy

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._python = (self._pythons() or [sys.executable])[-1]
        command = [self._python, "-m", "kproxy.spark.proxy", self._shipped.listen]
        with theirs:
            self._kproxy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs.fileno())
        self._told_by = ours
        self._selector.register(ours, selectors.EVENT_READ, self._told)
        assert self._kproxy.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: that is seen below
            self._kproxy.stdin.write(self._shipped.text.encode())
        with contextlib.suppress(BrokenPipeError):
            self._kproxy.stdin.close()

    def _pythons(self) -> list[str]:
        """Those that are still there: an environment that was shipped goes with its application or executor."""
        return [python for python in self._leases.values() if os.access(python, os.X_OK)]

    def _move(self) -> None:
        """A kproxy whose files have gone would fail when it needs another module: end it, if there is a Python that can
        start the next one."""
        if self._kproxy is not None and not os.access(self._python, os.X_OK) and self._pythons():
            self._last_words = f"the Python that ran kproxy has been removed ({self._python})"
            self._python = self._pythons()[-1]
            self._kproxy.terminate()

    def _told(self) -> None:
        """kproxy says how it is, or has ended."""
        assert self._told_by is not None
        assert self._kproxy is not None
        said = read_line(self._told_by)
        if said:
            self._answered = ProxyState(os.getpid(), **json.loads(said.splitlines()[-1]))
            if self._answered.ready("one"):
                self._worked, self._pause = True, _FIRST_PAUSE
                self._attempts.clear()
            elif self._answered.failed and self._worked:  # what was possible once will be so again
                self._last_words = self._answered.failed
                self._answered = ProxyState(os.getpid(), problem=self._last_words)
            elif self._answered.failed:
                self._leases.clear()
            return
        self._selector.unregister(self._told_by)
        self._told_by.close()
        how = _how(self._kproxy.pid, self._kproxy.wait())
        self._kproxy, self._told_by = None, None
        if not self._answered.failed:
            why, self._last_words = self._last_words or how, ""
            self._answered = ProxyState(os.getpid(), problem=f"{why}; its keeper starts it again")
            sys.stderr.write(logtail.format_line("WARNING", self._answered.problem))
            sys.stderr.flush()
            self._start_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _how(pid: int, code: int) -> str:
    """How that kproxy ended."""
    if code >= 0:
        return f"kproxy (process {pid}) ended with code {code}"
    by = signal.strsignal(-code) or f"signal {-code}"
    return f"kproxy (process {pid}) was ended by a signal ({by})"


def _lock(listen: str) -> IO[str] | None:
    """The lock of the only keeper; None if another is there and answers. Raises ConfigError."""
    path = runtime_path(listen, "lock")
    until = time.monotonic() + _WAITING
    while time.monotonic() < until:
        file = path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Not the lock of one that has just ended, and removed its files.
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
            file.close()
        except BlockingIOError:
            file.close()
            there = query_proxy(listen)
            if there is not None and not there.leaving:
                return None
            time.sleep(_FIRST_PAUSE)
    raise ConfigError(f"the keeper of kproxy on {listen} neither answers nor ends; see {runtime_path(listen, 'log')}")


def _listen(listen: str) -> socket.socket:
    path = runtime_path(listen, "sock")
    path.unlink(missing_ok=True)  # of one that was killed
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(128)
    return listener


def _detach(log: logtail.HostLog) -> None:
    """Go on in a process that nobody waits for, without what this one has open; this one ends."""
    if os.fork():
        os._exit(0)
    for file, opened in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log.to_append())):
        os.dup2(opened, file)
        os.close(opened)
    os.dup2(1, 2)


def main(attempt: str) -> int:
    """The exit code tells who started it whether there is a keeper now, this one or another."""
    shipped = HostConfig.from_json(sys.stdin.read())
    os.umask(0o077)
    try:
        lock = _lock(shipped.listen)
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if lock is None:
        return 0
    with lock:
        keeper = _listen(shipped.listen)
        log = logtail.HostLog(runtime_path(shipped.listen, "log"))
        _detach(log)
        kept = Keeper(shipped, keeper, log, attempt)
        try:
            kept.run()
        finally:
            runtime_path(shipped.listen, "sock").unlink(missing_ok=True)
            kept.stop()
            for kind in ("log", "lock"):
                runtime_path(shipped.listen, kind).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
