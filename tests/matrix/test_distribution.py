"""What a release has: a wheel, a source archive, what they need, and one file that runs by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.harness.clients.rawclient import RawClient
from tests.harness.process import free_window, wait_until
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.matrix import pythons

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1800)]

FOUND = pythons.found()


def make(target: str, directory: Path, *more: str) -> Path:
    command = ["make", "-s", target, f"PYTHON={sys.executable}", f"DIST={directory}", *more]
    done = subprocess.run(command, cwd=pythons.ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return directory


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """twine has found nothing wrong."""
    return make("dist", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made with the oldest and the newest Python of each minor version that there is here."""
    programs = {one.numbers[:2]: str(one.program) for one in FOUND}
    wanted = f"PYTHONS={' '.join(programs.values())}"
    return make("pyz", tmp_path_factory.mktemp("pyz"), wanted) / "kproxy.pyz"


def environment(home: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("KPROXY_", "PYTHON", "XDG_"))}
    return {**own, "HOME": str(home), "PEX_ROOT": str(home / "pex")}


def test_the_archives_have_what_is_needed_and_nothing_else(dist: Path) -> None:
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    needed = {"kproxy/proxy/admin/statuspage/page.html", "kproxy/py.typed", "kproxy/spark/KproxyPlugin.java"}
    assert needed <= in_wheel
    assert all(name.startswith(("kproxy/", "kafka_kproxy-")) for name in in_wheel)
    with tarfile.open(source) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())


@pytest.mark.parametrize("python", sorted({FOUND[0], FOUND[-1]}), ids=str)
def test_the_source_archive_installs(python: pythons.Python, dist: Path, tmp_path: Path) -> None:
    (source,) = dist.glob("*.tar.gz")
    for command in (
        [python.program, "-m", "venv", tmp_path / "env"],
        [tmp_path / "env/bin/python", "-m", "pip", "install", "-q", source],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    said = subprocess.run([tmp_path / "env/bin/kproxy", "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("kproxy 0.")


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with uv and pipx."""
    python = tmp_path_factory.mktemp("installers") / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", python.parents[1]],
        [python, "-m", "pip", "install", "-q", "uv", "pipx"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            pytest.skip(f"uv and pipx: {' '.join(done.stderr.split())[-300:]}")
    return python


@pytest.mark.parametrize(
    "words",
    [("uv", "tool", "install", "--no-managed-python"), ("pipx", "install"), ("pip", "install", "-q", "--target")],
    ids=lambda words: words[0],
)
def test_the_wheel_installs(words: tuple[str, ...], dist: Path, installers: Path, tmp_path: Path) -> None:
    """In a home of its own, with each of the programs that docs/install.md names."""
    (wheel,), target = dist.glob("*.whl"), tmp_path / "target"
    env = environment(tmp_path) | {"UV_CACHE_DIR": str(tmp_path / "cache")}
    where = [str(target)] if words[0] == "pip" else ["--python", sys.executable]
    command = [str(installers), "-m", *words, *where, str(wheel)]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    if words[0] == "pip":
        serves([str(target / "bin" / "kproxy")], env | {"PYTHONPATH": str(target)}, tmp_path)
    else:
        serves([str(tmp_path / ".local" / "bin" / "kproxy")], env, tmp_path)


def test_what_it_needs_is_listed(dist: Path) -> None:
    """As CycloneDX, with versions."""
    listed = json.loads((dist / "kproxy.cdx.json").read_text())
    found = {one["name"]: one["version"] for one in listed["components"]}
    assert {"kafka-kproxy", "kafka-python", "cryptography", "click", "rich"} <= found.keys()


@pytest.mark.parametrize("python", FOUND, ids=str)
def test_one_file_on_each_python(python: pythons.Python, pyz: Path, tmp_path: Path) -> None:
    """It says which it is, and what is wrong in one line."""
    for words, code in ((["--version"], 0), (["run"], 2)):
        done = subprocess.run(
            [python.program, pyz, *words], env=environment(tmp_path), capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert len((done.stdout + done.stderr).splitlines()) == 1


def test_one_file_is_a_proxy(pyz: Path, tmp_path: Path) -> None:
    serves([sys.executable, str(pyz)], environment(tmp_path), tmp_path)


def serves(program: Sequence[str], env: Mapping[str, str], tmp_path: Path) -> None:
    """Start this kproxy, pass a request through it, and end it."""
    broker = FakeBroker()
    first = free_window(202)
    listen = f"127.0.0.1:{first + 1}"
    with Peer(broker) as peer:
        host, _, port = peer.address.rpartition(":")
        broker.nodes = [(1, host, int(port))]
        words = ["run", "-b", peer.address, "--listen", listen, "--admin", f"127.0.0.1:{first}"]
        log = tmp_path / "log"
        with log.open("wb") as out:
            process = subprocess.Popen([*program, *words], env=env, stdout=out, stderr=out)
        try:
            wait_until(lambda: "ready; bootstrap.servers" in log.read_text(), "it is ready", 120)
            with RawClient(listen) as client:
                assert client.works()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()


def test_one_file_in_the_background(pyz: Path, tmp_path: Path) -> None:
    first = free_window(202)
    profile = tmp_path / ".config/kproxy/a.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text(
        f"bootstrap-servers: 127.0.0.1:1\nready-requires: none\nlisten: 127.0.0.1:{first + 1}\n"
        f"admin: 127.0.0.1:{first}\n"
    )

    def kproxy(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, pyz, *words], env=environment(tmp_path), capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    try:
        assert f"bootstrap.servers=127.0.0.1:{first + 1}" in kproxy("up", "@a", "--timeout", "5s")
        assert "@a  not ready, process id " in kproxy("list")
    finally:
        assert kproxy("down", "@a") == "@a has ended\n"
