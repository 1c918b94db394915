"""The commands of the README's first minute, as they stand there, on a real cluster.

Only its addresses are those of this cluster, and kproxy's ports are free ones. How kproxy is installed: tests/matrix.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.process import free_window
from tests.harness.topics import needs_kcat
from tests.unit.deploy.deployed import ROOT, shell_lines

pytestmark = pytest.mark.integration

_KPROXY = [sys.executable, "-m", "kproxy"]


def first_minute() -> list[list[str]]:
    """The words of each command under *One minute*."""
    section = (ROOT / "README.md").read_text().partition("\n## One minute\n")[2].partition("\n## ")[0]
    return [shlex.split(line, comments=True) for line in shell_lines(section)]


def command(program: str, **replaced: str) -> list[str]:
    """The one of these commands that begins so, with other addresses."""
    (words,) = (words for words in first_minute() if " ".join(words).startswith(program))
    old = {"broker": "localhost:9092", "listen": "127.0.0.1:19092"}
    for name, new in replaced.items():
        assert old[name] in words
        words = [new if word == old[name] else word for word in words]
    return words


def run(words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, cwd="/", check=False
    )


@pytest.fixture
def python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_it_has_four_commands() -> None:
    assert [" ".join(words[:2]) for words in first_minute()] == ["uv tool", "kproxy doctor", "kproxy run", "kcat -b"]


@pytest.mark.usefixtures("python_path")
def test_the_doctor_names_what_is_wrong_and_what_works(cluster: DevCluster) -> None:
    done = run([*_KPROXY, *command("kproxy doctor", broker=cluster.bootstrap)[1:]])
    assert done.returncode == 1, done.stdout + done.stderr
    assert str(cluster.advertised[1].host) in done.stdout
    works = done.stdout.partition("Works now")[2]
    assert "without kproxy" in works  # the cluster has a second listener, which a client on this machine reaches
    assert any(f"bootstrap.servers={address}" in works for address in cluster.direct_bootstrap.split(","))


@needs_kcat
def test_a_client_fails_without_kproxy_and_works_with_it(cluster: DevCluster, tmp_path: Path) -> None:
    direct = run([*command("kcat", listen=cluster.bootstrap.partition(",")[0])])
    assert str(cluster.advertised[1]) in direct.stdout + direct.stderr

    first = free_window(202)
    listen = f"127.0.0.1:{first + 1}"
    words = [*_KPROXY, *command("kproxy run", broker=cluster.bootstrap)[1:]]
    env = {"PYTHONPATH": str(ROOT), "KPROXY_LISTEN": listen, "KPROXY_ADMIN": f"127.0.0.1:{first}"}
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(words, env={**os.environ, **env}, stdout=out, stderr=out, cwd="/")
    try:
        assert run([*_KPROXY, "wait"], **env).returncode == 0, log.read_text()
        through = run(command("kcat", listen=listen))
        assert through.returncode == 0, through.stderr
        assert str(cluster.advertised[1]) not in through.stdout
        assert f"127.0.0.1:{first + 3}" in through.stdout
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
