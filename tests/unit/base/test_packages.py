"""How kproxy is called among packages, and how others are added to it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kproxy
from kproxy.base.packages import DISTRIBUTION, install_command

ROOT = Path(__file__).parents[3]

# What would fetch a stranger's package: `kproxy` on PyPI is somebody else's, and `kafka-kproxy` belongs to
# nobody so far. `==${TAG}` is the version that the release has published just before.
STRANGER = re.compile(
    r"""(?:pipx?|uv(?:\ tool|\ pip)?)\s+(?:install|run|download)\s+(?:-\S+\s+)*["'`]*(?:kafka-)?kproxy\b(?!-|==\$)
    | pipx\s+inject\s+kproxy\b(?!-)
    | (?<![\w-])kproxy\[(?:gssapi|msk|demo)""",
    re.VERBOSE,
)


def files() -> list[Path]:
    """What is in the repository; in an archive of it, what there is."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    paths = [ROOT / line for line in listed.stdout.splitlines()] or [*ROOT.rglob("*.py"), *ROOT.rglob("*.md")]
    return [path for path in paths if path.is_file() and path != Path(__file__)]


def test_nobody_is_told_to_install_a_stranger_s_package() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files()
        for match in STRANGER.finditer(path.read_bytes().decode(errors="replace"))
    ]
    assert len(files()) > 100
    assert found == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("pip install kproxy", True),
        ("python -m pip install -q 'kproxy[msk]'", True),
        ("`pipx install kproxy`", True),
        ("pipx inject kproxy gssapi", True),
        ("(`kproxy[msk]`)", True),
        ("pip install kafka-kproxy", True),
        ("pip install 'kafka-kproxy[msk]'", True),
        ("pip install '.[msk]'", False),
        ("pipx inject kafka-kproxy gssapi", False),
        ("pip install kafka_kproxy-0.1.0-py3-none-any.whl", False),
        ("pip install .  # kproxy", False),
        ("/opt/kproxy/bin/pip install .", False),
    ],
)
def test_the_pattern(text: str, wrong: bool) -> None:
    assert bool(STRANGER.search(text)) == wrong


def test_the_version_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION
    monkeypatch.setattr(importlib.metadata, "version", {DISTRIBUTION: "1.2.3"}.__getitem__)
    assert kproxy.__version__ == "1.2.3"


def test_packages_are_added_to_the_python_that_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert shlex.split(install_command("gssapi")) == [sys.executable, "-m", "pip", "install", "gssapi"]
    with monkeypatch.context() as patched:
        patched.setattr(importlib.util, "find_spec", lambda name: None)
        monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
        assert shlex.split(install_command("gssapi")) == ["uv", "pip", "install", "--python", sys.executable, "gssapi"]
    prefix = tmp_path / "my kproxy"
    prefix.mkdir()
    (prefix / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    assert install_command("gssapi") == "pipx inject 'my kproxy' gssapi"
