"""The packages of a release: a wheel, a source archive, and what they need, installed as docs/install.md says.

test_pyz has the single file, test_compiled the compiled wheel, test_image the image.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.matrix import pythons
from tests.matrix.release import SECONDS, environment, make, run, serves

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(SECONDS)]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """twine has found nothing wrong."""
    return make("dist", tmp_path_factory.mktemp("dist"))


def test_the_archives_have_what_is_needed_and_nothing_else(dist: Path) -> None:
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    needed = {"kproxy/proxy/admin/statuspage/page.html", "kproxy/py.typed", "kproxy/spark/KproxyPlugin.java"}
    assert needed <= in_wheel
    assert all(name.startswith(("kproxy/", "kafka_kproxy-")) for name in in_wheel)
    with tarfile.open(source) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())


def test_what_it_needs_is_listed(dist: Path) -> None:
    """As CycloneDX, with versions."""
    listed = json.loads((dist / "kproxy.cdx.json").read_text())
    found = {one["name"]: one["version"] for one in listed["components"]}
    assert {"kafka-kproxy", "kafka-python", "cryptography", "click", "rich"} <= found.keys()


def test_the_source_archive_installs(dist: Path, tmp_path: Path) -> None:
    """With the oldest Python; test_pythons installs the checkout with each."""
    (source,) = dist.glob("*.tar.gz")
    env = environment(tmp_path)
    run(pythons.found()[0].program, "-m", "venv", tmp_path / "env", env=env)
    run(tmp_path / "env/bin/python", "-m", "pip", "install", "-q", source, cwd=tmp_path, env=env)
    serves([tmp_path / "env/bin/kproxy"], env, tmp_path)


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with uv and pipx."""
    python = tmp_path_factory.mktemp("installers") / "bin" / "python"
    run(sys.executable, "-m", "venv", python.parents[1])
    command = [str(python), "-m", "pip", "install", "-q", "uv", "pipx"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
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
    run(installers, "-m", *words, *where, wheel, cwd=tmp_path, env=env)
    if words[0] == "pip":
        serves([target / "bin" / "kproxy"], env | {"PYTHONPATH": str(target)}, tmp_path)
    else:
        serves([tmp_path / ".local" / "bin" / "kproxy"], env, tmp_path)
