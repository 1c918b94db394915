"""kproxy on each Python that there is here, installed as a user installs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.rawclient import RawClient
from tests.harness.process import Kproxy
from tests.harness.programs.javac import NotInstalled
from tests.matrix import pythons
from tests.matrix.pythons import ROOT, Python
from tests.matrix.report import FAILS, WORKS, write_section

# The first time an environment is made.
pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1800)]

FOUND = pythons.found()
each_python = pytest.mark.parametrize("python", FOUND, ids=str)


@pytest.fixture(scope="module")
def results() -> Iterator[dict[Python, dict[str, str]]]:
    """By Python and test; written down when all have been run."""
    seen: dict[Python, dict[str, str]] = {python: {} for python in FOUND}
    yield seen
    complete = all("smoke" in seen[python] for python in FOUND)
    if complete and all("unit tests" in seen[python] for python in (FOUND[0], FOUND[-1])):
        write_section(
            "Python",
            [f"{python}: {', '.join(f'{what} {how}' for what, how in seen[python].items())}" for python in FOUND],
        )


@pytest.fixture(scope="module")
def broker() -> Iterator[DevCluster]:
    with DevCluster(brokers=1) as cluster:
        yield cluster


def run(*command: str | Path) -> tuple[int, str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("KPROXY_", "PYTHON"))}
    done = subprocess.run(command, capture_output=True, text=True, env=own, cwd="/", timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def environment(python: Python, pip: Sequence[str] = ()) -> Path:
    try:
        return python.environment(*pip)
    except NotInstalled as reason:
        pytest.skip(str(reason))


@each_python
def test_smoke(python: Python, broker: DevCluster, tmp_path: Path, results: dict[Python, dict[str, str]]) -> None:
    program = environment(python)
    results[python]["smoke"] = FAILS
    kproxy = program.with_name("kproxy")
    code, out, err = run(kproxy, "--version")
    assert (code, err) == (0, "")
    assert out.startswith("kproxy 0.")  # of the wheel's metadata
    code, out, err = run(kproxy, "run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:  # a mistake that is found on the event loop
        listen = "{}:{}".format(*taken.getsockname()[:2])
        code, out, err = run(kproxy, "run", "-b", "127.0.0.1:1", "--no-admin", "--listen", listen)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"kproxy: --listen {listen}: the port is taken")

    class OnThatPython(Kproxy):
        python = str(program)

    with OnThatPython(tmp_path, broker.bootstrap) as proxy:
        with RawClient(proxy.bootstrap) as client:
            assert client.works()
        assert proxy.stop(signal.SIGTERM) == 0
    results[python]["smoke"] = WORKS


@pytest.mark.parametrize("python", sorted({FOUND[0], FOUND[-1]}), ids=str)
def test_unit_tests(python: Python, results: dict[Python, dict[str, str]]) -> None:
    program = environment(python, ("--group", "dev"))
    results[python]["unit tests"] = FAILS
    own = {name: value for name, value in os.environ.items() if not name.startswith(("KPROXY_", "PYTHON", "PYTEST"))}
    command = [program, "-m", "pytest", "-q", "-n", "2", "tests/unit"]
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    results[python]["unit tests"] = WORKS
