"""kproxy as the demo starts it: the same command that a user would run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError
from kproxy.base.watchdog import Watchdog
from kproxy.dev.devcluster.trialcluster import ACCEPT_NEW_CLUSTER
from kproxy.net.freeports import HOST, free_ports, is_free
from kproxy.proxy.admin.client import AdminClient

DEFAULT_LISTEN = Address(HOST, 19092)
DEFAULT_ADMIN = Address(HOST, 19091)

_POLL_S = 0.05


class ProxyProcess:
    """One `kproxy run` as a child process."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.listen, self.admin = _addresses()
        self.log = directory / "kproxy.log"
        flags = ["-b", bootstrap, *ACCEPT_NEW_CLUSTER]
        if self.listen != DEFAULT_LISTEN:
            flags += ["--listen", str(self.listen)]
        if self.admin != DEFAULT_ADMIN:
            flags += ["--admin", str(self.admin)]
        self.shown = shlex.join(["kproxy", "run", *flags])
        self._command = [sys.executable, "-m", "kproxy", "run", *flags]
        self._watchdog = Watchdog()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_default(self) -> bool:
        """True if kproxy's default ports were free."""
        return (self.listen, self.admin) == (DEFAULT_LISTEN, DEFAULT_ADMIN)

    def start(self, timeout: float = 30) -> float:
        """Start kproxy, wait until it is ready, and return how many seconds that took.

        Raises UpstreamError if it ends, or is not ready in `timeout` seconds.
        """
        # Only the flags shown count: settings of the user's own would make it another story.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KPROXY_")}
        started = time.monotonic()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C on the terminal is for the demo to answer
            )
        self._watchdog.watch(self._process.pid)
        while not self._is_ready():
            self.check()
            if time.monotonic() - started > timeout:
                raise UpstreamError("timeout", f"kproxy is not ready after {timeout:.0f} s: {self._last_words()}")
            time.sleep(_POLL_S)
        return time.monotonic() - started

    def check(self) -> None:
        """Raise UpstreamError if the process has ended."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise UpstreamError("other", f"kproxy ended with code {code}: {self._last_words()}")

    def wait(self) -> None:
        """Wait until the process ends by itself, and raise UpstreamError then."""
        while True:
            self.check()
            time.sleep(1)

    def stop(self, timeout: float = 15) -> None:
        """End the process cleanly, or by SIGKILL if that takes more than `timeout` seconds."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._watchdog.close()

    def _is_ready(self) -> bool:
        return not AdminClient(self.admin, seconds=2).why_not_ready("one")

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"


def _addresses() -> tuple[Address, Address]:
    """Return kproxy's two default addresses, or others if another process uses their ports."""
    listen, admin = DEFAULT_LISTEN, DEFAULT_ADMIN
    first, second = free_ports(2)
    if not is_free(listen.host, listen.port):
        listen = Address(HOST, first)
    if not is_free(admin.host, admin.port):
        admin = Address(HOST, second)
    return listen, admin
