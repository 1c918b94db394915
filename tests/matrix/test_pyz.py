"""The single file of a release, which runs by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.process import free_window
from tests.matrix import pythons
from tests.matrix.release import SECONDS, environment, make, serves

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(SECONDS)]

FOUND = pythons.found()


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made with the oldest and the newest Python of each minor version that there is here."""
    programs = {one.numbers[:2]: str(one.program) for one in FOUND}
    wanted = f"PYTHONS={' '.join(programs.values())}"
    return make("pyz", tmp_path_factory.mktemp("pyz"), wanted) / "kproxy.pyz"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user. The file unpacks itself there once for each Python."""
    return environment(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("python", FOUND, ids=str)
def test_it_runs_on_each_python(python: pythons.Python, pyz: Path, env: dict[str, str], tmp_path: Path) -> None:
    """It says which it is, and what is wrong in one line."""
    for words, code in ((["--version"], 0), (["run"], 2)):
        command = [str(python.program), str(pyz), *words]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert len((done.stdout + done.stderr).splitlines()) == 1


def test_it_is_a_proxy(pyz: Path, env: dict[str, str], tmp_path: Path) -> None:
    serves([sys.executable, pyz], env, tmp_path)


def test_it_runs_in_the_background(pyz: Path, env: dict[str, str], tmp_path: Path) -> None:
    first = free_window(202)
    profile = tmp_path / "kproxy" / "a.yaml"
    profile.parent.mkdir()
    profile.write_text(
        f"bootstrap-servers: 127.0.0.1:1\nready-requires: none\nlisten: 127.0.0.1:{first + 1}\n"
        f"admin: 127.0.0.1:{first}\n"
    )
    own = env | {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}

    def kproxy(*words: str) -> str:
        command = [sys.executable, str(pyz), *words]
        done = subprocess.run(command, env=own, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    try:
        assert f"bootstrap.servers=127.0.0.1:{first + 1}" in kproxy("up", "@a", "--timeout", "60s")
        assert "@a  not ready, process id " in kproxy("list")
    finally:
        assert kproxy("down", "@a") == "@a has ended\n"
