"""What a release has, made from this checkout; and a kproxy of it, in an environment of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.harness.clients.rawclient import RawClient
from tests.harness.process import free_window, wait_until
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.matrix.pythons import ROOT

SECONDS = 2000
"""What may take minutes, on a machine that does other things too."""


def run(*words: str | Path, cwd: Path = ROOT, env: Mapping[str, str] = os.environ) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def make(target: str, directory: Path, *more: str) -> Path:
    """Make a target of the Makefile in a directory, with this Python."""
    run("make", "-s", target, f"PYTHON={sys.executable}", f"DIST={directory}", *more)
    return directory


def environment(home: Path) -> dict[str, str]:
    """The environment of a user who has set nothing, with a home of their own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("KPROXY_", "PYTHON", "XDG_"))}
    return {**own, "HOME": str(home), "PEX_ROOT": str(home / "pex")}


def serves(program: Sequence[str | Path], env: Mapping[str, str], directory: Path) -> None:
    """Start this kproxy, pass a request through it, and end it."""
    broker = FakeBroker()
    first = free_window(202)
    listen = f"127.0.0.1:{first + 1}"
    with Peer(broker) as peer:
        host, _, port = peer.address.rpartition(":")
        broker.nodes = [(1, host, int(port))]
        words = ["run", "-b", peer.address, "--listen", listen, "--admin", f"127.0.0.1:{first}"]
        log = directory / "log"
        with log.open("wb") as out:
            process = subprocess.Popen([*program, *words], env=env, stdout=out, stderr=out)
        try:
            wait_until(lambda: "ready; bootstrap.servers" in log.read_text(), "it is ready", 120)
            with RawClient(listen) as client:
                assert client.works()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()
