"""The compiled data plane (docs/performance.md): a wheel of it in a clean environment, fuzzed, and for long."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.clients.rawclient import RawClient
from tests.harness.process import free_window, wait_until
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.matrix.pythons import ROOT

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(shutil.which("cc") is None, reason="compiling needs a C compiler: apt-get install gcc"),
]


def run(*words: str | Path, cwd: Path = ROOT, seconds: float = 2000, **environment: str) -> str:
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def tree() -> Path:
    """A copy of this checkout with compiled modules in it; its wheel is beside."""
    run("make", "-s", "build/compiled/.unpacked")
    return ROOT / "build/compiled/tree"


def test_the_wheel_is_a_proxy(tree: Path, tmp_path: Path) -> None:
    (wheel,) = tree.parent.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "env")
    run(tmp_path / "env/bin/python", "-m", "pip", "install", "-q", wheel)
    kproxy = tmp_path / "env/bin/kproxy"
    assert run(kproxy, "--version").endswith(" (compiled)\n")
    assert run(kproxy, "--version", KPROXY_PURE="1").endswith(" (pure Python)\n")
    broker = FakeBroker()
    first = free_window(202)
    listen = f"127.0.0.1:{first + 1}"
    with Peer(broker) as peer:
        host, _, port = peer.address.rpartition(":")
        broker.nodes = [(1, host, int(port))]
        log = tmp_path / "log"
        words = ["run", "-b", peer.address, "--listen", listen, "--admin", f"127.0.0.1:{first}"]
        with log.open("wb") as out:
            process = subprocess.Popen([kproxy, *words], stdout=out, stderr=out)
        try:
            wait_until(lambda: "ready; bootstrap.servers" in log.read_text(), "it is ready")
            with RawClient(listen) as client:
                assert client.works()
        finally:
            process.terminate()
            assert process.wait(60) == 0, log.read_text()


@pytest.mark.parametrize("tests", ["tests/fuzz", "tests/unit/proxy/relay/test_references.py"])
def test_for_long(tests: str, tree: Path) -> None:
    """Ten minutes of fuzzing, and ten million frames of each kind. A crash would say where it was."""
    words = (sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "matrix", tests)
    said = run(*words, cwd=tree, PYTHONPATH=str(tree), PYTHONFAULTHANDLER="1", TESTED="compiled")
    assert " passed" in said
    assert "failed" not in said
