"""The process that runs a host's proxy: `python -m kproxy.spark.keeper ATTEMPT`, with the configuration on its stdin.

It runs kproxy as its child, restarts it when it ends, and ends with it a few seconds after the last lease. There is one
keeper on a host for each user and address. It holds a lock while it lives, so another one that starts meanwhile waits.
The keeper has the configuration only in memory and in pipes. It uses the standard library only, so that it stays small.

If a process wants another configuration at the same address, the keeper refuses while a process uses the proxy.
Otherwise it makes room at once: if no lease is left, if all of them linger, or if kproxy has failed and this is a new
attempt.

The Python of kproxy may belong to an application, and be removed with it. The keeper then restarts kproxy with the
Python of another lease. The keeper itself continues: it has loaded all modules that it needs.
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
from kproxy.base.messages.start import LISTENER_OF_OTHER_APPLICATION
from kproxy.spark import logtail
from kproxy.spark.host import HostConfig, Lease, ProxyState, query_proxy, read_line, runtime_path

# In seconds: how long the keeper stays without a lease, and how often it checks processes.
_UNUSED, _LOOK_AGAIN = 3.0, 0.5
# In seconds: how long kproxy may take to end, and how long a keeper waits for another one to end or to answer.
_ENDING, _WAITING = 20.0, 25.0
# Pauses between restarts of a kproxy that ends again and again, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Keeper:
    """The leases of a host, and the kproxy that runs because of them."""

    def __init__(self, config: HostConfig, listener: socket.socket, log: logtail.HostLog, attempt: str) -> None:
        self._config = config
        self._log = log
        self._listener = listener
        self._leases: dict[Lease, str] = {}  # the Python interpreter of each lease
        self._lingering: set[Lease] = set()
        self._attempts = {attempt}  # attempts that received, or will receive, the reason why kproxy failed
        self._leaving = False
        self._unused_since = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._serve_request)
        self._state = ProxyState(os.getpid(), problem="kproxy is starting")
        self._was_ready = False
        self._python = ""  # that runs kproxy
        self._end_reason = ""  # the reason why kproxy ended
        self._kproxy: subprocess.Popen[bytes] | None = None
        self._proxy_socket: socket.socket | None = None  # kproxy notices that this process has ended when it closes
        self._start_at, self._pause = 0.0, _FIRST_PAUSE

    def run(self) -> None:
        """Run until the last lease has ended."""
        while self._is_needed():
            if self._kproxy is None and not self._state.failed and time.monotonic() >= self._start_at:
                self._start()
            self._replace_python()
            for key, _ in self._selector.select(_FIRST_PAUSE if self._kproxy is None else _LOOK_AGAIN):
                key.data()
            self._log.empty_if_long()

    def stop(self) -> None:
        """End kproxy. A process that connects now starts a new keeper, which waits for the lock of this one."""
        self._listener.close()
        if self._kproxy is not None and self._proxy_socket is not None:
            self._proxy_socket.close()
            try:
                self._kproxy.wait(_ENDING)
            except subprocess.TimeoutExpired:
                self._kproxy.kill()
                self._kproxy.wait()

    def _is_needed(self) -> bool:
        self._leases = {lease: python for lease, python in self._leases.items() if lease.alive}
        if self._leases:
            self._unused_since = time.monotonic()
        return not self._leaving and time.monotonic() < self._unused_since + _UNUSED

    def _in_use(self) -> list[Lease]:
        """Return the leases that do not linger."""
        return [lease for lease in self._leases if lease not in self._lingering and lease.alive]

    # Requests

    def _serve_request(self) -> None:
        """Answer one request.

        All peers belong to this user, as the directory does, and none can block the keeper for long.
        """
        peer, _ = self._listener.accept()
        with peer, contextlib.suppress(OSError):
            peer.settimeout(_LOOK_AGAIN)
            request = read_line(peer)
            if request:
                peer.sendall(json.dumps(asdict(self._handle(json.loads(request)))).encode() + b"\n")

    def _handle(self, request: dict[str, Any]) -> ProxyState:
        if "join" in request:
            return self._join(Lease(**request["join"]), request)
        if "leave" in request:
            lease = Lease(**request["leave"])
            self._leases.pop(lease, None)
            self._lingering.discard(lease)
        elif "linger" in request:
            self._lingering |= {Lease(**request["linger"])} & self._leases.keys()
        return self._current_state()

    def _join(self, lease: Lease, request: dict[str, Any]) -> ProxyState:
        again = request["attempt"] in self._attempts
        if request["text"] == self._config.text and (again or not self._state.failed):
            if not self._was_ready:
                self._attempts.add(request["attempt"])
            if not self._state.failed:
                self._leases[lease] = request["python"]
                self._lingering.discard(lease)
        elif users := self._in_use():
            who = ", ".join(f"process {user.pid}" + (f" ({user.name})" if user.name else "") for user in users)
            return ProxyState(
                os.getpid(),
                failed=LISTENER_OF_OTHER_APPLICATION(listen=self._config.listen, who=who),
            )
        else:
            self._leaving = True
        return self._current_state()

    def _current_state(self) -> ProxyState:
        kproxy = self._kproxy.pid if self._kproxy else None
        leases = tuple(lease.to_dict() for lease in self._in_use())
        return replace(self._state, kproxy=kproxy, leaving=self._leaving, leases=leases)

    # kproxy

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._python = (self._pythons() or [sys.executable])[-1]
        command = [self._python, "-m", "kproxy.spark.proxy", self._config.listen]
        with theirs:
            self._kproxy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs.fileno())
        self._proxy_socket = ours
        self._selector.register(ours, selectors.EVENT_READ, self._read_proxy_state)
        assert self._kproxy.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: that is seen below
            self._kproxy.stdin.write(self._config.text.encode())
        with contextlib.suppress(BrokenPipeError):
            self._kproxy.stdin.close()

    def _pythons(self) -> list[str]:
        """Return the interpreters that still exist: a shipped environment may be removed with its application."""
        return [python for python in self._leases.values() if os.access(python, os.X_OK)]

    def _replace_python(self) -> None:
        """End a kproxy whose files were removed, since its next import would fail, if there is another Python."""
        if self._kproxy is not None and not os.access(self._python, os.X_OK) and self._pythons():
            self._end_reason = f"the Python that ran kproxy has been removed ({self._python})"
            self._python = self._pythons()[-1]
            self._kproxy.terminate()

    def _read_proxy_state(self) -> None:
        """Read the state that kproxy reports, or notice that kproxy has ended."""
        assert self._proxy_socket is not None
        assert self._kproxy is not None
        line = read_line(self._proxy_socket)
        if line:
            self._state = ProxyState(os.getpid(), **json.loads(line.splitlines()[-1]))
            if self._state.ready("one"):
                self._was_ready, self._pause = True, _FIRST_PAUSE
                self._attempts.clear()
            elif self._state.failed and self._was_ready:  # a proxy that ran once can run again
                self._end_reason = self._state.failed
                self._state = ProxyState(os.getpid(), problem=self._end_reason)
            elif self._state.failed:
                self._leases.clear()
            return
        self._selector.unregister(self._proxy_socket)
        self._proxy_socket.close()
        how = _describe_end(self._kproxy.pid, self._kproxy.wait())
        self._kproxy, self._proxy_socket = None, None
        if not self._state.failed:
            why, self._end_reason = self._end_reason or how, ""
            self._state = ProxyState(os.getpid(), problem=f"{why}; its keeper starts it again")
            sys.stderr.write(logtail.format_line("WARNING", self._state.problem))
            sys.stderr.flush()
            self._start_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _describe_end(pid: int, code: int) -> str:
    """Return how kproxy ended."""
    if code >= 0:
        return f"kproxy (process {pid}) ended with code {code}"
    by = signal.strsignal(-code) or f"signal {-code}"
    return f"kproxy (process {pid}) was ended by a signal ({by})"


def _lock(listen: str) -> IO[str] | None:
    """Return the lock of the only keeper; None if another keeper exists and answers. Raises ConfigError."""
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
            state = query_proxy(listen)
            if state is not None and not state.leaving:
                return None
            time.sleep(_FIRST_PAUSE)
    raise ConfigError(f"the keeper of kproxy on {listen} neither answers nor ends; see {runtime_path(listen, 'log')}")


def _listen(listen: str) -> socket.socket:
    path = runtime_path(listen, "sock")
    path.unlink(missing_ok=True)  # left by a keeper that was killed
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(128)
    return listener


def _detach(log: logtail.HostLog) -> None:
    """Continue in a detached process without the open files of this one; this one ends."""
    if os.fork():
        os._exit(0)
    for file, opened in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log.to_append())):
        os.dup2(opened, file)
        os.close(opened)
    os.dup2(1, 2)


def main(attempt: str) -> int:
    """Return the exit code, which says whether a keeper exists now, this one or another."""
    config = HostConfig.from_json(sys.stdin.read())
    os.umask(0o077)
    try:
        lock = _lock(config.listen)
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if lock is None:
        return 0
    with lock:
        listener = _listen(config.listen)
        log = logtail.HostLog(runtime_path(config.listen, "log"))
        _detach(log)
        running_keeper = Keeper(config, listener, log, attempt)
        try:
            running_keeper.run()
        finally:
            runtime_path(config.listen, "sock").unlink(missing_ok=True)
            running_keeper.stop()
            for kind in ("log", "lock"):
                runtime_path(config.listen, kind).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
